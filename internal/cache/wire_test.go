package cache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/kube"
)

// This file is the test double: a scripted server behind real HTTP over net.Pipe, so that all of kube is in
// the loop and time is virtual. What each request gets is a queue of replies per kind of request.

type pod struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		N int `json:"n"`
	} `json:"spec"`
}

var pods = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}

// The kinds of requests that a Reflector sends.
const (
	streamedList = "streamed list"
	pagedList    = "list"
	watching     = "watch"
	probing      = "probe"
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
	case q.Get("sendInitialEvents") == "true":
		kind = streamedList
	case q.Get("watch") == "true":
		kind = watching
	case q.Get("limit") == "1":
		kind = probing
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

// Replies.

func status(code int, reason string, more ...string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, m := range more {
			if after, ok := strings.CutPrefix(m, "Retry-After: "); ok {
				w.Header().Set("Retry-After", after)
			}
		}
		w.WriteHeader(code)
		fmt.Fprint(w, statusObject(code, reason, more...))
	}
}

func statusObject(code int, reason string, causes ...string) string {
	var list []string
	for _, c := range causes {
		if !strings.Contains(c, ":") {
			list = append(list, fmt.Sprintf(`{"reason":%q}`, c))
		}
	}
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"%s from the test","details":{"causes":[%s]}}`,
		code, reason, reason, strings.Join(list, ","))
}

func list(rv string, items ...string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, rv, strings.Join(items, ","))
	}
}

// What a stream does after its last frame.
const (
	thenEnd  = "end"  // clean EOF
	thenCut  = "cut"  // connection dies
	thenHold = "hold" // stays open
)

func frames(end string, lines ...string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, l := range lines {
			if d, ok := strings.CutPrefix(l, "pause "); ok {
				d, err := time.ParseDuration(d)
				if err != nil {
					panic(err)
				}
				select {
				case <-time.After(d):
				case <-r.Context().Done():
				}
				continue
			}
			fmt.Fprint(w, l)
			_ = http.NewResponseController(w).Flush()
		}
		_ = http.NewResponseController(w).Flush()
		switch end {
		case thenCut:
			panic(http.ErrAbortHandler)
		case thenHold:
			<-r.Context().Done()
		}
	}
}

// feed is a stream whose frames the test sends one by one.
type feed struct {
	t  *testing.T
	in chan string
}

func newFeed(t *testing.T) *feed { return &feed{t, make(chan string)} }

func (f *feed) reply(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case l := <-f.in:
			switch l {
			case thenEnd:
				return
			case thenCut:
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, l)
		}
	}
}

// send sends frames and waits until they have had all their effects.
func (f *feed) send(lines ...string) {
	f.t.Helper()
	for _, l := range lines {
		select {
		case f.in <- l:
		case <-time.After(time.Hour):
			f.t.Fatalf("nobody watches to receive %s", l)
		}
	}
	synctest.Wait()
}

// Objects and frames. uid is the name and "-1" unless given as name@uid.

func object(name, rv string, n any) string {
	name, uid, ok := strings.Cut(name, "@")
	if !ok {
		uid = name + "-1"
	}
	ns := "default"
	if before, after, ok := strings.Cut(name, "/"); ok {
		ns, name = before, after
	}
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q},"spec":{"n":%v}}`, name, ns, uid, rv, n)
}

func event(t string, obj string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", t, obj) }
func added(name, rv string, n int) string {
	return event("ADDED", object(name, rv, n))
}
func modified(name, rv string, n int) string { return event("MODIFIED", object(name, rv, n)) }
func deleted(name, rv string, n int) string  { return event("DELETED", object(name, rv, n)) }
func bookmark(rv string) string {
	return event("BOOKMARK", fmt.Sprintf(`{"kind":"Pod","metadata":{"resourceVersion":%q}}`, rv))
}
func endMark(rv string) string {
	return event("BOOKMARK", fmt.Sprintf(`{"kind":"Pod","metadata":{"resourceVersion":%q,"annotations":{"k8s.io/initial-events-end":"true","k8s.io/initial-events-list-blueprint":"e30="}}}`, rv))
}
func errorEvent(code int, reason string, causes ...string) string {
	return event("ERROR", statusObject(code, reason, causes...))
}

// mirror is a running Store with a record of what its handlers heard.
type mirror struct {
	*Store[*pod]
	t    *testing.T
	stop func()

	mu      sync.Mutex
	changes []Change[*pod]
	log     []string
}

func startMirror(t *testing.T, s *server, o Options) *mirror {
	t.Helper()
	m := &mirror{t: t}
	o.Client, o.Resource = s.client, pods
	o.Log = funcr.New(func(prefix, args string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.log = append(m.log, prefix+" "+args)
	}, funcr.Options{})
	m.Store = New[*pod](o)
	m.OnChange(func(c Change[*pod]) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changes = append(m.changes, c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	m.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(m.stop)
	synctest.Wait()
	return m
}

// heard returns the changes since the last call, as text: "ADDED a", "DELETED a unknown", "ADDED b initial".
func (m *mirror) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []string{}
	for _, c := range m.changes {
		text := c.Type.String() + " " + c.Object().Name
		if c.Initial {
			text += " initial"
		}
		if c.Unknown {
			text += " unknown"
		}
		out = append(out, text)
	}
	m.changes = nil
	return out
}

func (m *mirror) wantHeard(want ...string) {
	m.t.Helper()
	if got := m.heard(); !slices.Equal(got, want) {
		m.t.Errorf("handlers heard %q, want %q", got, want)
	}
}

// wantContent compares the mirror with "name=n" entries in key order.
func (m *mirror) wantContent(want ...string) {
	m.t.Helper()
	all, err := m.List("")
	if err != nil {
		m.t.Errorf("list: %v", err)
		return
	}
	got := []string{}
	for _, p := range all {
		got = append(got, fmt.Sprintf("%s=%d", p.Name, p.Spec.N))
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("mirror holds %q, want %q", got, want)
	}
}

func (m *mirror) state() ScopeState { return m.State()[0] }

func (m *mirror) logged(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, l := range m.log {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
