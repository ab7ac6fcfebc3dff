package cache

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// This file is the test double: a scripted server (replies in reply_test.go) behind real HTTP over net.Pipe, so that
// all of kube is in the loop and time is virtual. What each request gets is a queue of replies per kind of request.

type pod struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		N int `json:"priority"` // a number that pods have in both encodings
	} `json:"spec"`
}

var pods = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}

// The kinds of requests that a Reflector sends.
const (
	streamedList = "streamed list"
	pagedList    = "list"
	watching     = "watch"
	probing      = "probe"
	discovering  = "discovery"
)

type request struct {
	kind  string
	at    time.Time
	path  string
	query url.Values
}

type reply func(w http.ResponseWriter, r *http.Request)

type server struct {
	*pipe
	t      *testing.T
	client *kube.Client

	mu       sync.Mutex
	requests []request
	replies  map[string][]reply // the last of a kind repeats

	refusesStreams bool
}

// newServer must be called inside a synctest bubble; it ends with the test.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, replies: map[string][]reply{}}
	s.pipe = servePipe(t, s)
	s.client = s.pipe.connect("")
	return s
}

// pipe is an HTTP server whose connections are net.Pipes.
type pipe struct {
	t        *testing.T
	accepted chan net.Conn
	closed   chan struct{}

	mu    sync.Mutex // guards what follows
	down  bool       // refuse connections
	conns map[net.Conn]struct{}
}

func servePipe(t *testing.T, h http.Handler) *pipe {
	p := &pipe{t: t, accepted: make(chan net.Conn), closed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	hs := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { defer close(served); _ = hs.Serve(p) }()
	t.Cleanup(func() {
		_ = hs.Close()
		<-served
	})
	return p
}

// connect returns a client that ends with the test.
func (p *pipe) connect(userAgent string) *kube.Client {
	client, err := kube.New(kube.Config{
		Server:      "http://server",
		UserAgent:   userAgent,
		Proxy:       func(*http.Request) (*url.URL, error) { return nil, nil },
		DialContext: p.dial,
		OnlyJSON:    !inProtobuf,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(client.Close)
	return client
}

var errRefused = errors.New("connect: connection refused")

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return nil, errRefused
	}
	p.conns[theirs] = struct{}{}
	p.mu.Unlock()
	select {
	case p.accepted <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { close(p.closed); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// crash cuts all connections; with down, no new ones are accepted until start.
func (p *pipe) crash(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *pipe) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// on sets the replies to one kind of request; the last one repeats.
func (s *server) on(kind string, replies ...reply) *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[kind] = replies
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	kind := pagedList
	switch {
	case r.URL.Path == "/api/v1":
		kind = discovering
	case q.Get("sendInitialEvents") == "true":
		kind = streamedList
	case q.Get("watch") == "true":
		kind = watching
	case q.Get("limit") == "1":
		kind = probing
	}
	if asked := asksForProtobuf(r); kind != probing && kind != discovering && asked != inProtobuf {
		s.t.Errorf("%s asks for protobuf: %t, want %t", r.URL, asked, inProtobuf)
	}
	s.mu.Lock()
	s.requests = append(s.requests, request{kind, time.Now(), r.URL.Path, q})
	queue := s.replies[kind]
	if len(queue) == 0 {
		s.mu.Unlock()
		s.t.Errorf("unexpected request: %s %s", kind, r.URL)
		http.Error(w, "unexpected", http.StatusTeapot)
		return
	}
	if len(queue) > 1 {
		s.replies[kind] = queue[1:]
	}
	s.mu.Unlock()
	queue[0](w, r)
}

// seen returns the requests of the given kinds so far, of all kinds if none is given.
func (s *server) seen(kinds ...string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []request
	for _, r := range s.requests {
		if len(kinds) == 0 || slices.Contains(kinds, r.kind) {
			out = append(out, r)
		}
	}
	return out
}

func (s *server) last(kind string) request {
	s.t.Helper()
	all := s.seen(kind)
	if len(all) == 0 {
		s.t.Fatalf("no %s was requested", kind)
	}
	return all[len(all)-1]
}
