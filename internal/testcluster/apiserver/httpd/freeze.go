package httpd

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"sync/atomic"
	"time"
)

// silent discards net/http's messages about broken connections: tests break them on purpose.
var silent = log.New(io.Discard, "", 0)

// freezer makes connections silent, as a firewall does that drops their state.
type freezer struct {
	on     atomic.Bool
	forget time.Duration // connections that were idle for longer are dead; 0 = never
}

// frozenConn is the server's end of a connection. While it is frozen, bytes in both directions are lost. After a loss
// it stays silent for good, as TCP does across a gap.
type frozenConn struct {
	net.Conn
	f    *freezer
	lost atomic.Bool
	used atomic.Int64 // when bytes went through last, in Unix nanoseconds
}

func (c *frozenConn) dead() bool {
	now := time.Now().UnixNano()
	idle := now - c.used.Swap(now)
	if c.f.on.Load() || c.f.forget > 0 && idle > int64(c.f.forget) {
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
	frozen := &frozenConn{Conn: c, f: l.f}
	frozen.used.Store(time.Now().UnixNano())
	return frozen, nil
}

// numbered is the connection of a request: the context of the request has it under connKey.
type numbered struct {
	net.Conn
	serial int
	since  time.Time
}

type connKey struct{}

// number returns the http.Server.ConnContext of a listener, which numbers its connections.
func number() func(context.Context, net.Conn) context.Context {
	var last atomic.Int64
	return func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, numbered{c, int(last.Add(1)) - 1, time.Now()})
	}
}

// Serial returns the number of a request's connection, from 0, in the order in which its listener took them.
func Serial(ctx context.Context) int {
	c, _ := ctx.Value(connKey{}).(numbered)
	return c.serial
}

// connOf returns the connection of a request, nil if another server than ours serves it.
func connOf(ctx context.Context) *frozenConn {
	c, _ := ctx.Value(connKey{}).(numbered)
	conn := c.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	f, _ := conn.(*frozenConn)
	return f
}

// HangUp closes the connection of a request without a close_notify, with RST instead of FIN over TCP if reset is set.
func HangUp(ctx context.Context, reset bool) {
	f := connOf(ctx)
	if f == nil {
		return
	}
	if t, ok := f.Conn.(*net.TCPConn); ok && reset {
		t.SetLinger(0) // an error means that the connection is gone
	}
	f.Close() // likewise
}

// Silence makes the connection of a request silent for good, without closing it.
func Silence(ctx context.Context) {
	if f := connOf(ctx); f != nil {
		f.lost.Store(true)
	}
}
