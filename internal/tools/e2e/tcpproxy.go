package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// TCPProxy forwards loopback connections to an address and counts them, so that a test sees how often a client dials
// also while the server is down, when nothing else can count.
type TCPProxy struct {
	Addr  string
	dials atomic.Int64

	listener net.Listener
	target   string
	wg       sync.WaitGroup
	mu       sync.Mutex // guards conns
	conns    map[net.Conn]bool
	gate     sync.RWMutex // locked while nothing is passed on
}

// Freeze stops to pass on anything, as a network does that drops all packets, until Thaw. Close needs it thawed.
func (p *TCPProxy) Freeze() { p.gate.Lock() }

// Thaw ends Freeze.
func (p *TCPProxy) Thaw() { p.gate.Unlock() }

// gated writes while its proxy is not frozen.
type gated struct {
	io.Writer
	gate *sync.RWMutex
}

func (g gated) Write(b []byte) (int, error) {
	g.gate.RLock()
	defer g.gate.RUnlock()
	return g.Writer.Write(b)
}

// StartTCPProxy listens on a free port.
func StartTCPProxy(target string) (*TCPProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	p := &TCPProxy{Addr: l.Addr().String(), listener: l, target: target, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Dials is how many connections were opened to the proxy so far.
func (p *TCPProxy) Dials() int { return int(p.dials.Load()) }

// Close breaks all connections and returns when nothing runs any more.
func (p *TCPProxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *TCPProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // one client gave up while it was in the backlog
		}
		p.dials.Add(1)
		p.wg.Go(func() { p.forward(client) })
	}
}

// forward copies both ways until one side ends. A target that refuses looks to the client like a server that hangs up.
func (p *TCPProxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, client)
		delete(p.conns, server)
		p.mu.Unlock()
	}()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		p.wg.Go(func() {
			// How the connection ended does not matter, only that it did.
			io.Copy(gated{way[0], &p.gate}, way[1])
			ended <- struct{}{}
		})
	}
	<-ended
}
