// Package history remembers what the controllers of a process have done lately: the last runs with their causes and
// writes, and a sample of the queues every few seconds. It is for the live page, and is empty without it.
//
// Workers add runs, one goroutine of the manager adds samples, HTTP handlers read. It has no goroutine of its own.
package history

import (
	"net/http"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// maxRuns and MaxWrites of each are kept, as long as they take maxBytes at most: names may have 253 characters.
	maxRuns   = 1000
	MaxWrites = 16
	maxBytes  = 7 << 19 // 3.5 MiB, so that all of it is 4 MB
	// maxCauses of a run are shown; more of them say nothing new.
	maxCauses = 8
	// maxText bounds a text of others.
	maxText = 200
	// SampleEvery and maxSamples are a quarter of an hour: what somebody who is woken looks back at.
	SampleEvery = 5 * time.Second
	maxSamples  = 180
)

// Run is one run of a reconcile function that wrote or failed.
type Run struct {
	ID         uint64    `json:"id"` // counts from 1
	Controller string    `json:"controller"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name"`
	Causes     []string  `json:"causes"`
	MoreCauses int       `json:"moreCauses,omitempty"`
	Due        time.Time `json:"due"`
	Began      time.Time `json:"began"`
	Ended      time.Time `json:"ended"`
	Outcome    string    `json:"outcome"` // what follows, in words
	Failures   int       `json:"failures,omitempty"`
	Error      *Error    `json:"error,omitempty"`
	Writes     []Write   `json:"writes,omitempty"`
	MoreWrites int       `json:"moreWrites,omitempty"`
}

// Key is that of the object.
func (r *Run) Key() kube.Key { return kube.Key{Namespace: r.Namespace, Name: r.Name} }

// Error is why a run failed. Its Text may repeat what is in an object, and is for readers who may see that.
type Error struct {
	Reason string   `json:"reason"`
	Code   int      `json:"code,omitempty"` // of HTTP
	Kind   string   `json:"kind,omitempty"` // of the object that the server refused
	Fields []string `json:"fields,omitempty"`
	Text   string   `json:"text,omitempty"`
}

// Write is one request of a run.
type Write struct {
	Verb   string    `json:"verb"`
	Object string    `json:"object"` // "deployments.apps default/web"
	Code   int       `json:"code"`   // of HTTP; 0: there was no answer
	Sent   time.Time `json:"sent"`
	Millis float64   `json:"ms"`
	DryRun bool      `json:"dryRun,omitempty"` // it changed nothing: see kube.CountedWrite
	Again  bool      `json:"again,omitempty"`  // the run has sent it again, in another form, and that was done
}

// Refused says that the server did not do, or would not do, what was asked, and that this was so in the end.
func (w Write) Refused() bool { return w.failed() && !w.Again }

func (w Write) failed() bool {
	return w.Code == 0 || w.Code >= http.StatusBadRequest && !(w.DryRun && w.Code == http.StatusConflict)
}

// settle notes which of the writes of a run that have failed were sent again and done.
func settle(writes []Write) {
	type what struct {
		verb, object string
		dryRun       bool
	}
	done := map[what]bool{}
	for i := len(writes) - 1; i >= 0; i-- {
		w := &writes[i]
		of := what{w.Verb, w.Object, w.DryRun}
		if w.failed() {
			w.Again = done[of]
		} else {
			done[of] = true
		}
	}
}

// ErrorOf describes an error for people. reason is the word for it.
func ErrorOf(err error, reason string) *Error {
	e := &Error{Reason: kube.Printable(reason, maxText), Text: kube.Printable(kube.Explain(err), 2*maxText)}
	if s := kube.AsStatus(err); s != nil {
		e.Code, e.Kind = s.Code, kube.Printable(s.Details.Kind, maxText)
		for _, c := range s.Details.Causes[:min(len(s.Details.Causes), maxCauses)] {
			e.Fields = append(e.Fields, kube.Printable(c.Field, maxText))
		}
	}
	return e
}

// Sample is the state of all queues at one time. Durations are the least bounds of histograms that hold, in
// milliseconds; 0: nothing ended within the sample's time.
type Sample struct {
	At         time.Time `json:"at"`
	Due        int       `json:"due"`
	OldestMS   float64   `json:"oldestMs"` // how long the key that is due for longest has been
	Running    int       `json:"running"`
	Failing    int       `json:"failing"`
	RunP50     float64   `json:"runP50Ms"`
	RunP99     float64   `json:"runP99Ms"`
	RequestP50 float64   `json:"requestP50Ms"`
	RequestP99 float64   `json:"requestP99Ms"`
	Throttled  uint64    `json:"throttled"`    // answers 429
	Refused    uint64    `json:"serverErrors"` // answers from 500 on
}

// Log keeps the last runs and samples. A nil Log keeps nothing; its methods may be called from any goroutine.
type Log struct {
	mu      sync.Mutex // guards all below
	runs    []Run      // the oldest first
	bytes   int        // of these
	last    uint64     // the number of the last run
	quiet   uint64     // runs that found all as it should be
	samples []Sample   // the oldest first
}

// Add keeps a run. Its texts are cut and made fit for a terminal.
func (l *Log) Add(r Run) {
	if l == nil {
		return
	}
	if n := len(r.Causes); n > maxCauses {
		r.Causes, r.MoreCauses = r.Causes[:maxCauses], r.MoreCauses+n-maxCauses
	}
	causes := make([]string, len(r.Causes))
	for i, c := range r.Causes {
		causes[i] = kube.Printable(c, maxText)
	}
	r.Causes = causes
	settle(r.Writes)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	r.ID = l.last
	l.runs = append(l.runs, r)
	l.bytes += r.size()
	for len(l.runs) > maxRuns || l.bytes > maxBytes {
		l.bytes -= l.runs[0].size()
		l.runs[0] = Run{} // its texts go
		l.runs = l.runs[1:]
	}
}

// size is how many bytes a run takes, about: texts that several runs share are counted with each.
func (r *Run) size() int {
	n := 300 + len(r.Namespace) + len(r.Name) + len(r.Outcome) // 300: the structs
	for _, c := range r.Causes {
		n += len(c) + 16
	}
	for _, w := range r.Writes {
		n += len(w.Object) + 90
	}
	if r.Error != nil {
		n += len(r.Error.Text) + len(r.Error.Fields)*maxText + 100
	}
	return n
}

// Quiet counts a run that found all as it should be.
func (l *Log) Quiet() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet++
}

// Runs returns at most limit of the runs that match, the last first, and how many runs there have been: those that
// were kept at some time, and those that did nothing.
func (l *Log) Runs(limit int, match func(*Run) bool) (out []Run, kept, quiet uint64) {
	if l == nil {
		return nil, 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.runs) - 1; i >= 0 && len(out) < limit; i-- {
		if match(&l.runs[i]) {
			out = append(out, l.runs[i])
		}
	}
	return out, l.last, l.quiet
}

// Sample keeps a sample.
func (l *Log) Sample(s Sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.samples) == maxSamples {
		l.samples = append(l.samples[:0], l.samples[1:]...)
	}
	l.samples = append(l.samples, s)
}

// Samples returns those of the last quarter of an hour, the oldest first.
func (l *Log) Samples() []Sample {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Sample{}, l.samples...)
}

// Millis is a duration in milliseconds, with the microseconds behind the point.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
