// Package fakeapi is the embedded Kubernetes API server: a plain http.Handler that behaves like a v1.36 kube-apiserver
// in what it serves. It is the test double of everything in skiff, over real HTTP, and what `skiff dev` offers to
// kubectl. Faults can be scripted (Inject), requests are recorded (Requests).
//
// Not its job: what controllers do (Deployments, garbage collection, pods that run: package simulate), and how objects
// are kept (package store). Objects are JSON values as in package patch; kinds are tables of data in package kinds.
//
// Each request runs on its own net/http goroutine. The server has one goroutine of its own, the housekeeper, which
// makes CRDs established, empties deleted namespaces and CRDs, and expires events. Close ends and waits for all of
// them. All time is package time's, so that testing/synctest's virtual time applies.
package fakeapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

// Version is what /version reports: the server whose behaviour this one mirrors.
const Version = "v1.36.3"

// Options of a Server. The zero value is a server as a cluster has it.
type Options struct {
	// HistoryEvents and HistoryAge bound the changes that are kept per resource: a watch from before gets 410. 0 means
	// 10,000 changes (a busy test in full) and 5 minutes (etcd's compaction interval).
	HistoryEvents int
	HistoryAge    time.Duration
	// PageTokenLifetime is how long a continue token is good for; 0 means 5 minutes, as etcd's compaction makes it.
	PageTokenLifetime time.Duration
	// BookmarkInterval is the time between bookmarks of a watch that asked for them; 0 means a minute, negative means
	// never.
	BookmarkInterval time.Duration
	// SlowWatcher is how many changes a watcher may lag behind before its stream is ended; 0 means 1,000.
	SlowWatcher int
	// Seed makes the gaps between revisions, generated names and the faults' dice repeatable; 0 means 1.
	Seed uint64
	// Token, if set, is the only bearer token that is let in; anything else gets 401.
	Token string
	// CRDDelay is the time from the creation of a CRD until it is served; 0 means at once, but never within the POST.
	CRDDelay time.Duration
	// EventTTL is how long Events live; 0 means an hour, the real server's default.
	EventTTL time.Duration
	// KeepNamespaces switches the namespace controller off: a deleted namespace stays Terminating.
	KeepNamespaces bool
}

const (
	defaultHistoryEvents = 10_000
	defaultHistoryAge    = 5 * time.Minute
	defaultBookmarks     = time.Minute
	defaultSlowWatcher   = 1000
	defaultEventTTL      = time.Hour
	// firstRevision and maxGap keep clients from counting on small or dense revisions.
	firstRevision = 1000
	maxGap        = 3
)

func (o Options) withDefaults() Options {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	fill(&o.HistoryAge, defaultHistoryAge)
	fill(&o.PageTokenLifetime, defaultHistoryAge)
	fill(&o.BookmarkInterval, defaultBookmarks)
	fill(&o.EventTTL, defaultEventTTL)
	if o.HistoryEvents == 0 {
		o.HistoryEvents = defaultHistoryEvents
	}
	if o.SlowWatcher == 0 {
		o.SlowWatcher = defaultSlowWatcher
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	return o
}

// Server is the API server. It serves over any net/http server: see Listen, ListenTLS and NewPipe for the usual ones.
type Server struct {
	opts     Options
	store    *store.Store
	registry *registry
	faults   *faults
	recorder *recorder
	tokenKey string // signs continue tokens, so that a changed one is found out

	ctx    context.Context // ended by Close; every request's own context is cut by it
	cancel context.CancelFunc
	wake   chan struct{} // one buffered call for the housekeeper

	serviceMissing time.Time // since when the API server's Service is missing; only the housekeeper uses it

	mu       sync.Mutex // guards what follows, and opts.Token
	rand     *mathrand.Rand
	closed   bool
	restored chan struct{}  // closed by Restore
	inFlight sync.WaitGroup // requests, connections of helpers and the housekeeper
}

// New starts a server with the namespaces, the Service and nothing else that a fresh cluster has.
func New(o Options) *Server {
	o = o.withDefaults()
	s := &Server{
		opts: o,
		store: store.New(store.Options{HistoryEvents: o.HistoryEvents, HistoryAge: o.HistoryAge,
			SlowWatcher: o.SlowWatcher,
			MaxGap:      maxGap, FirstRevision: firstRevision, Seed: o.Seed}),
		registry: newRegistry(kinds.Builtin()),
		faults:   newFaults(o.Seed),
		recorder: &recorder{},
		tokenKey: randomHex(16),
		wake:     make(chan struct{}, 1),
		restored: make(chan struct{}),
		rand:     mathrand.New(mathrand.NewPCG(o.Seed, 1)),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.seed()
	s.inFlight.Add(1)
	go func() {
		defer s.inFlight.Done()
		s.keepHouse()
	}()
	return s
}

// Close ends all watches and other requests and waits for them. It is safe to call it twice.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.inFlight.Wait()
}

// begin counts a request in; false means that the server is closed.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.inFlight.Add(1)
	return true
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer s.inFlight.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r = r.WithContext(ctx)

	rec := s.recorder.start(w, r)
	defer rec.finish()
	header := rec.Header()
	header.Set("Audit-Id", newUID())
	header.Set("Cache-Control", "no-cache, private")
	s.faults.serve(s, rec, r, s.dispatch)
}

