package kube

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxOwn is how many lists and watches, and how many short requests, have a connection of their own over HTTP/1.1 at
// a time: more than a usual set of controllers has under way. Those beyond share connections over HTTP/2, because each
// connection costs the server and us a TLS session.
const maxOwn = 16

// shortIdle is how long a connection waits for the next short request. It is less than the 90 s of an API server and
// the 50 s of usual proxies, because a write that arrives while they close it is lost, and nobody knows whether it was
// done (see UnknownOutcome).
const shortIdle = 30 * time.Second

// pool sends requests. Over HTTP/1.1 each has a connection of its own, and nobody else reads from that; over HTTP/2
// another goroutine reads, in frames of 16 KiB, and answers with window updates, which takes up to as much CPU again
// (BenchmarkListOverTLS, BenchmarkWritesOverTLS).
type pool struct {
	cfg    Config
	idle   time.Duration // how long a connection over HTTP/1.1 waits for the next request
	server *serverProtocols
	open   atomic.Int32 // answers over HTTP/1.1

	mu      sync.Mutex  // guards the rest
	present connections // those of new requests; nil before the first one
	until   time.Time   // when they have taken their last request
}

// connections are those that were opened within one lifespan.
type connections struct{ http1, http2 http.RoundTripper }

// closeIdle closes those that wait for a request, and the others when they are idle.
func (c connections) closeIdle() {
	for _, t := range []http.RoundTripper{c.http1, c.http2} {
		if t, ok := t.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
	}
}

// minLifespan is for how long connections take new requests; as much again at most is added. A load balancer spreads
// connections, not requests: with connections that live as long as they are used, an API server that was restarted
// last would get no watches until the others restart. A watch ends after ten minutes at most and takes a new one.
const minLifespan = 3 * time.Minute

// connections returns those for a new request.
func (p *pool) connections() connections {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.After(p.until) {
		p.present.closeIdle()
		own := newTransport(p.cfg, false)
		own.IdleConnTimeout = p.idle
		own.MaxConnsPerHost = maxOwn // with those that are being opened for a request that has found another by now
		p.present = connections{own, newTransport(p.cfg, true)}
		p.until = now.Add(minLifespan + rand.N(minLifespan))
	}
	return p.present
}

// roundTrip sends a request. It does not follow redirects: an API server sends none, and a login page's host must not
// see credentials.
func roundTrip(t http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTrip(req)
	var header tls.RecordHeaderError
	if errors.As(err, &header) && string(header.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch
	}
	return resp, err
}

// serverProtocols is what streams have found out about a server, for all pools.
type serverProtocols struct {
	spoken  atomic.Bool // it has answered over HTTP/1.1
	refused atomic.Bool // it has answered over HTTP/2 after it had not over HTTP/1.1
}

// stream sends a request without a body. A server, or a proxy ahead of it, that speaks only HTTP/2 is found by asking
// it over that too, as long as it has not answered over HTTP/1.1.
func (p *pool) stream(req *http.Request) (*http.Response, error) {
	c := p.connections()
	if p.server.refused.Load() || !p.take() {
		return roundTrip(c.http2, req)
	}
	resp, err := roundTrip(c.http1, req)
	if !p.server.spoken.Load() && refusesHTTP1(resp, err) && req.Context().Err() == nil {
		if other, otherErr := roundTrip(c.http2, req.Clone(req.Context())); otherErr == nil {
			p.server.refused.Store(true)
			if err == nil {
				drain(resp.Body)
			}
			p.open.Add(-1)
			return other, nil
		}
	}
	if err == nil {
		p.server.spoken.Store(true)
	}
	return p.counted(resp, err)
}

// short sends a request of any kind, over HTTP/1.1 only to a server that is known to speak that: a write must not be
// sent twice to find out.
func (p *pool) short(req *http.Request) (*http.Response, error) {
	c := p.connections()
	if !p.server.spoken.Load() || !p.take() {
		return roundTrip(c.http2, req)
	}
	resp, err := roundTrip(c.http1, req)
	if err != nil && req.Context().Err() != nil {
		// The peer may have fallen silent: the next request must not wait on another connection to it. Over HTTP/2
		// pings find out; here the kernel does, but later (see Dialer).
		c.closeIdle()
	}
	return p.counted(resp, err)
}

func (p *pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.present.closeIdle()
}

// take counts one more answer over HTTP/1.1, if there may be.
func (p *pool) take() bool {
	if p.open.Add(1) <= maxOwn {
		return true
	}
	p.open.Add(-1)
	return false
}

// counted passes on an answer over HTTP/1.1, which is open until it is closed.
func (p *pool) counted(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		p.open.Add(-1)
		return nil, err
	}
	resp.Body = &pooledBody{ReadCloser: resp.Body, pool: p}
	return resp, nil
}

// refusesHTTP1 says whether a server that could be reached may have failed because of the protocol.
func refusesHTTP1(resp *http.Response, err error) bool {
	if err == nil {
		return resp.StatusCode == http.StatusUpgradeRequired || resp.StatusCode == http.StatusHTTPVersionNotSupported
	}
	var dial *net.OpError
	return !errors.As(err, &dial) || dial.Op != "dial"
}

// pooledBody is the body of an answer that is counted.
type pooledBody struct {
	io.ReadCloser
	pool *pool
	once sync.Once
}

func (b *pooledBody) Close() error {
	b.once.Do(func() { b.pool.open.Add(-1) })
	return b.ReadCloser.Close()
}
