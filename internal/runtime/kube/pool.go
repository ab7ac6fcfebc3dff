package kube

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxOwn is how many lists and watches have a connection of their own at a time: more than a usual set of controllers
// has under way. With a watch for each kind in each of hundreds of namespaces, the others share connections over
// HTTP/2, because each connection costs the server and us a TLS session.
const maxOwn = 16

// maxIdleTime is how long a connection waits for the next request. It is less than the 90 s of an API server and the
// 50 s of usual proxies, because a write that arrives while they close it is lost, and its outcome is unknown (see
// UnknownOutcome).
const maxIdleTime = 30 * time.Second

// minLifespan is for how long connections take new requests; as much again at most is added. A load balancer spreads
// connections, not requests: with connections that live as long as they are used, an API server that was restarted
// last would get no watches until the others restart. A watch ends after ten minutes at most and takes a new one.
const minLifespan = 3 * time.Minute

// pool sends requests over connections that take new ones for a lifespan.
type pool struct {
	cfg   Config
	http2 bool // where the server has it

	mu      sync.Mutex      // guards the rest
	present *http.Transport // of new requests; nil before the first one
	until   time.Time       // when it has taken its last request
}

func (p *pool) transport() *http.Transport {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.present != nil && now.Before(p.until) {
		return p.present
	}
	if p.present != nil {
		p.present.CloseIdleConnections()
	}
	p.present = newTransport(p.cfg, p.http2)
	p.until = now.Add(minLifespan + rand.N(minLifespan))
	return p.present
}

func (p *pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.present != nil {
		p.present.CloseIdleConnections()
	}
}

// send sends a request. It does not follow redirects: an API server sends none, and a login page's host must not see
// credentials.
func (p *pool) send(req *http.Request) (*http.Response, error) {
	t := p.transport()
	resp, err := t.RoundTrip(req)
	if err != nil && req.Context().Err() != nil {
		// The peer may have fallen silent: the next request must not wait on another connection to it. Over HTTP/2
		// pings find out; over HTTP/1.1 the kernel does, but later (see Dialer).
		t.CloseIdleConnections()
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) && string(header.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch
	}
	return resp, err
}

// streams sends lists and watches. Each has a connection of its own over HTTP/1.1, which the goroutine that wants the
// answer reads; over HTTP/2 another one reads, in frames of 16 KiB, and answers with window updates, which takes up to
// half as much CPU again (BenchmarkListOverTLS).
type streams struct {
	own    pool          // over HTTP/1.1
	shared pool          // of those beyond maxOwn
	open   chan struct{} // has an element for each answer over own
}

func newStreams(cfg Config) *streams {
	return &streams{own: pool{cfg: cfg}, shared: pool{cfg: cfg, http2: true}, open: make(chan struct{}, maxOwn)}
}

func (s *streams) closeIdle() {
	s.own.closeIdle()
	s.shared.closeIdle()
}

// send sends a request without a body.
func (s *streams) send(req *http.Request) (*http.Response, error) {
	select {
	case s.open <- struct{}{}:
	default:
		return s.shared.send(req)
	}
	resp, err := s.own.send(req)
	if err != nil {
		<-s.open
		if endedTLS(err) { // perhaps the server, or a proxy ahead of it, speaks only HTTP/2
			return s.shared.send(req.Clone(req.Context()))
		}
		return nil, err
	}
	resp.Body = &ownBody{resp.Body, sync.OnceFunc(func() { <-s.open })}
	return resp, nil
}

// endedTLS says whether the server ended the TLS session with an alert.
func endedTLS(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// ownBody is the body of an answer over a connection of its own, until it is closed.
type ownBody struct {
	io.ReadCloser
	release func()
}

func (b *ownBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
