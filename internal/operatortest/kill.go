package operatortest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

var errKilled = errors.New("the process was killed")

// Killer counts the requests of a process and kills it at one of them, as kill -9 does: all connections end, and
// nothing is sent any more.
type Killer struct {
	At   int  // the request, counted from 1; those about Events do not count
	Late bool // after the server has it; otherwise before
	dial dialFunc

	mu    sync.Mutex // guards what follows
	count int
	dead  bool
	conns []net.Conn
}

// Dial connects the process.
func (k *Killer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return nil, errKilled
	}
	c, err := k.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k.conns = append(k.conns, c)
	return &killable{Conn: c, k: k}, nil
}

// request counts a request that is about to be sent, and says whether it is the one, and whether the process still
// lives.
func (k *Killer) request(b []byte) (now, alive bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return false, false
	}
	if line, _, _ := bytes.Cut(b, []byte("\r\n")); bytes.Contains(line, []byte("/events")) {
		return false, true
	}
	k.count++
	return k.count == k.At, true
}

func (k *Killer) die() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return
	}
	k.dead = true
	for _, c := range k.conns {
		_ = c.Close() // of a net.Pipe: cannot fail
	}
}

// Killed says whether it has come to that.
func (k *Killer) Killed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

type killable struct {
	net.Conn
	k *Killer
}

// Write sends a request: net/http writes those of this test, which are small, in one piece.
func (c *killable) Write(b []byte) (int, error) {
	now, alive := c.k.request(b)
	switch {
	case !alive, now && !c.k.Late:
		c.k.die()
		return 0, errKilled
	case now:
		n, err := c.Conn.Write(b)
		c.k.die()
		return n, err
	}
	return c.Conn.Write(b)
}

var killStep = flag.Int("kill-step", 29, "kill the controller at each of its requests that this divides; 1 = at each")

// KillAtAnyRequest lives the same life again and again. Each time the controller, which the life starts by start, is
// killed at another one of its requests, and started again at the end of the step (pass) in which that has happened.
func KillAtAnyRequest(t *testing.T, o Options, life func(w *World, start func(), pass func(time.Duration))) {
	o.Quiet = true
	for at, over := 1, false; !over; at += *killStep {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("at %d, the server has it %t", at, late), func(t *testing.T) {
				Run(t, o, func(w *World) {
					k := &Killer{At: at, Late: late}
					revived := false
					life(w, func() { w.StartToBeKilled(k) }, func(d time.Duration) {
						w.Pass(d)
						if k.Killed() && !revived {
							revived = true
							w.Stop()
							w.Start()
							w.Pass(d)
						}
					})
					over = !k.Killed()
				})
			})
		}
	}
}
