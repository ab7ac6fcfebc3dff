// Package queue is the work queue between the watches and the workers: it holds keys, never objects, so that
// a worker reads the latest state when it starts and a thousand changes of one object cost one run.
//
// Its job is to decide which key runs next and when: one run per key at a time, one pending run per key at most,
// delays, backoff per key, two lanes, turns of the namespaces, and the causes of each run. It does not know what a
// run does, what an error means or how many workers there are (see package controller), and it has no limit over all
// keys: a key's delay depends on its own failures only, so a mass failure never holds up an unrelated key.
//
// It runs on the goroutines of its callers, under one mutex: Reflectors call Add, workers call the rest. The
// earliest delay is one timer, whose function runs for an instant when it is due. On the way of an event
// (*Queue).Add and Get are the only hand-over between the two goroutines.
package queue

import (
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// baseDelay is the wait after the first failure: long enough that a cache which is one event
	// behind catches up, short enough not to be noticed.
	baseDelay = 5 * time.Millisecond
	// maxDelay caps the backoff: after an outage of the server, however long, the last key is tried
	// again within two minutes, and ten thousand failing keys make about a hundred requests per second.
	maxDelay = 2 * time.Minute
	// maxOvertakes is how many high keys may go before a waiting low one: with it, a stream of changes
	// without end leaves an eighth of the runs to the initial list, and a list of any size delays a change
	// by one run at most.
	maxOvertakes = 7
	// shrinkAbove is the number of keys below which the map is left as it is; an empty one of this size is
	// about 64 KiB.
	shrinkAbove = 1024
)

// Item is one key handed out to a worker, who owes the queue a Done for it.
type Item struct {
	Key      kube.Key
	Causes   []string      // why it runs, in the order of arrival, each once, at most maxCauses
	More     int           // causes beyond those; repeated ones may be counted again
	Waited   time.Duration // since the run was due: since Add, or since the end of its delay
	Failures int           // failures in a row before this run
}

// Queue hands keys to workers. All methods may be called from any goroutine.
//
// A key is in up to two states at once. It is dirty while a run of it is pending, and processing from Get until
// Done. Three rules follow, and they are the whole algorithm:
//
//   - A key that is dirty and not processing is queued: in a lane if it is due, else among the delayed.
//   - Wanting a run of a dirty key changes that run: it is due at the earlier of both times, in the higher of
//     both lanes, for both causes. There is never a second one.
//   - A key that becomes dirty while it is processing is queued only at Done, so that no two workers have
//     the same key and nothing that happened during a run is lost.
//
// Within a lane, the namespaces that have keys in it take turns, and each has its keys run in the order in which they
// became due: a tenant with ten thousand keys delays those of another tenant by one run. With a bound for each
// namespace, and a worker more than that, by none: a tenant whose runs take long never has all workers.
type Queue struct {
	each int // how many keys of one namespace are handed out at a time; 0: any number

	// wake wakes one waiting Get. A value is sent, under mu, whenever a lane may hold a key that can be handed out:
	// when one comes, by each Get that leaves keys behind, and with a bound by each Done, which makes room for a
	// key of its namespace. So while there is such a key and a Get waits, there is a value in wake, or another Get is
	// about to take a key. Keys of a namespace that has as many workers as it may wait without one. ShutDown closes
	// it, which wakes all.
	wake chan struct{}

	// mu guards all below, and every entry.
	mu      sync.Mutex
	entries map[kube.Key]*entry // keys that are dirty, processing or have failures; no others
	peak    int                 // largest len(entries) since the map was made
	lanes   [2]waiting          // the due keys, by lane
	delayed delayHeap           // the keys that are not yet due, the earliest first
	order   uint64              // counts delays, so that equal times keep their order

	overtakes int         // high keys handed out since a low key was, while one waited
	timer     *time.Timer // fires at the time of delayed[0]; nil before the first delay
	timerAt   time.Time   // what timer is set to; zero when it is not set
	stopped   bool

	running          []begun // the keys that are processing, in no order: as many as there are workers
	added, postponed uint64  // see Stats
}

// New returns an empty queue, which hands out at most so many keys of one namespace at a time; 0: any number. It
// starts nothing; ShutDown stops its timer.
func New(each int) *Queue {
	return &Queue{
		each:    each,
		wake:    make(chan struct{}, 1),
		entries: map[kube.Key]*entry{},
		lanes:   [2]waiting{newWaiting(), newWaiting()},
	}
}

// Add requests a run of k now, in the high lane: something changed. It replaces a pending delay.
func (q *Queue) Add(k kube.Key, cause string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requestLocked(k, cause, 0, high)
}

// AddLow requests a run of k now, in the low lane: k was found by an initial list, and a fresh change of another
// key goes first. It never lowers a key that waits in the high lane.
func (q *Queue) AddLow(k kube.Key, cause string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requestLocked(k, cause, 0, low)
}

// AddAfter requests a run of k after d; with 0, behind the keys of its namespace that are due already. Where an
// earlier one is pending already, that one serves both. While k is processing, the run keeps the lane of the present
// one.
func (q *Queue) AddAfter(k kube.Key, d time.Duration, cause string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d > 0 {
		q.postponed++
	}
	q.requestLocked(k, cause, d, q.ownLaneLocked(k))
}

// Return requests a run of a key after d that was handed out and could not be worked on, for all the causes that it
// has.
func (q *Queue) Return(item Item, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	e := q.entryLocked(item.Key)
	for _, cause := range item.Causes {
		e.addCause(cause)
	}
	e.more += int32(item.More)
	q.postponed++
	q.requestLocked(item.Key, "", d, q.ownLaneLocked(item.Key))
}

// RetryAfter counts a failure of k, requests a run of it after its backoff, and returns that delay. It is at least d:
// what a server asked for, or a long pause. Up to half of d is added at random, so that keys which were delayed
// together do not come back together. The run keeps the lane of the present one.
func (q *Queue) RetryAfter(k kube.Key, d time.Duration, cause string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return 0
	}
	e := q.entryLocked(k)
	delay := max(backoff(int(e.failures)), spread(d))
	e.failures++
	q.postponed++
	q.requestLocked(k, cause, delay, q.ownLaneLocked(k))
	return delay
}

// Forget clears the failures of k: it succeeded, it is gone, or it became another object. A pending run
// stays.
func (q *Queue) Forget(k kube.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[k]; e != nil {
		e.failures = 0
		q.releaseLocked(e)
	}
}

// ShutDown ends the queue: waiting and delayed keys are dropped (a later start lists everything again),
// further ones are ignored, and every Get returns false. Runs that are under way are not touched.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.stopped = true
	for k, e := range q.entries {
		if e.processing {
			e.dirty, e.causes, e.more, e.failures = false, nil, 0, 0
		} else {
			delete(q.entries, k)
		}
	}
	q.lanes, q.delayed = [2]waiting{newWaiting(), newWaiting()}, nil
	if q.timer != nil {
		q.timer.Stop()
	}
	close(q.wake)
}

// ShuttingDown reports whether ShutDown has been called: what is added now is dropped.
func (q *Queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}
