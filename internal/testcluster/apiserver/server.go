// Package apiserver is the embedded Kubernetes API server: an http.Handler that behaves like a v1.36 kube-apiserver,
// for the kinds and features that it serves. skiff's tests use it over real HTTP instead of mocks, and skiff-dev
// offers it to kubectl and other programs. Faults can be injected (Inject), requests are recorded (Requests).
//
// It does not do the work of controllers (Deployments, garbage collection, running pods: package simulate) and does
// not store objects (package store). Objects are JSON values as in package patch; the kinds are tables of data in
// package kinds.
//
// Each request runs on its own net/http goroutine. The server has one goroutine of its own, the housekeeper, which
// establishes CRDs, empties deleted namespaces and CRDs, and expires Events. Close ends all of them and waits. Time
// comes from package time only, so that it is virtual within testing/synctest.
package apiserver

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// Version is the server version that this one imitates by default, as /version reports it.
var Version = features.Set{}.Version()

// Options of a Server. The zero value gives the behaviour of a usual cluster.
type Options struct {
	// HistoryEvents and HistoryAge limit the changes kept per resource: a watch that resumes from before gets 410. 0
	// means 10,000 changes (more than a busy test makes) and 5 minutes (etcd's compaction interval).
	HistoryEvents int
	HistoryAge    time.Duration
	// HistoryBytes limits what those changes take as JSON: 0 means 32 MiB, some thousand large pods.
	HistoryBytes int
	// BookmarkInterval is the interval of bookmarks in watches that ask for them; 0 means a minute, negative means
	// never.
	BookmarkInterval time.Duration
	// SlowWatcher is how many changes a watcher may lag behind before the server ends its stream; 0 means 1,000.
	SlowWatcher int
	// Seed determines the gaps between revisions, generated names and random faults; 0 means 1.
	Seed uint64
	// Token is the administrator's bearer token. Users are others, by their tokens. ClientCA signs the certificates of
	// clients that have one. Where all three are empty, every client is the administrator; else a request with bad
	// credentials gets 401, and one without is anonymous. Tokens of service accounts are always good.
	Token    string
	Users    map[string]User
	ClientCA *x509.CertPool
	// TokenKey signs the tokens of service accounts (RSA, or ECDSA on P-256); nil means a new key. Issuer is who they
	// say has issued them, "" that of a usual cluster; it is also the audience of tokens for this server.
	TokenKey crypto.Signer
	Issuer   string
	// CRDDelay is the least time from the creation of a CRD until it is served; 0: as soon as the names are accepted,
	// which a controller does after the answer to the POST.
	CRDDelay time.Duration
	// Limits are those of the servers of ListenTLS.
	Limits Limits
	// Replicas is the number of API servers to simulate: see Front.
	Replicas int
	// CEL evaluates what is written in CEL. Without it, what needs that is refused.
	CEL *CEL
	// RBAC has the stored roles and bindings decide what users may do. Without it every user may do everything, but
	// the anonymous one, which may do what bindings say.
	RBAC bool
	// KeepNamespaces disables the namespace controller: a deleted namespace stays Terminating.
	KeepNamespaces bool
	// Quotas enables the controller of ResourceQuotas, without which they are not enforced.
	Quotas bool
	// ProtectStorage gives new volumes and claims the finalizers of the admission plugin StorageObjectInUseProtection.
	// Such objects go only where a controller removes the finalizers, as that of the simulation does.
	ProtectStorage bool
	// OnWrite is called after each write that has changed something, by the goroutine that serves it. It must be
	// quick.
	OnWrite func(Write)
	// Audit is called for each request whose answer is complete, and for each watch that begins, as OnWrite.
	Audit func(AuditEvent)
	// Features is the version of Kubernetes to be, and its feature gates: by default the newest one, Version.
	Features features.Set
	// WithoutPlugins are the names of admission plugins to do without, among OptionalPlugins; others have no effect.
	WithoutPlugins []string
	// Unserved are built-in kinds not to serve: GROUP/VERSION, or GROUP/VERSION/RESOURCE.
	Unserved []string
}

const defaultStorageClass, podSecurity = "DefaultStorageClass", "PodSecurity"

// OptionalPlugins are the admission plugins that the server has and can do without.
var OptionalPlugins = []string{defaultStorageClass, podSecurity}

const (
	// historyAge is also how long a continue token is valid.
	historyAge = 5 * time.Minute
	// eventTTL is the real server's default.
	eventTTL = time.Hour
	// firstRevision and maxGap make revisions large and sparse, so that clients cannot rely on small or dense ones.
	firstRevision = 1000
	maxGap        = 3
)

func (o Options) withDefaults() Options {
	o.HistoryEvents = cmp.Or(o.HistoryEvents, 10_000)
	o.HistoryAge = cmp.Or(o.HistoryAge, historyAge)
	o.HistoryBytes = cmp.Or(o.HistoryBytes, 32<<20)
	o.BookmarkInterval = cmp.Or(o.BookmarkInterval, time.Minute)
	o.SlowWatcher = cmp.Or(o.SlowWatcher, 1000)
	o.Seed = cmp.Or(o.Seed, 1)
	return o
}

