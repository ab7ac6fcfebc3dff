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

// Killer kills a process at its N-th request, as kill -9 does: its connections end and it sends nothing more.
type Killer struct {
	At   int  // N, counted from 1; requests about Events do not count
	Late bool // kill after the request was sent, otherwise before
	dial dialFunc

	mu    sync.Mutex // guards what follows
	count int
	dead  bool
	conns []net.Conn
}

// Dial opens a connection of the process.
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

// request counts a request before it is sent. It reports whether to kill the process now, and whether it is alive.
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
		_ = c.Close() // closing a net.Pipe cannot fail
	}
}

// Killed reports whether the process has been killed.
func (k *Killer) Killed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

type killable struct {
	net.Conn
	k *Killer
}

// Write sends a request. net/http writes the small requests of these tests with one call.
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

var killStep = flag.Int("kill-step", 61, "kill the controller at every N-th of its requests; 1 = at each")

// KillAtAnyRequest runs the same scenario once per request and kills the controller at that request. The scenario
// calls start to start the controller, and pass to let time pass; pass restarts a killed controller.
func KillAtAnyRequest(t *testing.T, o Options, scenario func(w *Env, start func(), pass func(time.Duration))) {
	o.Quiet = true
	for at, over := 1, false; !over; at += *killStep {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("at request %d, after it was sent %t", at, late), func(t *testing.T) {
				Run(t, o, func(w *Env) {
					k := &Killer{At: at, Late: late}
					revived := false
					scenario(w, func() { w.StartToBeKilled(k) }, func(d time.Duration) {
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
