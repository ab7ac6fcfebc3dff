package controller

import (
	"slices"
	"sync"
	"time"
)

const (
	// runFactor is how many times the size of its object a run takes at most: a member such as "a":{} of raw JSON
	// takes fifty times its six bytes once it is decoded, and as much in the copy that has the operator's own fields,
	// too. Texts take ten times their size: they are in JSON once more to be compared, to be sent, and in the answer.
	runFactor = 100
	// shareOfMemory is the part of the process's memory limit that all runs may take: mirrors have half of it, and
	// garbage needs room beside both.
	shareOfMemory = 8
	// fitsAlways is what a run takes that never waits, of an object of 10 KiB: few are larger.
	fitsAlways = 1 << 20
	// waitsFor is how soon a run that has to wait asks again: the runs of large objects take as long. Where many of a
	// namespace wait, or one for long, they ask later, asksEvery apart from each other, up to waitsLong.
	waitsFor, asksEvery, waitsLong = 50 * time.Millisecond, 10 * time.Millisecond, 500 * time.Millisecond
	// forgetAfter is how long a namespace keeps its place that does not ask any more: its objects are gone.
	forgetAfter = 2 * waitsLong
)

// InFlight bounds the memory that the runs of all controllers of a process take at a time. A namespace takes at most
// half of it, so that its large objects wait for each other, and those that wait take turns.
type InFlight struct {
	most int64

	mu      sync.Mutex // guards all below
	taken   int64
	by      map[string]*running // by namespace; no others
	waiters []*waiter           // of the namespaces that wait for others, the next one first
}

// running is what the runs of a namespace take.
type running struct {
	bytes int64
	asks  int // of others of it since the last one began, in vain
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

// Begin takes bytes for a run in a namespace, if there is room, else it returns when to ask again; nil has room for
// all. What is more than there is goes alone.
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

// waiterLocked notes that a namespace asks for room. It returns its place in the line, and whether no other one comes
// before it.
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

// End gives back what Begin has taken.
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
