package controller

import (
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
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
	// waitsFor is how soon a run that has to wait asks again: the runs of large objects take as long. One that has not
	// asked for forgetsTurn has lost its turn, because its object is gone.
	waitsFor, forgetsTurn = 50 * time.Millisecond, time.Second
)

// InFlight bounds the memory that the runs of all controllers of a process take at a time. A namespace takes at most
// half of it, so that its large objects wait for each other, and those that wait take turns.
type InFlight struct {
	most int64

	mu    sync.Mutex // guards all below
	taken int64
	by    map[string]int64 // by namespace; no others
	turns []turn           // of the namespaces that wait, the next one first
}

type turn struct {
	namespace string
	asked     time.Time
}

// NewInFlight returns a bound for a process that may take limit bytes.
func NewInFlight(limit int64) *InFlight {
	return &InFlight{most: limit / shareOfMemory, by: map[string]int64{}}
}

// begin takes bytes for a run in a namespace, if there is room; nil has room for all. What is more than there is goes
// alone.
func (f *InFlight) begin(namespace string, bytes int64) bool {
	if f == nil || bytes <= fitsAlways {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if own := f.by[namespace]; own > 0 && own+bytes > f.most/2 {
		return false // it waits for itself, and is in nobody's way
	}
	if !f.nextLocked(namespace) || f.taken > 0 && f.taken+bytes > f.most {
		return false
	}
	f.turns = f.turns[1:]
	f.taken += bytes
	f.by[namespace] += bytes
	return true
}

// nextLocked notes that a namespace asks for room, and reports whether none has asked before it that still waits.
func (f *InFlight) nextLocked(namespace string) bool {
	now := time.Now()
	f.turns = slices.DeleteFunc(f.turns, func(t turn) bool { return now.Sub(t.asked) > forgetsTurn })
	at := slices.IndexFunc(f.turns, func(t turn) bool { return t.namespace == namespace })
	if at < 0 {
		at = len(f.turns)
		f.turns = append(f.turns, turn{namespace: namespace})
	}
	f.turns[at].asked = now
	return at == 0
}

// end gives back what begin has taken.
func (f *InFlight) end(namespace string, bytes int64) {
	if f == nil || bytes <= fitsAlways {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken -= bytes
	if f.by[namespace] -= bytes; f.by[namespace] == 0 {
		delete(f.by, namespace)
	}
}

// weight is how many bytes a run of a key takes at most.
func (c *Controller) weight(k kube.Key) int64 {
	if c.size == nil || c.o.InFlight == nil {
		return 0
	}
	return runFactor * c.size(k)
}

// waitForRoom has a key for which there is no room now wait in the queue.
func (c *Controller) waitForRoom(item queue.Item) {
	for _, cause := range item.Causes {
		c.queue.AddAfter(item.Key, waitsFor, cause)
	}
}
