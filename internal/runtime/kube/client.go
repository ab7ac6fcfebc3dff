package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Config says where a server is and as whom to talk to it. Package kubeconfig makes one from flags, files or
// a pod's service account.
type Config struct {
	Server      string      // https://host:port, with or without a path below which the API is
	TLS         *tls.Config // nil: the system's roots, no client certificate
	Credentials Credentials // nil: no Authorization header
	Credential  Credential  // what is said of the credential when the server refuses it
	UserAgent   string      // "": UserAgent()
	Impersonate Impersonation

	// OnlyJSON reads lists and watches in JSON, also those of kinds that can be read in protobuf.
	OnlyJSON bool
	// Timeout bounds one short request, all but lists and watches, with its answer. 0: DefaultTimeout.
	Timeout time.Duration
	// Proxy chooses a proxy for a request. nil: HTTPS_PROXY, HTTP_PROXY and NO_PROXY decide.
	Proxy func(*http.Request) (*url.URL, error)
	// DialContext opens connections. nil: Dialer(). Tests give a net.Pipe.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// OnExchange is called after each HTTP request, by the goroutine that made it. It must be quick.
	OnExchange func(Exchange)
	// OnWarning is called once for each different text that the server sends in a Warning header.
	OnWarning func(text string)
}

// Credentials give the Authorization header of a request. Implementations are safe for concurrent use and never
// show a secret in an error.
type Credentials interface {
	// Authorization returns the header to send now ("Bearer ...", "" for none), or an error that says why it cannot.
	Authorization(ctx context.Context) (string, error)
	// Invalidate drops a credential that was read before t: the server answered 401 to it. One that has been
	// replaced since then stays, so that many 401s at once cause one new read.
	Invalidate(t time.Time)
}

// Credential names what the server is asked with, for people.
type Credential struct {
	Name string // "the token in /run/token"; "": the credential
	Next string // what to do when the server refuses it, and when that has an effect
}

// Impersonation asks the server to act as someone else (the Impersonate- headers).
type Impersonation struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// DefaultTimeout bounds a short request: a server that accepts a connection and never answers must not hold
// a worker for ever. 30 s is what API servers grant admission webhooks at most.
const DefaultTimeout = 30 * time.Second

// A connection that has been silent for 30 s is probed and dropped 15 s later, so that no watch hangs on a dead
// connection for more than 45 s. client-go uses the same numbers.
const (
	silence   = 30 * time.Second
	deadAfter = 45 * time.Second
)

// maxIdle is how many connections are kept for the next request over HTTP/1.1: as many as there are workers, and more
// than that. HTTP/2 needs one.
const maxIdle = 64

// Client talks to one server. It is safe for concurrent use. Watches and lists have other connections than short
// requests, so that a watch that is read slowly cannot hold up a write behind it on the
// same HTTP/2 connection.
type Client struct {
	base        url.URL // scheme, host and path prefix without a trailing slash
	credentials Credentials
	header      http.Header // sent with every request: user agent, impersonation
	timeout     time.Duration
	late        error // why a request ended that took longer
	credential  Credential
	onlyJSON    bool
	short       *pool    // over HTTP/2 where the server has it
	streams     *streams // lists and watches
	onWarning   func(string)
	onExchange  func(Exchange)
	granted     []map[grant]bool // each must cover a request; none: all may be sent
	guards      []func() error   // each must let a write through
	large       chan struct{}    // has an element while a large answer is in memory; see readShort
	contact     *contact

	mu     sync.Mutex          // guards warned
	warned map[string]struct{} // texts that onWarning has had
}

// New returns a client of cfg.Server. It opens no connection.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.Server)
	if err != nil {
		// Without the address: it may hold a password, and what cannot be parsed cannot be redacted.
		return nil, fmt.Errorf("parse server address: %w", stripURL(err))
	}
	if base.Scheme != "https" && base.Scheme != "http" || base.Host == "" {
		return nil, fmt.Errorf("parse server address %q: want https://HOST[:PORT][/PATH]", base.Redacted())
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("request timeout %s is negative", cfg.Timeout)
	}
	header, err := fixedHeader(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{
		base:        url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimRight(base.Path, "/")},
		credentials: cfg.Credentials,
		header:      header,
		timeout:     cfg.Timeout,
		onlyJSON:    cfg.OnlyJSON,
		onWarning:   cfg.OnWarning,
		onExchange:  cfg.OnExchange,
		credential:  cfg.Credential,
		contact:     new(contact),
		large:       make(chan struct{}, 1),
		warned:      map[string]struct{}{},
	}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	c.late = &lateError{fmt.Sprintf("no answer from %s within %s", c.base.Host, c.timeout)}
	c.streams = newStreams(cfg)
	c.short = &pool{cfg: cfg, http2: true}
	return c, nil
}

// Server returns the address that the client talks to.
func (c *Client) Server() string { return c.base.String() }

// Close closes idle connections. Requests under way are not touched; their contexts end them.
func (c *Client) Close() {
	c.short.closeIdle()
	c.streams.closeIdle()
}

// newTransport makes a transport that speaks HTTP/1.1, and HTTP/2 where that is allowed and the server has it.
func newTransport(cfg Config, http2 bool) *http.Transport {
	dial := cfg.DialContext
	if dial == nil {
		dial = Dialer().DialContext
	}
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	// Naming the protocols keeps HTTP/2 on: net/http turns it off by itself once a TLS configuration or a
	// dialer of one's own is set.
	tlsConfig := cfg.TLS.Clone()
	if !http2 {
		if tlsConfig == nil {
			tlsConfig = &tls.Config{}
		}
		tlsConfig.NextProtos = []string{"http/1.1"} // net/http would not name it, and leave the server to guess
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(http2)
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     maxIdleTime,
		// Over HTTP/1.1 each request has a connection of its own, and net/http keeps two of them: more workers than
		// that would shake hands for each request.
		MaxIdleConnsPerHost: maxIdle,
		Protocols:           protocols,
		// Compression costs the server and us more CPU than a cluster network gains: inflating the 92 MB of a
		// 10,000 pod list takes longer than decoding it. And a gzip stream without flushes would delay events.
		DisableCompression: true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: silence,
			PingTimeout:     deadAfter - silence,
		},
	}
}

// Dialer returns the dialer that a Config without DialContext has, for those that wrap it.
func Dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: 30 * time.Second,
		// For HTTP/1.1, which has no pings, the kernel probes the peer.
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: silence, Interval: (deadAfter - silence) / 3, Count: 3},
		Control: limitSilence,
	}
}

// fixedHeader returns the headers that are the same for all requests.
func fixedHeader(cfg Config) (http.Header, error) {
	h := http.Header{}
	h.Set("User-Agent", cfg.UserAgent)
	if cfg.UserAgent == "" {
		h.Set("User-Agent", UserAgent())
	}
	i := cfg.Impersonate
	if i.User == "" {
		if i.UID != "" || len(i.Groups) > 0 || len(i.Extra) > 0 {
			return nil, errors.New("impersonation of a uid, group or extra needs a user name as well")
		}
		return h, nil
	}
	h.Set("Impersonate-User", i.User)
	if i.UID != "" {
		h.Set("Impersonate-Uid", i.UID)
	}
	for _, g := range i.Groups {
		h.Add("Impersonate-Group", g)
	}
	for k, vs := range i.Extra {
		for _, v := range vs {
			h.Add("Impersonate-Extra-"+url.PathEscape(strings.ToLower(k)), v)
		}
	}
	return h, nil
}