// Server is the API server. Any net/http server can serve it: see ListenTLS and ListenPipe.
type Server struct {
	opts     Options
	store    *store.Store
	registry *registry
	faults   *faults.Injector
	authn    *auth.Authenticator
	openAPI  httpd.OpenAPI

	ctx    context.Context // cancelled by Close, which cancels all requests
	cancel context.CancelFunc
	wake   chan struct{} // buffers one signal for the housekeeper

	dial func(ctx context.Context, network, address string) (net.Conn, error) // to webhooks
	// makePlugins make the chain that admits writes from the stored configurations.
	makePlugins []func(tx *store.Tx) []admission.Plugin
	chain       admission.Chain // only used within a transaction, as what follows
	hooks       []*admission.Webhook
	chainAt     int64                           // the revision of the configurations that chain was made of
	converters  map[string]*admission.Converter // by definition

	// Only the housekeeper uses these two.
	serviceMissing time.Time // since when the API server's Service is missing
	eventsChecked  time.Time // when it looked at all Events

	bodies budget // has a lock of its own

	mu       sync.Mutex // guards what follows
	rand     *rand.Rand
	closed   bool
	restored chan struct{} // closed by Restore
	served   map[*http.Request]struct{}
	requests []*Request // recorded ones, in the order of their arrival
	// what tests set over HTTP, see control.go
	snapshots map[string]*store.Snapshot
	inFlight  sync.WaitGroup // requests, connections of helpers and the housekeeper
}

// New starts a server with the namespaces and the Service of a new cluster, and nothing else.
func New(o Options) *Server {
	o = o.withDefaults()
	s := &Server{
		opts: o,
		store: store.New(store.Options{HistoryEvents: o.HistoryEvents, HistoryAge: o.HistoryAge,
			HistoryBytes: o.HistoryBytes, SlowWatcher: o.SlowWatcher,
			MaxGap: maxGap, FirstRevision: firstRevision, Seed: o.Seed,
			Unique: map[string]func(map[string]any) []string{"services": kinds.HeldByService}}),
		registry: &registry{kinds: served(o.Features, o.Unserved), crds: map[string]int64{},
			ends: map[kube.Resource]chan struct{}{}},
		faults:     faults.New(o.Seed),
		wake:       make(chan struct{}, 1),
		converters: map[string]*admission.Converter{},
		restored:   make(chan struct{}), served: map[*http.Request]struct{}{}, snapshots: map[string]*store.Snapshot{},
		rand: rand.New(rand.NewPCG(o.Seed, 1)), dial: new(net.Dialer).DialContext,
		openAPI: httpd.OpenAPI{Version: o.Features.Version()},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.authn = &auth.Authenticator{Store: s.store, Users: o.Users, ClientCA: o.ClientCA, Key: o.TokenKey,
		Issuer: o.Issuer, Roles: o.RBAC}
	s.authn.SetToken(o.Token)
	s.useCEL()
	s.refuseConditions()
	s.makePlugins = append(s.makePlugins, s.webhooks)
	s.seed("")
	s.SetStart()
	s.inFlight.Add(1)
	go func() {
		defer s.inFlight.Done()
		s.housekeep()
	}()
	return s
}

// Close ends all requests, watches included, and waits for them. It can be called twice.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.inFlight.Wait()
	s.store.Update(func(*store.Tx) error {
		s.closeWebhooks()
		return nil
	})
	for _, c := range s.converters {
		c.Close()
	}
}

// begin registers a request until its end; false means that the server is closed.
func (s *Server) begin(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.inFlight.Add(1)
	s.served[r] = struct{}{}
	return true
}

func (s *Server) end(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.served, r)
	s.inFlight.Done()
}

// ServeHTTP answers one request: it reads what the request is for and who sent it, lets the faults that hit it have
// their way, and has it dispatched.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin(r) {
		http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer s.end(r)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if r = r.WithContext(ctx); strings.HasPrefix(r.URL.Path, controlPath) {
		s.control(w, r)
		return
	}
	req := readPath(r)
	var done func()
	req.Request, done = s.faults.Pick(r, faults.Target{Verb: req.verb, Resource: req.asked.Plural,
		Namespace: req.namespace, Name: req.name, Replica: s.frontOf(ctx)})
	defer done()
	req.user, req.noUser = s.authn.Authenticate(req.Request, clock(req.Request))
	rec := s.record(w, req)
	defer rec.finish()
	header := rec.Header()
	header.Set("Audit-Id", obj.NewUID())
	header.Set("Cache-Control", "no-cache, private")
	faults.Serve(rec, req.Request, req.verb == "watch", func(w http.ResponseWriter) {
		req.writer = w
		s.dispatch(req)
	})
}

// clock returns the time by the server's clock, which a fault may have set for a request; r may be nil.
func clock(r *http.Request) time.Time {
	if r == nil {
		return time.Now()
	}
	return time.Now().Add(faults.Ahead(r.Context()))
}

// dispatch answers a request, in the form that the client asks for, with the error if there is one.
func (s *Server) dispatch(r *request) {
	if as := forms.InJSON(r.Request); as != nil && strings.HasPrefix(r.URL.Path, "/api") {
		y := &forms.YAML{ResponseWriter: r.writer}
		defer y.Close()
		r.writer, r.Request, r.inYAML = y, as, true
	}
	r.bodies = &s.bodies
	defer func() { s.bodies.release(r.claimed) }()
	err := s.answer(r)
	switch {
	case err == nil:
	case r.kind != nil && prefersProtobuf(r, nil):
		forms.WriteProtobufError(r.writer, err)
	default:
		httpd.Error(r.writer, err)
	}
}

// answer authorizes, routes and serves a request. The error is the answer, if nothing was written.
func (s *Server) answer(r *request) error {
	if err := s.authorizeRequest(r); err != nil {
		return err
	}
	if r.inYAML && watches(r.query) {
		return forms.NoWatch()
	}
	r.kind = s.registry.find(r.asked.Group, r.asked.Version, r.asked.Plural)
	if err := r.checkTimeout(); err != nil {
		return err
	}
	if !r.forResource {
		return s.serveDocument(r)
	}
	if err := s.route(r); err != nil {
		return err
	}
	return s.serve(r)
}
