package fakeapi

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"skiff/internal/fakeapi/authn"
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

type recorder struct {
	mu       sync.Mutex // guards what follows
	requests []*Request
}

// Requests returns the recorded requests in the order of their arrival.
func (s *Server) Requests() []Request {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	out := make([]Request, 0, len(s.recorder.requests))
	for _, r := range s.recorder.requests {
		out = append(out, *r)
	}
	return out
}

// ForgetRequests clears the record.
func (s *Server) ForgetRequests() {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.recorder.requests = nil
}

// start records a request and returns a writer that records its answer.
func (rec *recorder) start(w http.ResponseWriter, r *http.Request) *recordedWriter {
	req := &Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), User: authn.Of(r).User.Name,
		UserAgent: r.UserAgent(), ContentType: r.Header.Get("Content-Type"), Time: time.Now()}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.requests) == recordLimit {
		rec.requests = rec.requests[recordLimit/10:]
	}
	rec.requests = append(rec.requests, req)
	return &recordedWriter{ResponseWriter: w, rec: rec, req: req}
}

// recordedWriter records the status of an answer.
type recordedWriter struct {
	http.ResponseWriter
	rec *recorder
	req *Request
}

func (w *recordedWriter) WriteHeader(code int) {
	w.rec.mu.Lock()
	w.req.Status = code
	w.rec.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController flush the answer, which watches need.
func (w *recordedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recordedWriter) finish() {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	w.req.Done = time.Now()
}
