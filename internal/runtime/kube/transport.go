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

const (
	// A connection that has been silent for 30 s is probed and dropped 15 s later, so that no watch hangs on a dead
	// connection for more than 45 s. client-go uses the same numbers.
	silence   = 30 * time.Second
	deadAfter = 45 * time.Second
	// maxIdle is how many connections are kept for the next request over HTTP/1.1: as many as usual numbers of workers
	// write over at a time. HTTP/2 needs one.
	maxIdle = 64
	// maxIdleTime is how long a connection waits for the next request: less than the 90 s of an API server and the 50
	// s of usual proxies, because a write that meets a closing connection is lost, with an unknown outcome (see
	// UnknownOutcome).
	maxIdleTime = 30 * time.Second
	// maxOwn is how many lists and watches have a connection of their own at a time: more than a usual set of
	// controllers has under way. With a watch for each kind in each of hundreds of namespaces, the others share
	// connections over HTTP/2, because each connection costs the server and us a TLS session.
	maxOwn = 16
	// minLifespan is how long connections take new requests; as much again at most is added. A load balancer spreads
	// connections, not requests: with connections that live as long as they are used, a freshly restarted API server
	// would get no watches until the other servers restart. A watch ends after ten minutes at most and opens a new
	// connection.
	minLifespan = 3 * time.Minute
)

// transport sends requests over connections that take new ones for a lifespan.
type transport struct {
	cfg   Config
	http2 bool // if supported by the server

	mu      sync.Mutex      // guards the rest
	present *http.Transport // of new requests; nil before the first one
	until   time.Time       // time of the last request
}

func (t *transport) current() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.present != nil && now.Before(t.until) {
		return t.present
	}
	if t.present != nil {
		t.present.CloseIdleConnections()
	}
	t.present = newTransport(t.cfg, t.http2)
	t.until = now.Add(minLifespan + rand.N(minLifespan))
	return t.present
}

func (t *transport) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.present != nil {
		t.present.CloseIdleConnections()
	}
}

// send sends a request. It does not follow redirects: an API server sends none, and a login page's host must not see
// credentials.
func (t *transport) send(req *http.Request) (*http.Response, error) {
	current := t.current()
	resp, err := current.RoundTrip(req)
	if err != nil && req.Context().Err() != nil {
		// The peer may have fallen silent: the next request must not wait on another connection to it. Over HTTP/2
		// pings find out; over HTTP/1.1 the kernel does, but later (see Dialer).
		current.CloseIdleConnections()
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) && string(header.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch
	}
	if err == nil {
		err = RefuseSwitch(resp)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

var errSwitched = errors.New("the answer is status 101, Switching Protocols, which skiff did not ask for: check " +
	"what is behind the address, and the proxies on the way")

// RefuseSwitch closes the connection of an answer 101 unread, and returns the error for such an answer. Package
// net/http makes the connection the body of the answer: a read waits for as long as the peer likes, because the end of
// the request's context, which closes the connection of any other answer, has no effect.
func RefuseSwitch(resp *http.Response) error {
	if resp.StatusCode >= 200 {
		return nil
	}
	_ = resp.Body.Close()
	return errSwitched
}

// ownBody is the body of an answer over such a connection, until it is closed.
type ownBody struct {
	io.ReadCloser
	release func()
}

func (b *ownBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// newTransport makes a transport for HTTP/1.1, and for HTTP/2 if allowed and supported by the server.
func newTransport(cfg Config, http2 bool) *http.Transport {
	dial := cfg.DialContext
	if dial == nil {
		dial = Dialer().DialContext
	}
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	tlsConfig := cfg.TLS.Clone()
	if !http2 {
		if tlsConfig == nil {
			tlsConfig = &tls.Config{}
		}
		tlsConfig.NextProtos = []string{"http/1.1"} // net/http would not name it, and leave the server to guess
	}
	// Without protocols, net/http turns HTTP/2 off once a TLS configuration or a dialer is set.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(http2)
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     maxIdleTime,
		// Over HTTP/1.1 each request has a connection of its own, and net/http keeps two: more workers would shake
		// hands for each request.
		MaxIdleConnsPerHost: maxIdle,
		Protocols:           protocols,
		// Compression costs the server and us more CPU than a cluster network gains: inflating the 92 MB of a
		// 10,000 pod list takes longer than decoding it. And a gzip stream without flushes would delay events.
		DisableCompression: true,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: deadAfter - silence},
	}
}

// Dialer returns the dialer of a Config without DialContext, for wrappers.
func Dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: 30 * time.Second,
		// For HTTP/1.1, which has no pings, the kernel probes the peer.
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: silence, Interval: (deadAfter - silence) / 3, Count: 3},
		Control: limitSilence,
	}
}
