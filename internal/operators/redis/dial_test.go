package redis

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

var errKilled = errors.New("the process was killed")

// killer counts the requests of a process and kills it at one of them, as kill -9 does: all connections end, and nothing
// is sent any more.
type killer struct {
	dial dialFunc
	at   int  // the request, counted from 1; those about Events do not count
	late bool // after the server has it; otherwise before

	mu    sync.Mutex // guards what follows
	count int
	dead  bool
	conns []net.Conn
}

func (k *killer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
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

// request counts a request that is about to be sent, and says whether it is the one, and whether the process still lives.
func (k *killer) request(b []byte) (now, alive bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return false, false
	}
	if line, _, _ := bytes.Cut(b, []byte("\r\n")); bytes.Contains(line, []byte("/events")) {
		return false, true
	}
	k.count++
	return k.count == k.at, true
}

func (k *killer) die() {
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

func (k *killer) killed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

type killable struct {
	net.Conn
	k *killer
}

// Write sends a request: net/http writes those of this test, which are small, in one piece.
func (c *killable) Write(b []byte) (int, error) {
	now, alive := c.k.request(b)
	switch {
	case !alive, now && !c.k.late:
		c.k.die()
		return 0, errKilled
	case now:
		n, err := c.Conn.Write(b)
		c.k.die()
		return n, err
	}
	return c.Conn.Write(b)
}
