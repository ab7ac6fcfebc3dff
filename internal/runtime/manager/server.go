package manager

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/process"
)

const (
	// A kubelet or a Prometheus sends a few hundred bytes, and waits a second or ten for the answer by default.
	serverTimeout = 10 * time.Second
	// serverIdle keeps a connection between two scrapes or probes: longer than any usual period.
	serverIdle = 2 * time.Minute
	// closeTimeout is how long an answer under way may take once everything else has stopped.
	closeTimeout = time.Second
)

// endpoint is an HTTP server of the manager that is open.
type endpoint struct {
	server *http.Server
	url    string             // of the live page
	stop   context.CancelFunc // ends answers that have no end of their own: streams of the live page
	done   chan struct{}
}

// The contents that the servers of a Manager serve.
const (
	Probes     = "probes"
	Metrics    = "metrics"
	DebugPages = "debug pages"
	LivePage   = "the live page"
)

// ListenError is an address of Options on which the Manager cannot serve.
type ListenError struct {
	What    string // Probes, Metrics, DebugPages or LivePage
	Address string
	Err     error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("serve %s on %s: %v", e.What, e.Address, e.Err)
}
func (e *ListenError) Unwrap() error { return e.Err }

// served describes a server.
type served struct {
	what, address string
	others        []string // addresses to take while the first is in use
	handler       http.Handler
	slow          bool // answers may take as long as the client asks for: a profile
}

// where is the address in the log: the URL, where a browser shows the content.
func (s served) where(l net.Listener) []any {
	if s.what == LivePage {
		return []any{"url", pageURL(l)}
	}
	return []any{"address", l.Addr().String()}
}

// pageURL is the URL of the live page.
func pageURL(l net.Listener) string { return "http://" + l.Addr().String() + "/debug/" }

// open listens and serves, so that a probe finds an answer before anything else is up. An error that ends a server
// later goes to failed. nil stands for no server.
func (m *Manager) open(s served, failed chan<- error) (*endpoint, error) {
	if none(s.address) {
		return nil, nil
	}
	l, err := m.listen("tcp", s.address)
	for i := 0; i < len(s.others) && errors.Is(err, syscall.EADDRINUSE); i++ {
		l, err = m.listen("tcp", s.others[i])
	}
	if err != nil {
		return nil, &ListenError{s.what, s.address, err}
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &endpoint{
		stop: stop,
		server: &http.Server{
			Handler:           m.contained(s.handler),
			ReadHeaderTimeout: serverTimeout,
			ReadTimeout:       serverTimeout,
			WriteTimeout:      serverTimeout,
			IdleTimeout:       serverIdle,
			BaseContext:       func(net.Listener) context.Context { return ctx },
			MaxHeaderBytes:    16 << 10,
			ConnState:         new(connLimiter).connState,
			ErrorLog:          log.New(quiet{m.o.Log}, "", 0),
		},
		url:  pageURL(l),
		done: make(chan struct{}),
	}
	if s.slow {
		e.server.ReadTimeout, e.server.WriteTimeout = 0, 0
	}
	m.o.Log.Info("serving "+s.what, s.where(l)...)
	go func() {
		defer close(e.done)
		if err := e.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s on %s: %w", s.what, l.Addr(), err)
		}
	}()
	return e, nil
}

// close ends a server: answers under way are finished first.
func (e *endpoint) close() {
	if e == nil {
		return
	}
	e.stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := e.server.Shutdown(ctx); err != nil {
		_ = e.server.Close() // the process ends, and nobody reads the answer any more
	}
	<-e.done
}

// none says that an address stands for no server.
func none(address string) bool { return address == "" || address == "0" }

// contained answers 500 where a handler panics, and counts and logs it.
func (m *Manager) contained(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := process.Contain("serve "+r.URL.Path, func() error { h.ServeHTTP(w, r); return nil })
		if p := new(process.Panic); errors.As(err, &p) {
			m.panicked(p)
			http.Error(w, "internal error; the log has it", http.StatusInternalServerError)
		}
	})
}

// panicked counts and logs the panic of a handler.
func (m *Manager) panicked(p *process.Panic) {
	m.panics.Add(1)
	m.o.Log.Error(p, "an HTTP handler panicked", "stack", string(p.Stack))
}

// quiet takes the lines of net/http about bad clients, one line each, which are of use only in a search for a fault.
type quiet struct{ log logr.Logger }

func (q quiet) Write(line []byte) (int, error) {
	q.log.V(1).Info("HTTP server", "problem", string(line))
	return len(line), nil
}

// maxConnections is how many connections a server keeps: a kubelet, some Prometheus and people need a few. Each costs
// a file descriptor and some KiB, so that a client with many connections could take all there is.
const maxConnections = 100

// connLimiter bounds the connections of a server. The oldest is closed for a new connection: a probe that is answered
// within milliseconds gets through, however many clients wait.
type connLimiter struct {
	mu   sync.Mutex // guards open
	open []net.Conn // the oldest first
}

// connState is for http.Server.
func (c *connLimiter) connState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open = append(c.open, conn)
		if len(c.open) > maxConnections {
			_ = c.open[0].Close() // reading and writing fail
			c.open = slices.Delete(c.open, 0, 1)
		}
	case http.StateClosed, http.StateHijacked:
		if i := slices.Index(c.open, conn); i >= 0 {
			c.open = slices.Delete(c.open, i, i+1)
		}
	}
}
