package apiserver

import (
	"net/http"
	"net/url"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/store"
)

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
	out := make([]Request, 0, len(s.requests))
	for _, r := range s.requests {
		out = append(out, *r)
	}
	return out
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

// wrote tells Options.OnWrite about a write.
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
	return &recordedWriter{w, s, req}
}

// recordedWriter records the status of an answer.
type recordedWriter struct {
	http.ResponseWriter
	s   *Server
	req *Request
}

func (w *recordedWriter) WriteHeader(code int) {
	w.s.mu.Lock()
	w.req.Status = code
	w.s.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController flush the answer, which watches need.
func (w *recordedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recordedWriter) finish() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.req.Done = time.Now()
}
