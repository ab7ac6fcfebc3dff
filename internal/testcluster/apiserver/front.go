package apiserver

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// What those who use the server need of its packages, so that one import does.
type (
	Fault        = faults.Fault
	FaultSet     = faults.Set
	Reply        = faults.Reply
	WatchFault   = faults.WatchFault
	ErrorArg     = faults.ErrorArg
	BookmarkMode = faults.BookmarkMode
	Pipe         = httpd.Pipe
	TLS          = httpd.TLS
	Limits       = httpd.Limits
	User         = kinds.User
)

// The values of faults.
const (
	Simulation = faults.Simulation

	CutBefore = faults.CutBefore
	CutAfter  = faults.CutAfter
	CutBody   = faults.CutBody
	StallBody = faults.StallBody
	Blackhole = faults.Blackhole
	Switch    = faults.Switch

	ByClose = faults.ByClose
	ByReset = faults.ByReset

	GoneInStream = faults.GoneInStream
	GoneAsHTTP   = faults.GoneAsHTTP

	BookmarksNever     = faults.BookmarksNever
	BookmarksStorm     = faults.BookmarksStorm
	BookmarksAtEnd     = faults.BookmarksAtEnd
	BookmarksOfAnother = faults.BookmarksOfAnother
	BookmarksUnmarked  = faults.BookmarksUnmarked
	BookmarksBehind    = faults.BookmarksBehind

	EndCleanly   = faults.EndCleanly
	EndCut       = faults.EndCut
	EndMidFrame  = faults.EndMidFrame
	EndSilent    = faults.EndSilent
	EndWithError = faults.EndWithError
)

// PipeURL is the server address for clients of a Pipe.
const PipeURL = httpd.PipeURL

// ParseFaults reads a body of PUT /skiff/faults, or the file of --faults.
func ParseFaults(body []byte) (FaultSet, error) { return faults.Parse(body) }

// Inject adds a fault and returns a function that removes it.
func (s *Server) Inject(f Fault) (remove func()) { return s.faults.Inject(f) }

// ListenPipe serves on a Pipe until the server is closed. Call Pipe.Close first if clients are to see their
// connections end.
func (s *Server) ListenPipe() *Pipe { return httpd.OnPipe(s) }

// NewCertificate makes an authority, and a certificate by it for the loopback addresses.
func NewCertificate() (cert tls.Certificate, ca []byte, err error) { return httpd.NewCertificate() }

// ListenTLS serves HTTP/1.1 and HTTP/2 on addr ("127.0.0.1:0" takes any free port) until Close, with a certificate of
// an authority of its own.
func (s *Server) ListenTLS(addr string) (*TLS, error) {
	cert, ca, err := httpd.NewCertificate()
	if err != nil {
		return nil, err
	}
	return s.ListenTLSWith(addr, cert, ca)
}

// ListenReplica serves replica n alone on a free port of the loopback interface.
func (s *Server) ListenReplica(n int, cert tls.Certificate, ca []byte) (*TLS, error) {
	return httpd.OnTLS(s.Front(n), "127.0.0.1:0", cert, ca, s.opts.ClientCA, s.opts.Limits)
}

// ListenTLSWith is ListenTLS with a certificate and the PEM of its authority.
func (s *Server) ListenTLSWith(addr string, cert tls.Certificate, ca []byte) (*TLS, error) {
	return httpd.OnTLS(s, addr, cert, ca, s.opts.ClientCA, s.opts.Limits)
}

// A cluster may have several API servers, over one log of changes. Here they are front ends of one server, numbered
// from 1 to Options.Replicas: connections go to them in turn, or to one by a port of its own (Front). Faults select
// them by Fault.Replica, and Fault.Lag is how far the cache of one is behind.

// frontKey is the context key of the front end that a request came through.
type frontKey struct{}

// Front returns front end n as a handler of its own.
func (s *Server) Front(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), frontKey{}, n)))
	})
}

// frontOf returns the number of the front end that a request came through.
func (s *Server) frontOf(ctx context.Context) int {
	if n, ok := ctx.Value(frontKey{}).(int); ok {
		return n
	}
	return httpd.Serial(ctx)%max(1, s.opts.Replicas) + 1
}

// Restart ends the connections of the requests that front end n serves, or all with 0, as the restart of an API server
// does; with silent they stay open and lose all bytes, as when its machine loses power. The next connection may be to
// another.
func (s *Server) Restart(n int, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.served {
		switch front := s.frontOf(r.Context()); {
		case n != 0 && n != front, strings.HasPrefix(r.URL.Path, controlPath): // the request that asks for this
		case silent:
			httpd.Silence(r.Context())
		default:
			httpd.HangUp(r.Context(), false)
		}
	}
}

