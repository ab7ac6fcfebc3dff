package fakeapi

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/fakeapi/answer"
)

// Fault makes matching requests fail. Some fields select the requests, the others are what happens to them.
type Fault struct {
	// These select requests; an empty field matches everything.
	Verb      string // get list watch create update patch delete deletecollection
	Resource  string // the plural
	Namespace string
	Name      string
	Path      string // a prefix of the path, which can match /api, /openapi or /version, too
	UserAgent string // a substring
	// Skip lets that many matching requests pass first. Times ends the fault after that many more (0 = never).
	// Probability, if not 0, is the chance that it applies to a matching request, by the server's seed.
	Skip, Times int
	Probability float64

	Delay time.Duration // before the request is processed
	// AnswerDelay is the time between processing a request, whose event watches get at once, and its answer.
	// EventDelay delays the event instead: real servers do not guarantee which comes first.
	AnswerDelay time.Duration
	Reply       *Reply // answer with this instead of serving the request
	Cut         Cut    // end the request without a proper answer
	By          By     // what ends: how a Cut, or a watch's End, is made
	GoAway      bool   // close the connection once its requests are answered: HTTP/2 sends GOAWAY
	At          int    // bytes of the body that are sent before CutBody or StallBody
	Chunk       int    // send the body in pieces of this many bytes, each flushed
	// Rewrite changes the body of an answer, or the object of each event of a watch.
	Rewrite func(body []byte) []byte
	Watch   WatchFault
}

// Reply is an answer to send instead of the server's own.
type Reply struct {
	Code        int
	Reason      string // with Message, answers as a Status ...
	Message     string
	Body        string // ... unless there is a Body: text, HTML, a broken Status
	ContentType string // of Body
	Empty       bool   // no body at all
	RetryAfter  string // header
}

// Cut is the point at which a connection breaks or goes silent.
type Cut int

// Fault.By says what a cut ends.
const (
	NoCut     Cut = iota
	CutBefore     // before the request is processed
	CutAfter      // after it was processed, before the answer
	CutBody       // after byte At of the body
	StallBody     // after byte At of the body: the connection stays open and silent
	Blackhole     // never an answer; the request is not processed
)

// By is what a cut ends.
type By int

// With ByReset over something other than TCP, the connection is closed.
const (
	ByStream By = iota // the request: RST_STREAM with HTTP/2, the connection with HTTP/1
	ByClose            // the whole connection, with FIN
	ByReset            // the whole connection, with RST
)

// connKey is the context key of a request's connection.
type connKey struct{}

// keepConn is http.Server.ConnContext of all servers.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// hangUp closes the connection of a request.
func (by By) hangUp(ctx context.Context) {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return // served by another server than ours
	}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // without a close_notify
	}
	if f, ok := conn.(*frozenConn); ok && by == ByReset {
		if t, ok := f.Conn.(*net.TCPConn); ok {
			t.SetLinger(0) // an error means that the connection is gone
		}
	}
	conn.Close() // likewise
}

// faults has the injected faults.
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

// Inject adds a fault and returns a function that removes it.
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

// ExpireContinueTokens expires all continue tokens issued so far, without removing history.
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

// pick returns the faults that apply to a request. Each fault counts the requests that it matches.
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

// faultKey is the context key of the faults of a watch.
type faultKey struct{}

// serve serves a request with the faults that apply to it.
func (f *faults) serve(s *Server, w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	req, _ := s.route(r) // a request that is not for a resource can be matched by its path
	hits := f.pick(r, req)
	if len(hits) == 0 {
		next(w, r)
		return
	}
	fw := &faultWriter{ResponseWriter: w, ctx: r.Context(), watch: req != nil && req.verb == "watch"}
	for _, h := range hits {
		if h.By != ByStream {
			defer func() {
				if p := recover(); p != nil { // a cut
					h.By.hangUp(r.Context())
					panic(p)
				}
			}()
		}
		if h.GoAway {
			w.Header().Set("Connection", "close")
		}
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
		answer.Bytes(w, rep.Code, []byte(rep.Body))
	default:
		answer.Error(w, answer.Failure(rep.Code, rep.Reason, rep.Message, answer.NoDetails))
	}
}

// sleep returns false if the request ended first.
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
