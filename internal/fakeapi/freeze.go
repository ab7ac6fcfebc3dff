package fakeapi

import (
	"io"
	"log"
	"net"
	"sync/atomic"
)

// silent discards net/http's messages about broken connections: tests break them on purpose.
var silent = log.New(io.Discard, "", 0)

// freezer makes connections silent, as a firewall does that drops their state.
type freezer struct{ on atomic.Bool }

func (f *freezer) wrap(c net.Conn) net.Conn { return &frozenConn{Conn: c, f: f} }

// frozenConn is the server's end of a connection. While it is frozen, bytes in both directions are lost. After a loss
// it stays silent for good, as TCP does across a gap.
type frozenConn struct {
	net.Conn
	f    *freezer
	lost atomic.Bool
}

func (c *frozenConn) dead() bool {
	if c.f.on.Load() {
		c.lost.Store(true)
	}
	return c.lost.Load()
}

func (c *frozenConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dead() {
			return n, err
		}
	}
}

func (c *frozenConn) Write(b []byte) (int, error) {
	if c.dead() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

type freezingListener struct {
	net.Listener
	f *freezer
}

func (l *freezingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.f.wrap(c), nil
}
