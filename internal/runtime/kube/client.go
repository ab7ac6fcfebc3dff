// Package kube is the wire: resources and their URLs, one request funnel over net/http, list and watch streams, and
// the API Status as the error type.
//
// List and watch bodies are decoded as a stream, straight into the struct declared by the caller; undeclared fields
// are skipped and never allocated. The package keeps no state between calls except connections. Package cache resumes,
// backs off and stores objects; package kubeconfig knows the server's address and credential.
//
// No goroutine outlives a call: Stream.Next runs on the goroutine of the caller, the Reflector. On the path of an
// event Watch opens the stream, and (*Stream).Next reads one frame.
package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Config is the address of a server, and the credential. Package kubeconfig makes a Config from flags, files or the
// service account of a pod.
type Config struct {
	Server      string      // https://host:port, with or without a path below which the API is
	Context     string      // of the kubeconfig, by which people know the cluster; "": none
	TLS         *tls.Config // nil: the system's roots, no client certificate
	Credentials Credentials // nil: no Authorization header
	Credential  Credential  // text about a refused credential
	UserAgent   string      // "": UserAgent()
	Impersonate Impersonation

	// OnlyJSON reads all lists and watches in JSON, even where protobuf is possible.
	OnlyJSON bool
	// Timeout bounds a short request with its answer; lists and watches are not short. 0: DefaultTimeout.
	Timeout time.Duration
	// Proxy chooses a proxy for a request. nil: HTTPS_PROXY, HTTP_PROXY and NO_PROXY decide.
	Proxy func(*http.Request) (*url.URL, error)
	// DialContext opens connections. nil: Dialer(). Tests give a net.Pipe.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// OnExchange is called after each HTTP request, on the goroutine of the request, and must be quick.
	OnExchange func(Exchange)
	// OnWarning is called once for each different text in the Warning headers of the server.
	OnWarning func(text string)
}

// Credentials give the Authorization header of a request. Implementations are safe for concurrent use and never
// show a secret in an error.
type Credentials interface {
	// Authorization returns the header to send now ("Bearer ...", "" for none), or an error with the reason.
	Authorization(ctx context.Context) (string, error)
	// Invalidate drops a credential read before t, after a 401. A newer credential stays, so that many 401s at once
	// cause one new read.
	Invalidate(t time.Time)
}

// Credential names the credential, for people.
type Credential struct {
	Name string // "the token in /run/token"; "": the credential
	Next string // next step after a 401, and the time until an effect
}

// Impersonation asks the server to act as someone else (the Impersonate- headers).
type Impersonation struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// DefaultTimeout bounds a short request: a server that accepts a connection and never answers must not hold a worker
// for ever. API servers grant admission webhooks 30 s at most.
const DefaultTimeout = 30 * time.Second

// Client talks to one server. A Client is safe for concurrent use. Each short request has a connection of its own, so
// that neither a slow watch nor a request without an answer holds up a write.
type Client struct {
	base        url.URL // scheme, host and path prefix without a trailing slash
	credentials Credentials
	header      http.Header // sent with every request: user agent, impersonation
	timeout     time.Duration
	late        error // cause of a timeout
	credential  Credential
	onlyJSON    bool
	onExchange  func(Exchange)
	granted     []map[grant]bool // each must cover a request; none: all may be sent
	guards      []func() error   // each must let a write through
	dry         *DryRun          // nil: writes are no dry runs

	// The following fields are shared with the clients made by Limit, Guard and DryRun.

	own, shared *transport    // over HTTP/1.1, and over HTTP/2; see sendOwn
	onlyHTTP2   *atomic.Bool  // the server has refused HTTP/1.1
	open        chan struct{} // has an element for each list or watch over own
	large       chan struct{} // has an element while a large answer is in memory; see readShort
	contact     *contact
	warnings    *warnings
}

