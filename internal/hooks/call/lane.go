package call

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// lane is a connection to an endpoint for one call after another. Package net/http opens a second connection where it
// does not know whether the first one comes free before it, and then keeps the one that it does not need. A server
// that serves one connection at a time would wait for ever on the one that stays silent. With one call at a time on a
// Transport, no connection is opened but for a request that follows on it at once. HTTP/2 would spare connections,
// some 40 KiB each, and halve the calls per second: 9,500 instead of 19,000 by five workers over TLS on one machine.
type lane struct {
	*http.Transport
	secrets *credentials // that it was made with

	mu       sync.Mutex // guards the rest
	conn     net.Conn   // nil before the first call
	deadline time.Time  // of the call; zero: none
}

// graceTime is how much later than a call its connection ends, so that the error is that of the call.
const graceTime = time.Second

// limit ends the connection of a lane, and one that is opened meanwhile, soon after ctx: whatever package net/http, or
// a peer, makes of the end of a context, no read and no write goes on for longer than the call. A context without a
// deadline takes the limit away.
func (l *lane) limit(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = time.Time{}
	if at, ok := ctx.Deadline(); ok {
		l.deadline = at.Add(graceTime)
	}
	l.limitLocked()
}

func (l *lane) limitLocked() {
	if l.conn != nil {
		_ = l.conn.SetDeadline(l.deadline) // a closed connection has none
	}
}

// dialed returns what opens the connections of a lane.
func (l *lane) dialed(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string,
	string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conn = conn
		l.limitLocked()
		return conn, nil
	}
}

// maxIdleLanes is how many connections are kept for the next calls: more than a controller has workers by default.
const maxIdleLanes = 64

// take returns a lane that no other call uses. Those that were made with other credentials are dropped.
func (w *webhook) take(secrets *credentials) *lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.idle) > 0 {
		last := w.idle[len(w.idle)-1]
		w.idle = w.idle[:len(w.idle)-1]
		if last.secrets == secrets {
			return last
		}
		last.drop()
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	l := &lane{secrets: secrets}
	l.Transport = &http.Transport{
		Proxy:                  proxy,
		DialContext:            l.dialed(w.dial),
		TLSClientConfig:        secrets.tls.Clone(),
		TLSHandshakeTimeout:    dialTimeout,
		Protocols:              protocols,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        maxIdleTime,
		MaxResponseHeaderBytes: maxHeader,
	}
	return l
}

// maxHeader bounds the header of an answer: servers take 8 to 64 KiB of a request.
const maxHeader = 64 << 10

// giveBack keeps a lane whose call has ended well.
func (w *webhook) giveBack(l *lane, secrets *credentials) {
	l.limit(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.idle) == maxIdleLanes || w.secrets != secrets {
		l.drop()
		return
	}
	w.idle = append(w.idle, l)
}

// proxy is that of the environment, as other programs use it.
func proxy(req *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(req)
	if err != nil {
		return nil, errors.New("HTTP_PROXY or HTTPS_PROXY is no URL") // err quotes it, with the password
	}
	return u, nil
}

// drop closes the connection of a lane, and one that is still being opened as soon as it is.
func (l *lane) drop() { l.CloseIdleConnections() }