// dispatch authenticates a request, finds out what it is for and has it served.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	if token := s.token(); token != "" && r.Header.Get("Authorization") != "Bearer "+token && !public(r) {
		writeError(w, unauthorized())
		return
	}
	if s.serveMeta(w, r) {
		return
	}
	req, err := s.route(r)
	if err == nil {
		err = s.serve(w, req)
	}
	if err != nil {
		writeError(w, err)
	}
}

// SetToken changes the only bearer token that is let in, as Options.Token: what has it open already goes on.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Token = token
}

func (s *Server) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.Token
}

// public says that a request needs no token: probes and the version, as RBAC's default rules allow them to everybody.
func public(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && slices.Contains([]string{"/healthz", "/livez",
		"/readyz", "/version"}, r.URL.Path)
}

// Snapshot returns all that is stored now, for Restore.
func (s *Server) Snapshot() *store.Snapshot { return s.store.Snapshot() }

// Restore goes back to a snapshot, as a cluster does to a backup of its etcd: with the objects their versions come
// back, watches end, and a watch from a version of the lost future is accepted and stays silent until that is reached
// again.
func (s *Server) Restore(sn *store.Snapshot) {
	s.store.Restore(sn)
	s.mu.Lock()
	close(s.restored)
	s.restored = make(chan struct{})
	s.mu.Unlock()
	s.nudge() // other CRDs are there
}

// untilRestored returns a channel that is closed by the next Restore.
func (s *Server) untilRestored() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restored
}

// Compact forgets all history now: resuming from any older revision, and any continue token, gets 410.
func (s *Server) Compact() { s.store.Compact() }

// Revision returns the revision of the last write.
func (s *Server) Revision() int64 { return s.store.Revision() }

// Get returns a stored object as a GET would show it, nil if there is none: for tests that assert on the world. It
// shares no memory with the server.
func (s *Server) Get(r kube.Resource, k kube.Key) map[string]any {
	kind := s.registry.find(r.Group, r.Version, r.Plural)
	if kind == nil {
		return nil
	}
	o, _ := s.store.Get(kind.TableName(), store.Key(k))
	if o == nil {
		return nil
	}
	return decoded(served(kind, o))
}

// List returns all stored objects of a resource in a namespace, or in all (""), in key order, as Get does.
func (s *Server) List(r kube.Resource, namespace string) []map[string]any {
	kind := s.registry.find(r.Group, r.Version, r.Plural)
	if kind == nil {
		return nil
	}
	objects, _, err := s.store.List(kind.TableName(), namespace, 0)
	if err != nil {
		return nil // only a revision other than 0 can fail
	}
	out := make([]map[string]any, 0, len(objects))
	for _, o := range objects {
		out = append(out, decoded(served(kind, o)))
	}
	return out
}

func (s *Server) randN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand
	return hex.EncodeToString(b)
}

// newUID returns a random (version 4) UUID.
func newUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