// seen returns the revision up to which the cache has come that answers a request: of a front end that lags it is an
// old one.
func (s *Server) seen(ctx context.Context) int64 {
	if lag := faults.Lag(ctx); lag > 0 {
		return s.store.RevisionAt(time.Now().Add(-lag))
	}
	return s.store.Revision()
}

// cached returns the revision at which a read is answered that asks for no consistent answer: 0, the newest, unless
// the front end lags.
func (s *Server) cached(ctx context.Context) int64 {
	if faults.Lag(ctx) > 0 {
		return s.seen(ctx)
	}
	return 0
}

// find returns the object of a GET, nil if there is none: without a resourceVersion the newest state.
func (s *Server) find(r *request) (*store.Object, error) {
	if faults.Lag(r.Context()) == 0 || r.query.Get("resourceVersion") == "" {
		return s.store.Get(r.kind.TableName(), store.Key(r.key())), nil
	}
	objects, _, err := s.listAndWatch(r.Context(), r.kind.TableName(), r.namespace)
	for _, o := range objects {
		if o.Name == r.name {
			return o, nil
		}
	}
	return nil, err
}

// listAndWatch returns what a cache has, which may lag, and a cursor that starts after it.
func (s *Server) listAndWatch(ctx context.Context, table, namespace string) ([]*store.Object, *store.Cursor, error) {
	objects, cursor, err := s.store.ListAndWatch(table, namespace, s.cached(ctx))
	if err != nil {
		return nil, nil, httpd.InternalError("the fault's lag is longer than the history: %v", err)
	}
	return objects, cursor, nil
}

// recordLimit is how many requests are kept: more than any test sends, and little memory for a server that runs for
// days.
const recordLimit = 100_000

// Request is one recorded request.
type Request struct {
	Method, Path string
	Query        url.Values
	User         string // who sent it; "" if the credentials are not good
	UserAgent    string
	ContentType  string
	Time         time.Time // when it arrived
	Done         time.Time // when the answer was complete; zero before (for example while a watch runs)
	Status       int       // 0 before the answer
}

// Watch reports whether the request opened a watch.
func (r Request) Watch() bool { return watches(r.Query) }

// Requests returns the recorded requests in the order of their arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return obj.Each(s.requests, func(r *Request) Request { return *r })
}

// Write is a write that has changed something.
type Write struct {
	Time      time.Time
	UserAgent string
	From      string // the header Authorization; a server without users and tokens takes any text
	Verb      string // create, update, patch or delete
	Resource  kube.Resource
	Sub       string         // subresource
	Before    map[string]any // nil: the object is new. It must not be changed, as After
	After     map[string]any // nil after a delete, which may leave the object there for a while
}

func (s *Server) wrote(r *request, before, after *store.Object) {
	if s.opts.OnWrite == nil {
		return
	}
	w := Write{Time: time.Now(), UserAgent: r.UserAgent(), From: r.Header.Get("Authorization"),
		Verb: r.verb, Resource: r.kind.Resource, Sub: r.sub}
	if before != nil {
		w.Before = before.Value()
	}
	if after != nil {
		w.After = after.Value()
	}
	s.opts.OnWrite(w)
}

// ForgetRequests clears the record.
func (s *Server) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// record records a request and returns a writer that records its answer.
func (s *Server) record(w http.ResponseWriter, r *request) *recordedWriter {
	req := &Request{Method: r.Method, Path: r.URL.Path, Query: r.query, User: r.user.Name,
		UserAgent: r.UserAgent(), ContentType: r.Header.Get("Content-Type"), Time: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == recordLimit {
		s.requests = s.requests[recordLimit/10:]
	}
	s.requests = append(s.requests, req)
	return &recordedWriter{w, s, req, r, r.user}
}

// recordedWriter records the status of an answer.
type recordedWriter struct {
	http.ResponseWriter
	s   *Server
	req *Request
	of  *request
	by  kinds.User // who sent it; of.user is whom it is for
}

func (w *recordedWriter) WriteHeader(code int) {
	w.s.mu.Lock()
	w.req.Status = code
	w.s.mu.Unlock()
	if w.of.verb == "watch" {
		w.audit(stageStarted)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController flush the answer, which watches need.
func (w *recordedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recordedWriter) finish() {
	w.s.mu.Lock()
	w.req.Done = time.Now()
	w.s.mu.Unlock()
	w.audit(stageComplete)
}
