package controller

import (
	"slices"
	"sync"
	"time"
)

const (
	// runFactor is the memory of a run divided by the size of the object, at most: a member such as "a":{} of raw JSON
	// takes fifty times its six bytes decoded, and as much in the copy with the operator's own fields, too. Texts take
	// ten times their size: the run holds the JSON again to compare, to send, and in the answer.
	runFactor = 100
	// shareOfMemory is the part of the process's memory limit for all runs: mirrors have half, and garbage needs room,
	// too.
	shareOfMemory = 8
	// fitsAlways is the memory of a run that never waits, for an object of 10 KiB: few objects are larger.
	fitsAlways = 1 << 20
	// waitsFor is the first wait of a run for memory: the runs of large objects take as long. Where many runs of a
	// namespace wait, or a run waits for long, the runs ask later, asksEvery apart, up to waitsLong.
	waitsFor, asksEvery, waitsLong = 50 * time.Millisecond, 10 * time.Millisecond, 500 * time.Millisecond
	// forgetAfter is how long a namespace keeps its place without asking again: the objects are gone.
	forgetAfter = 2 * waitsLong
)

// InFlight bounds the memory of the runs of all controllers of a process. A namespace takes at most half, so that
// large objects of one namespace wait for each other, and the waiting namespaces take turns.
type InFlight struct {
	most int64

	mu      sync.Mutex // guards all below
	taken   int64
	by      map[string]*running // by namespace; no others
	waiters []*waiter           // namespaces that wait for other namespaces, the next first
}

// running is the memory of the runs of a namespace.
type running struct {
	bytes int64
	asks  int // requests for room in vain since the last run began
}

type waiter struct {
	namespace string
	asked     time.Time
	asks      int
}

// NewInFlight returns a bound for a process that may take limit bytes.
func NewInFlight(limit int64) *InFlight {
	return &InFlight{most: limit / shareOfMemory, by: map[string]*running{}}
}

// Begin takes bytes for a run in a namespace, if there is room, else returns when to ask again. A nil InFlight never
// blocks. A run larger than the limit runs alone.
func (f *InFlight) Begin(namespace string, bytes int64) (wait time.Duration) {
	if f == nil || bytes <= fitsAlways {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.by[namespace]
	if own != nil && own.bytes+bytes > f.most/2 {
		own.asks++ // it waits for itself, and holds up no other namespace
		return askAgain(own.asks)
	}
	if t, next := f.waiterLocked(namespace); !next || f.taken > 0 && f.taken+bytes > f.most {
		t.asks++
		return askAgain(t.asks)
	}
	f.waiters = f.waiters[1:]
	if own == nil {
		own = &running{}
		f.by[namespace] = own
	}
	f.taken += bytes
	own.bytes, own.asks = own.bytes+bytes, 0
	return 0
}

// askAgain returns when to ask again after so many asks in vain.
func askAgain(asks int) time.Duration {
	return min(max(time.Duration(asks)*asksEvery, waitsFor), waitsLong)
}

// waiterLocked notes a request for room by a namespace, and returns the namespace's place in the line, and whether the
// place is the first.
func (f *InFlight) waiterLocked(namespace string) (t *waiter, next bool) {
	now := time.Now()
	f.waiters = slices.DeleteFunc(f.waiters, func(t *waiter) bool { return now.Sub(t.asked) > forgetAfter })
	at := slices.IndexFunc(f.waiters, func(t *waiter) bool { return t.namespace == namespace })
	if at < 0 {
		at = len(f.waiters)
		f.waiters = append(f.waiters, &waiter{namespace: namespace})
	}
	f.waiters[at].asked = now
	return f.waiters[at], at == 0
}

// End gives back the bytes of Begin.
func (f *InFlight) End(namespace string, bytes int64) {
	if f == nil || bytes <= fitsAlways {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken -= bytes
	own := f.by[namespace]
	if own.bytes -= bytes; own.bytes == 0 {
		delete(f.by, namespace)
	}
}
