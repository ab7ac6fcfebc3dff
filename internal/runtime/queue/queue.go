// Package queue is the work queue between the watches and the workers. It holds keys, never objects, so that a worker
// reads the latest state when a run starts and a thousand changes of one object cost one run.
//
// The queue decides which key runs next and when: one run per key at a time, at most one pending run per key, delays,
// two lanes, fairness between namespaces, and the causes of each run. Package controller knows how to run a key, what
// an error means, how long a key that failed waits and how many workers there are. There is no limit over all keys, so
// a mass failure never holds up an unrelated key.
//
// The code runs on the goroutines of the callers, under one mutex: Reflectors call Add, workers call the rest. One
// timer is set to the earliest delay. On the path of an event (*Queue).Add and Get are the only hand-over between two
// goroutines.
package queue

import (
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// maxOvertakes is how many high keys may go before a waiting low key: an endless stream of changes leaves an
	// eighth of the runs to the initial list, and a list of any size delays a change by one run at most.
	maxOvertakes = 7
	// shrinkAbove is the number of keys below which the map is not made anew; an empty map of such a size is about 64
	// KiB.
	shrinkAbove = 1024
)

// Item is a key handed out to a worker, who must call Done.
type Item struct {
	Key    kube.Key
	Causes []string      // in the order of arrival, each once, at most maxCauses
	More   int           // causes beyond those; repeated ones may be counted again
	Waited time.Duration // since Add, or since the end of the delay
}

// Queue hands keys to workers. All methods may be called from any goroutine.
//
// A key is in up to two states at once: dirty while a run is pending, and processing from Get until Done. Three rules
// are the whole algorithm:
//
//   - A dirty key that is not processing is due, in a lane, or delayed, or parked until its namespace is served.
//   - Adding a dirty key changes the pending run: the earlier due time, the higher lane and both causes apply. There
//     is never a second pending run.
//   - A key that becomes dirty while processing is queued at Done, so that no two workers have the same key and no
//     change during a run is lost.
//
// Within a lane, namespaces with due keys take turns, and each namespace runs its keys in the order in which they
// became due: a tenant with ten thousand keys delays another tenant's keys by one run. With a limit for each namespace
// and one worker more than the limit, there is no delay: a tenant with long runs never has all workers.
type Queue struct {
	each int // limit of keys of one namespace handed out at a time; 0: none

	// wake wakes one waiting Get. A value is sent, under mu, whenever a lane may hold a key to hand out: when a key
	// comes, by each Get that leaves keys behind, and with a limit by each Done, which makes room for a key of the
	// same namespace. So while there is such a key and a Get waits, there is a value in wake, or another Get is about
	// to take a key. Keys of a namespace at its limit may wait without a value. ShutDown closes wake, so that every
	// Get returns.
	wake chan struct{}

	// mu guards all below, and every entry.
	mu      sync.Mutex
	entries map[kube.Key]*entry // keys that are dirty or processing
	peak    int                 // largest len(entries) since the map was made
	lanes   [2]waiting          // the due keys, by lane
	delayed delayHeap           // the earliest first
	parked  map[string][]*entry // by the namespace of Release
	order   uint64              // counts delays, so that equal times keep their order

	overtakes int         // high keys handed out since the last low key, while a low key waits
	timer     *time.Timer // fires at the time of delayed[0]; nil before the first delay
	timerAt   time.Time   // time of the timer; zero: not set
	stopped   bool

	running          []begun // as many as there are workers at most; in no order
	added, postponed uint64  // see Stats
}

// New returns an empty queue with a limit of keys of one namespace handed out at a time; 0: no limit. ShutDown stops
// its timer.
func New(each int) *Queue {
	return &Queue{
		each:    each,
		wake:    make(chan struct{}, 1),
		entries: map[kube.Key]*entry{},
		parked:  map[string][]*entry{},
		lanes:   [2]waiting{newWaiting(), newWaiting()},
	}
}

// Add requests a run of k now, in the high lane, because of a change. A pending delay ends.
func (q *Queue) Add(k kube.Key, cause string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requestLocked(k, cause, 0, high)
}

// AddLow requests a run of k now, in the low lane: an initial list has found k, and fresh changes of other keys go
// first. A key already in the high lane stays there.
func (q *Queue) AddLow(k kube.Key, cause string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requestLocked(k, cause, 0, low)
}

// AddAfter requests a run of k after d; with 0, behind the due keys of its namespace. An earlier pending run serves
// for both. While k is processing, the lane stays the same.
func (q *Queue) AddAfter(k kube.Key, d time.Duration, cause string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d > 0 {
		q.postponed++
	}
	q.requestLocked(k, cause, d, q.ownLaneLocked(k))
}

// Return requests another run of a key that was handed out and not worked on, after d, with all causes of the item.
func (q *Queue) Return(item Item, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.entryLocked(item.Key).giveBack(item)
	q.postponed++
	q.requestLocked(item.Key, "", d, q.ownLaneLocked(item.Key))
}

// Park requests another run of a key that was handed out and not worked on, with all causes of the item, for when
// Release is called for the namespace. Requests until then change the pending run and do not begin it.
func (q *Queue) Park(item Item, namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	e := q.entryLocked(item.Key)
	e.giveBack(item)
	e.parked = true
	q.parked[namespace] = append(q.parked[namespace], e)
	q.requestLocked(item.Key, "", 0, q.ownLaneLocked(item.Key))
}

// Release makes the keys due that were parked for a namespace, in key order.
func (q *Queue) Release(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.parked[namespace]
	delete(q.parked, namespace)
	slices.SortFunc(all, func(a, b *entry) int { return a.key.Compare(b.key) })
	now := time.Now()
	for _, e := range all {
		e.parked, e.due = false, now
		q.placeLocked(e, now)
	}
}

// ShutDown ends the queue: waiting and delayed keys are dropped (a later start lists everything again), further keys
// are ignored, and every Get returns false. Runs in progress go on.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.stopped = true
	for k, e := range q.entries {
		if e.processing {
			e.dirty, e.parked, e.causes, e.more = false, false, nil, 0
		} else {
			delete(q.entries, k)
		}
	}
	q.lanes, q.delayed, q.parked = [2]waiting{newWaiting(), newWaiting()}, nil, nil
	if q.timer != nil {
		q.timer.Stop()
	}
	close(q.wake)
}

// ShuttingDown reports whether ShutDown was called: keys added now are dropped.
func (q *Queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}
