package queue

import (
	"container/heap"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// lane is the urgency of a pending run.
type lane uint8

const (
	low  lane = iota // found by an initial list
	high             // changed
)

// entry is the state of one key. There can be a hundred thousand: the order of the fields keeps an entry at 128 bytes.
type entry struct {
	key kube.Key

	// The pending run, while dirty.
	due    time.Time // earliest start
	causes []string

	// The place in the queue: in a lane, among the delayed, parked, or nowhere while processing.
	in         *line
	prev, next *entry // neighbours in the line
	order      uint64 // of being delayed
	delay      int32  // index in delayed plus 1; 0: not delayed

	more int32 // causes of the pending run beyond those in causes

	dirty      bool
	parked     bool // the pending run waits for Release
	lane       lane // of the pending run
	processing bool // handed out by Get, not yet Done
	runLane    lane // of the run in progress
}

// requestLocked makes k dirty, or changes the pending run.
func (q *Queue) requestLocked(k kube.Key, cause string, d time.Duration, l lane) {
	if q.stopped {
		return
	}
	now := time.Now()
	due := now
	if d > 0 {
		due = now.Add(d)
	}
	e := q.entryLocked(k)
	e.addCause(cause)
	if !e.dirty {
		q.added++
	}
	if !e.dirty || due.Before(e.due) {
		e.due = due
	}
	if !e.dirty || l > e.lane {
		e.lane = l
	}
	e.dirty = true
	q.placeLocked(e, now)
}

// entryLocked returns the entry of k, a new entry if there is none.
func (q *Queue) entryLocked(k kube.Key) *entry {
	e := q.entries[k]
	if e == nil {
		e = &entry{key: k}
		q.entries[k] = e
		q.peak = max(q.peak, len(q.entries))
	}
	return e
}

// ownLaneLocked returns the lane for a run requested by the run of k: the same lane, so that retries of an initial
// list do not overtake changes. Outside of a run the lane is high.
func (q *Queue) ownLaneLocked(k kube.Key) lane {
	if e := q.entries[k]; e != nil && e.processing {
		return e.runLane
	}
	return high
}

// placeLocked moves a dirty entry to the place given by due time and lane.
func (q *Queue) placeLocked(e *entry, now time.Time) {
	switch {
	case e.processing: // Done places the entry
	case e.parked: // Release places the entry
	case e.due.After(now):
		if e.delay > 0 {
			heap.Fix(&q.delayed, int(e.delay)-1)
		} else {
			q.order++
			e.order = q.order
			heap.Push(&q.delayed, e)
		}
		q.armLocked()
	default:
		if e.delay > 0 {
			heap.Remove(&q.delayed, int(e.delay)-1)
			q.armLocked()
		}
		q.enqueueLocked(e)
	}
}

// enqueueLocked puts e at the end of its lane. An entry already in the lane keeps its place.
func (q *Queue) enqueueLocked(e *entry) {
	to := &q.lanes[e.lane]
	if e.in != nil {
		if e.in.lane == e.lane {
			return
		}
		q.lanes[e.in.lane].remove(e)
	}
	to.push(e)
	q.wakeLocked()
}

// releaseLocked drops an entry without any state. Go maps never shrink, so after a burst (an initial list, an outage)
// the map is made anew: 100,000 keys would hold some 5 MB for good.
func (q *Queue) releaseLocked(e *entry) {
	if e.dirty || e.processing {
		return
	}
	delete(q.entries, e.key)
	if q.peak > shrinkAbove && len(q.entries) < q.peak/8 {
		q.peak = len(q.entries)
		small := make(map[kube.Key]*entry, q.peak)
		maps.Copy(small, q.entries)
		q.entries = small
	}
}

// armLocked sets the timer to the earliest delay.
func (q *Queue) armLocked() {
	if len(q.delayed) == 0 {
		if q.timer != nil {
			q.timer.Stop()
		}
		q.timerAt = time.Time{}
		return
	}
	at := q.delayed[0].due
	if at.Equal(q.timerAt) {
		return
	}
	q.timerAt = at
	if q.timer == nil {
		q.timer = time.AfterFunc(time.Until(at), q.promote)
		return
	}
	q.timer.Reset(time.Until(at))
}

// promote is called by the timer and moves the keys whose delay has ended to their lanes.
func (q *Queue) promote() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerAt = time.Time{}
	now := time.Now()
	for len(q.delayed) > 0 && !q.delayed[0].due.After(now) {
		q.enqueueLocked(heap.Pop(&q.delayed).(*entry))
	}
	q.armLocked()
}

// delayHeap orders entries by due time, then by the order in which they were delayed (container/heap).
type delayHeap []*entry

func (h delayHeap) Len() int { return len(h) }

func (h delayHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].order < h[j].order
}

func (h delayHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].delay, h[j].delay = int32(i+1), int32(j+1)
}

func (h *delayHeap) Push(x any) {
	e := x.(*entry)
	*h = append(*h, e)
	e.delay = int32(len(*h))
}

func (h *delayHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.delay = 0
	return e
}

// maxCauses bounds the causes kept for one run: more than a log line needs, and few enough when a thousand children of
// an object change at once.
const maxCauses = 8

// giveBack adds the causes of an item that was not worked on to those of the pending run.
func (e *entry) giveBack(item Item) {
	for _, cause := range item.Causes {
		e.addCause(cause)
	}
	e.more += int32(item.More)
}

// addCause records a reason for the pending run.
func (e *entry) addCause(cause string) {
	switch {
	case cause == "" || slices.Contains(e.causes, cause):
	case len(e.causes) < maxCauses:
		e.causes = append(e.causes, cause)
	default:
		e.more++
	}
}

// Cause returns the causes as one line: "Service default/web-service DELETED, Deployment default/web
// MODIFIED and 3 more".
func (i Item) Cause() string {
	text := strings.Join(i.Causes, ", ")
	if i.More > 0 {
		text += " and " + strconv.Itoa(i.More) + " more"
	}
	return text
}