// New returns a client of cfg.Server and opens no connection.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.Server)
	if err != nil {
		// The address is left out: an unparsable address cannot be redacted, and may hold a password.
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
		timeout:     cmp.Or(cfg.Timeout, DefaultTimeout),
		credential:  cfg.Credential,
		onlyJSON:    cfg.OnlyJSON,
		onExchange:  cfg.OnExchange,
		own:         &transport{cfg: cfg},
		shared:      &transport{cfg: cfg, http2: true},
		onlyHTTP2:   new(atomic.Bool),
		open:        make(chan struct{}, maxOwn),
		large:       make(chan struct{}, 1),
		contact:     new(contact),
		warnings:    &warnings{report: cfg.OnWarning, seen: map[string]struct{}{}},
	}
	c.late = &lateError{fmt.Sprintf("no answer from %s within %s", c.base.Host, c.timeout)}
	return c, nil
}

// Server returns the address of the server.
func (c *Client) Server() string { return c.base.String() }

// Close closes idle connections. Requests in progress end with their contexts.
func (c *Client) Close() {
	for _, t := range []*transport{c.own, c.shared} {
		t.closeIdle()
	}
}

// Limit returns a client that sends only requests covered by the rights. Any other request fails with ErrNotDeclared,
// so that a controller with an incomplete table fails in tests and not in a cluster. Connections and existing limits
// of c are shared.
func (c *Client) Limit(rights []Right) *Client {
	granted := map[grant]bool{}
	for _, r := range rights {
		for _, verb := range r.Verbs {
			granted[grant{r.Resource.Group, r.Resource.Plural, r.Subresource, verb}] = true
		}
	}
	limited := *c
	limited.granted = append(slices.Clip(c.granted), granted)
	return &limited
}

// Guard returns a client that sends a write only if ok returns nil just before. Connections and existing guards of c
// are shared.
func (c *Client) Guard(ok func() error) *Client {
	guarded := *c
	guarded.guards = append(slices.Clip(c.guards), ok)
	return &guarded
}

// DryRun returns a client that changes nothing: each write is sent with dryRun=All, reads are sent unchanged, and
// watches are not sent. A reader of a watch waits until the context ends. The new client shares the connections,
// limits and guards of c.
func (c *Client) DryRun(d DryRun) *Client {
	dry := *c
	dry.dry = &d
	return &dry
}

// Contact returns the state of the contact with the server. Clients made by Guard and Limit share the state.
func (c *Client) Contact() Contact { return c.contact.state() }

// FirstToLog reports whether the caller is the first since the last answer to log an outage, at level WARN. Each
// outage is one such line; other parts log at level INFO.
func (c *Client) FirstToLog() bool {
	c.contact.mu.Lock()
	defer c.contact.mu.Unlock()
	first := !c.contact.logged
	c.contact.logged = true
	return first
}

// Ping requests one object of a collection, only for an answer of any kind: the outcome is in Contact. The request
// reads from the storage of the server, needs only the right to list, and the answer is dropped.
func (c *Client) Ping(ctx context.Context, q Query) {
	r, err := q.one()
	if err != nil {
		return // the query of a mirror is valid, as an earlier list shows
	}
	if resp, err := c.send(ctx, &r); err == nil {
		drain(resp.Body)
	}
}

// fixedHeader returns the headers of every request.
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

// version and commit are stamped by the linker (see the Makefile). A binary of a plain `go build` or `go install` has
// them in its build information.
var version, commit string

// Version returns version and commit of this build, "devel" and "unknown" if the build does not know.
func Version() (string, string) {
	v, c := version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if c == "" && s.Key == "vcs.revision" {
				c = s.Value
			}
		}
	}
	if v == "" {
		v = "devel"
	}
	if c == "" {
		c = "unknown"
	}
	// Twelve digits identify a commit; forty make each request longer.
	return v, c[:min(len(c), 12)]
}

// UserAgent returns the name of skiff in requests: audit logs and API priority and fairness use the name.
func UserAgent() string {
	v, c := Version()
	return "skiff/" + v + " (" + runtime.GOOS + "/" + runtime.GOARCH + ") " + c
}
