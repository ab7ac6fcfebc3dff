// Package faults breaks what a server does, as clients meet it: answers that fail, come late, in pieces or not at
// all, and watches that lose, repeat or spoil events. A Fault says which requests it is for and what happens to them;
// it is also the form in which a test in another language states it, as JSON. All runs on the goroutine of the
// request that a fault hits.
package faults

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/testcluster/apiserver/httpd"
)

// Fault makes matching requests fail. Some fields select the requests, the others are what happens to them.
type Fault struct {
	// These select requests; an empty field matches everything.
	Verb      string `json:"verb"`     // get list watch create update patch delete deletecollection
	Resource  string `json:"resource"` // the plural
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`      // a prefix of the path, which can match /api, /openapi or /version, too
	UserAgent string `json:"userAgent"` // a substring; without one the requests of the Simulation pass
	Replica   int    `json:"replica"`   // the number of the API server, from 1, where there are several
	// Skip lets that many matching requests pass first. Times ends the fault after that many more (0 = never).
	// Probability, if not 0, is the chance that it applies to a matching request, by the seed.
	Skip        int     `json:"skip"`
	Times       int     `json:"times"`
	Probability float64 `json:"probability"`
	// PerSecond and InFlight are budgets, as of API priority and fairness: so many matching requests pass each second,
	// or at the same time.
	PerSecond int `json:"perSecond"`
	InFlight  int `json:"inFlight"`

	Delay time.Duration `json:"delay"` // before the request is processed
	// AnswerDelay is the time between processing a request, whose event watches get at once, and its answer.
	// EventDelay delays the event instead: real servers do not guarantee which comes first.
	AnswerDelay time.Duration `json:"answerDelay"`
	Reply       *Reply        `json:"reply"` // answer with this instead of serving the request
	Cut         Cut           `json:"cut"`   // end the request without a proper answer
	By          By            `json:"by"`    // what ends: how a Cut, or a watch's End, is made
	// close the connection once its requests are answered: HTTP/2 sends GOAWAY
	GoAway bool `json:"goAway"`
	// At is after how many bytes of the body CutBody or StallBody happens; without them the answer is flushed there.
	At     int       `json:"at"`
	Chunk  int       `json:"chunk"`  // send the body in pieces of this many bytes, each flushed
	Gather int       `json:"gather"` // flush the body only after each so many bytes, and several events at once
	Gzip   httpd.Zip `json:"gzip"`   // compress what a client accepts in gzip, in this way
	// Rewrite changes the body of an answer, or the object of each event of a watch.
	Rewrite Rewrite `json:"rewrite"`
	// Lag is how far the server's cache is behind, which answers reads that do not ask for the newest state, and
	// watches.
	Lag time.Duration `json:"lag"`
	// Clock is how far the server's clock is ahead, or behind if negative: the times that a request writes into an
	// object, ages, the header Date, and when a token or certificate of a client is good.
	Clock time.Duration `json:"clock"`
	Watch WatchFault    `json:"watch"`
}

// Reply is an answer to send instead of the server's own.
type Reply struct {
	Code        int    `json:"code"`
	Reason      string `json:"reason"` // with Message, answers as a Status ...
	Message     string `json:"message"`
	Body        string `json:"body"`        // ... unless there is a Body: text, HTML, a broken Status
	ContentType string `json:"contentType"` // of Body
	Empty       bool   `json:"empty"`       // no body at all
	RetryAfter  string `json:"retryAfter"`  // header
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
	// Switch is 101 Switching Protocols to a request that asks for none, and a connection that stays open and silent.
	// The request is not processed. With HTTP/2, where no connection can switch, it is a Blackhole.
	Switch
)

// By is what a cut ends.
type By int

// With ByReset over something other than TCP, the connection is closed.
const (
	ByStream By = iota // the request: RST_STREAM with HTTP/2, the connection with HTTP/1
	ByClose            // the whole connection, with FIN
	ByReset            // the whole connection, with RST
)

// Injector has the faults of a server.
type Injector struct {
	seed     uint64
	mu       sync.Mutex // guards what follows
	active   []*armed
	injected uint64 // how often Inject was called
}

type armed struct {
	Fault
	ofSet     bool
	chance    *rand.Rand // its own: what hits others changes nothing for it
	seen, hit int

	second  time.Time // when the present second of PerSecond began
	passed  int       // in that second
	running int       // requests that passed by InFlight
}

// New returns an Injector without faults, whose chances follow from a seed.
func New(seed uint64) *Injector { return &Injector{seed: seed} }

// Replace replaces the faults of the last Set by those of another, whose chances begin anew.
func (in *Injector) Replace(by Set) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.active = slices.DeleteFunc(in.active, func(a *armed) bool { return a.ofSet })
	for i, f := range by.Faults {
		in.active = append(in.active, &armed{Fault: f, ofSet: true,
			chance: rand.New(rand.NewPCG(cmp.Or(by.Seed, in.seed), uint64(i)))})
	}
}

// Inject adds a fault and returns a function that removes it.
func (in *Injector) Inject(f Fault) (remove func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.injected++
	a := &armed{Fault: f, chance: rand.New(rand.NewPCG(in.seed, maxFaults+in.injected))}
	in.active = append(in.active, a)
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.active = slices.DeleteFunc(in.active, func(b *armed) bool { return a == b })
	}
}

// Pick returns a request with the faults that apply to it, for the other functions. Each fault counts the requests
// that it matches. done is to be called when the request is answered.
func (in *Injector) Pick(r *http.Request, at Target) (with *http.Request, done func()) {
	var out []Fault
	in.mu.Lock()
	defer in.mu.Unlock()
	var passed []*armed
	for _, a := range in.active {
		if !a.matches(r, at) || a.Probability > 0 && a.chance.Float64() >= a.Probability {
			continue
		}
		switch a.seen++; {
		case a.seen <= a.Skip || a.Times > 0 && a.hit >= a.Times:
		case a.InFlight > 0 && a.running < a.InFlight:
			a.running++
			passed = append(passed, a)
		case !a.withinBudget():
			a.hit++
			out = append(out, a.Fault)
		}
	}
	return r.WithContext(context.WithValue(r.Context(), faultKey{}, out)), func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, a := range passed {
			a.running--
		}
	}
}

// withinBudget reports whether another request may pass by PerSecond, and counts it.
func (a *armed) withinBudget() bool {
	if now := time.Now(); now.Sub(a.second) >= time.Second {
		a.second, a.passed = now, 0
	}
	a.passed++
	return a.passed <= a.PerSecond
}

// Target is what a request is for. It is zero for one that is not for a resource, which its path can select.
type Target struct {
	Verb, Resource, Namespace, Name string
	Replica                         int
}

// Simulation is the user agent of what simulates the rest of a cluster. It would use up the faults for others.
const Simulation = "skiff-simulate"

func (a *armed) matches(r *http.Request, at Target) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	if a.UserAgent == "" && r.UserAgent() == Simulation {
		return false
	}
	return strings.HasPrefix(r.URL.Path, a.Path) && strings.Contains(r.UserAgent(), a.UserAgent) &&
		is(a.Verb, at.Verb) && is(a.Resource, at.Resource) && is(a.Namespace, at.Namespace) && is(a.Name, at.Name) &&
		(a.Replica == 0 || a.Replica == at.Replica)
}

// faultKey is the context key of the faults that hit a request.
type faultKey struct{}

func hitsOf(ctx context.Context) []Fault {
	hits, _ := ctx.Value(faultKey{}).([]Fault)
	return hits
}

// Rewrites reports whether a fault rewrites the answer to a request, which it expects in JSON.
func Rewrites(ctx context.Context) bool {
	return slices.ContainsFunc(hitsOf(ctx), func(f Fault) bool { return f.Rewrite != nil })
}

// Lag returns how far behind the cache is that answers a request.
func Lag(ctx context.Context) time.Duration {
	var lag time.Duration
	for _, f := range hitsOf(ctx) {
		lag = max(lag, f.Lag)
	}
	return lag
}

// Ahead returns how far the server's clock is ahead for a request.
func Ahead(ctx context.Context) (d time.Duration) {
	for _, f := range hitsOf(ctx) {
		d += f.Clock
	}
	return d
}
