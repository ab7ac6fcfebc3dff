package queue

import (
	"context"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// Get waits for a due key and hands it out; the caller must call Done in any case. The result is false when ctx ends
// or the queue is shut down.
func (q *Queue) Get(ctx context.Context) (Item, bool) {
	for ctx.Err() == nil {
		item, ok, stopped := q.take()
		if ok || stopped {
			return item, ok
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	// The value of wake may have gone to a Get that leaves without a key: pass the value on.
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeLocked()
	return Item{}, false
}

// Done ends the run of k. If k became dirty meanwhile, k is queued now.
func (q *Queue) Done(k kube.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[k]
	if e == nil || !e.processing {
		return
	}
	e.processing = false
	q.endedLocked(e)
	if q.each > 0 && q.lanes[low].len+q.lanes[high].len > 0 {
		q.wakeLocked() // another key of the namespace may be handed out now
	}
	if e.dirty {
		q.placeLocked(e, time.Now())
		return
	}
	q.releaseLocked(e)
}

// Processing returns the keys handed out and not yet done, in key order.
func (q *Queue) Processing() []kube.Key {
	q.mu.Lock()
	defer q.mu.Unlock()
	var keys []kube.Key
	for _, r := range q.running {
		keys = append(keys, r.of.key)
	}
	slices.SortFunc(keys, kube.Key.Compare)
	return keys
}

// take hands out the next key if a key is due.
func (q *Queue) take() (item Item, ok, stopped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.nextLocked()
	if e == nil {
		return Item{}, false, q.stopped
	}
	if q.lanes[low].len+q.lanes[high].len > 0 {
		q.wakeLocked()
	}
	waited := time.Since(e.due) // cheaper than to ask for the time of day
	item = Item{
		Key:    e.key,
		Causes: e.causes,
		More:   int(e.more),
		Waited: waited,
	}
	e.processing, e.runLane = true, e.lane
	q.running = append(q.running, begun{e, e.due.Add(waited)})
	e.dirty, e.causes, e.more = false, nil, 0
	return item, true, false
}

// nextLocked takes the next key out of a lane. A low key ages by one with each high key that overtakes; at
// maxOvertakes the low lane has its turn.
func (q *Queue) nextLocked() *entry {
	lane := high
	switch {
	case q.lanes[low].len == 0:
		q.overtakes = 0
	case q.lanes[high].len == 0, q.overtakes >= maxOvertakes:
		q.overtakes, lane = 0, low
	default:
		q.overtakes++
	}
	if e := q.lanes[lane].pop(q.fullLocked); e != nil {
		return e
	}
	return q.lanes[1-lane].pop(q.fullLocked)
}

// fullLocked reports whether a namespace has as many keys handed out as allowed.
func (q *Queue) fullLocked(namespace string) bool {
	if q.each == 0 || len(q.running) < q.each {
		return false
	}
	n := 0
	for i := range q.running {
		if q.running[i].of.key.Namespace == namespace {
			n++
		}
	}
	return n >= q.each
}

// wakeLocked wakes a waiting Get, or the next Get.
func (q *Queue) wakeLocked() {
	if q.stopped {
		return // closed: every Get returns
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// begun is a key handed out.
type begun struct {
	of    *entry
	began time.Time
}

// endedLocked removes a key from the running keys.
func (q *Queue) endedLocked(e *entry) {
	last := len(q.running) - 1
	for i := range q.running {
		if q.running[i].of == e {
			q.running[i] = q.running[last]
			break
		}
	}
	q.running[last].of = nil
	q.running = q.running[:last]
}
