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

// lane is a connection to an endpoint, for a single call at a time. With several calls, a Transport opens a second
// connection while the first is busy, and keeps the second, unused, if the first comes free before. A server without
// concurrency would wait for ever on the silent connection. With a Transport for each lane, a request follows at once
// on each opened connection. HTTP/2 would spare connections, some 40 KiB each, and halve the calls per second: 9,500
// instead of 19,000 by five workers over TLS on a single machine.
type lane struct {
	*http.Transport
	secrets *credentials // of the TLS configuration

	mu       sync.Mutex // guards the rest
	conn     net.Conn   // nil before the first call
	deadline time.Time  // of the call; zero: none
}

// graceTime is how much later than a call the connection ends, so that the error comes from the call.
const graceTime = time.Second

// limit ends the connection of a lane, also a connection opened later, a graceTime after ctx: whatever package
// net/http, or a peer, makes of the end of a context, no read and no write goes on for longer. A context without a
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

// dialed returns the dial function of a lane.
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

// take returns a lane that no other call uses. Lanes with other credentials are dropped.
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

// proxy returns the proxy of the environment, as other programs do.
func proxy(req *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(req)
	if err != nil {
		return nil, errors.New("HTTP_PROXY or HTTPS_PROXY is no URL") // err quotes it, with the password
	}
	return u, nil
}

// drop closes the connection of a lane, and a connection still being opened once open.
func (l *lane) drop() { l.CloseIdleConnections() }
