package fakeapi

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is something that goes wrong with matching requests. Set the fields that say which, and those that say what.
type Fault struct {
	// Which requests; an empty field matches everything.
	Verb      string // get list watch create update patch delete deletecollection
	Resource  string // the plural
	Namespace string
	Name      string
	Path      string // a prefix of the path, also of what is no resource: /api, /openapi, /version
	UserAgent string // a part of it
	// Skip lets that many matching requests pass first, Times ends the fault after that many more (0 = never ends).
	// Probability, if not 0, is the chance that a matching request is hit, drawn from the server's seed.
	Skip, Times int
	Probability float64

	Delay time.Duration // before the request is looked at
	// AnswerDelay is the time between the processing of a request, which watches see at once, and its answer. With
	// EventDelay a watch can be the later one: nobody promises which comes first.
	AnswerDelay time.Duration
	Reply       *Reply // answer with this instead of serving the request
	Cut         Cut    // end the connection without a proper answer
	At          int    // bytes of the body that are sent before CutBody or StallBody
	Chunk       int    // send the body in pieces of this many bytes, each flushed
	// Rewrite changes what is sent: the body of an answer, or the object of each event of a watch.
	Rewrite func(body []byte) []byte
	Watch   WatchFault
}

// Reply is an answer that the server did not make.
type Reply struct {
	Code        int
	Reason      string // with Message, answers as a Status ...
	Message     string
	Body        string // ... unless there is a Body: text, HTML, a broken Status
	ContentType string // of Body
	Empty       bool   // no body at all
	RetryAfter  string // header
}

// Cut says where a connection ends, or seems to live on in silence.
type Cut int

// The places to cut. HTTP/1 closes the connection, HTTP/2 resets the stream.
const (
	NoCut     Cut = iota
	CutBefore     // before the request is processed
	CutAfter      // after it was processed, before the answer
	CutBody       // behind byte At of the body
	StallBody     // behind byte At of the body: nothing more comes, nothing ends
	Blackhole     // no answer, ever; the request is not processed
)

// faults holds the scripted faults.
type faults struct {
	mu           sync.Mutex // guards what follows
	active       []*armed
	rand         *rand.Rand
	tokensBefore time.Time // continue tokens issued up to then are expired
}

type armed struct {
	Fault
	seen, hit int
}

func newFaults(seed uint64) *faults { return &faults{rand: rand.New(rand.NewPCG(seed, 2))} }

// Inject arms a fault and returns the function that takes it away.
func (s *Server) Inject(f Fault) (remove func()) {
	a := &armed{Fault: f}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.active = append(s.faults.active, a)
	return func() {
		s.faults.mu.Lock()
		defer s.faults.mu.Unlock()
		s.faults.active = slices.DeleteFunc(s.faults.active, func(b *armed) bool { return a == b })
	}
}

// ExpireContinueTokens makes all continue tokens that were handed out so far too old, the history stays.
func (s *Server) ExpireContinueTokens() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.tokensBefore = time.Now()
}

func (f *faults) tokensExpired(issued time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !issued.After(f.tokensBefore)
}

// SetHistory changes how much history is kept from now on, as in Options.
func (s *Server) SetHistory(events int, age time.Duration) { s.store.SetWindow(events, age) }

// pick returns the faults that hit a request. Each fault counts the requests it matches.
func (f *faults) pick(r *http.Request, req *request) []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Fault
	for _, a := range f.active {
		if !a.matches(r, req) {
			continue
		}
		if a.Probability > 0 && f.rand.Float64() >= a.Probability {
			continue
		}
		if a.seen++; a.seen <= a.Skip || a.Times > 0 && a.hit >= a.Times {
			continue
		}
		a.hit++
		out = append(out, a.Fault)
	}
	return out
}

func (a *armed) matches(r *http.Request, req *request) bool {
	if !strings.HasPrefix(r.URL.Path, a.Path) || !strings.Contains(r.UserAgent(), a.UserAgent) {
		return false
	}
	if a.Verb == "" && a.Resource == "" && a.Namespace == "" && a.Name == "" {
		return true
	}
	is := func(want, got string) bool { return want == "" || want == got }
	return req != nil && is(a.Verb, req.verb) && is(a.Resource, req.kind.Plural) &&
		is(a.Namespace, req.namespace) && is(a.Name, req.name)
}

// faultKey carries the faults of a watch to it.
type faultKey struct{}

// serve puts the faults that hit a request around it.
func (f *faults) serve(s *Server, w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	req, _ := s.route(r) // what is no resource can still be hit by its path
	hits := f.pick(r, req)
	if len(hits) == 0 {
		next(w, r)
		return
	}
	fw := &faultWriter{ResponseWriter: w, ctx: r.Context(), watch: req != nil && req.verb == "watch"}
	for _, h := range hits {
		if !sleep(r.Context(), h.Delay) {
			return
		}
		switch h.Cut {
		case CutBefore:
			panic(http.ErrAbortHandler)
		case Blackhole:
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		if h.Reply != nil {
			h.Reply.write(w)
			return
		}
		fw.add(h)
	}
	next(fw, r.WithContext(context.WithValue(r.Context(), faultKey{}, hits)))
	fw.close()
}

func (rep *Reply) write(w http.ResponseWriter) {
	if rep.RetryAfter != "" {
		w.Header().Set("Retry-After", rep.RetryAfter)
	}
	switch {
	case rep.Empty:
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(rep.Code)
	case rep.Body != "":
		w.Header().Set("Content-Type", rep.ContentType)
		writeBytes(w, rep.Code, []byte(rep.Body))
	default:
		writeError(w, failure(rep.Code, rep.Reason, rep.Message, detailsNone))
	}
}

// sleep waits; false means that the request ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
