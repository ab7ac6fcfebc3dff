package listen

import (
	"context"
	"crypto/tls"
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

// connKey is the context key of a request's connection.
type connKey struct{}

// keepConn is http.Server.ConnContext of all servers.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// HangUp closes the connection of a request, with RST instead of FIN over TCP if reset is set.
func HangUp(ctx context.Context, reset bool) {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return // served by another server than ours
	}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // without a close_notify
	}
	if f, ok := conn.(*frozenConn); ok && reset {
		if t, ok := f.Conn.(*net.TCPConn); ok {
			t.SetLinger(0) // an error means that the connection is gone
		}
	}
	conn.Close() // likewise
}
