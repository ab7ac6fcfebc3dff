package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

const (
	// parkAfter failures in a row, of parkParents different ones, say that a hook is down, and not that it does not
	// like one parent: then it gets one call at a time, instead of one for each worker.
	parkAfter   = 5
	parkParents = 3
	// busy is the wait for the call that is under way while a hook is parked.
	busy = 200 * time.Millisecond
	// firstPark and maxPark are the pauses between those calls, doubling: a hook that comes back is noticed within a
	// minute.
	firstPark = time.Second
	maxPark   = time.Minute
)

// hook is one hook of a controller, and how it fares.
type hook struct {
	name   wire.Hook
	caller *call.Caller
	log    logr.Logger
	counts counts
	tell   func(t events.Type, reason, note string) // about the controller
	// changes counts how often a hook of the controller has changed.
	changes *atomic.Int64

	mu      sync.Mutex // guards what follows
	runAll  func(cause string)
	failed  map[kube.Key]bool // the parents whose calls have failed since one succeeded
	inARow  int
	last    error     // of the last call; nil: it succeeded
	parked  time.Time // since when; zero: it is not
	pause   time.Duration
	next    time.Time // when a parent whose call has failed may be tried again while it is parked
	trying  bool      // that call is under way
	ranAll  time.Time // when the hook was last seen to have changed
	version string    // of the hook, as its answers say
}

// follow notes what runs all parents.
func (h *hook) follow(runAll func(cause string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runAll = runAll
}

// problem says since when the hook does not answer, and why; "" if it does.
func (h *hook) problem() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.parked.IsZero() {
		return ""
	}
	return fmt.Sprintf("the %s hook has failed for %d parents since %s (%v); one call at a time tries it until it "+
		"answers", h.name, len(h.failed), h.parked.Format(time.TimeOnly), h.last)
}

// call calls the hook unless it is parked and this is not the call that tries.
func (h *hook) call(ctx context.Context, parent *kube.Meta, request []byte) ([]byte, error) {
	if wait := h.begin(parent.Key(), time.Now()); wait > 0 {
		return nil, &call.Later{After: wait}
	}
	cause, failures := controller.CauseOf(ctx)
	began := time.Now()
	reply, err := h.caller.Call(ctx, call.Call{Cause: cause, Attempt: failures, ParentUID: parent.UID, Body: request})
	h.counts.count(began, err != nil && !errors.As(err, new(*call.Later)))
	h.changed(reply.Version, answersApart)
	h.end(parent.Key(), err, ctx.Err() != nil)
	return reply.Body, err
}

// answersApart is the least time between two changes that answers show: while an endpoint is replaced, old and new
// ones answer in turn, and each change runs all parents.
const answersApart = time.Minute

// changed notes the version of the hook, "" if it is not known, and runs all parents if it is another one than
// before, unless they were run less than apart ago; then a later call notes it.
func (h *hook) changed(version string, apart time.Duration) {
	h.mu.Lock()
	differs := version != "" && h.version != "" && version != h.version && time.Since(h.ranAll) >= apart
	if version != "" && (h.version == "" || differs) {
		h.version = version
	}
	if differs {
		h.ranAll = time.Now()
	}
	runAll := h.runAll
	h.mu.Unlock()
	if differs {
		h.changes.Add(1)
		h.log.Info("the hook has changed: all parents are reconciled", "hook", h.name)
		runAll("the hook has changed")
	}
}

// begin returns how long the call for a parent has to wait because the hook is parked; 0: it can begin. A parent
// whose calls have not failed waits for no more than the call that is under way: it need not be the hook that is
// broken, but what others ask of it.
func (h *hook) begin(parent kube.Key, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.parked.IsZero():
		return 0
	case h.trying:
		return busy
	case h.failed[parent] && now.Before(h.next):
		return h.next.Sub(now)
	}
	h.trying = true
	return 0
}

// end takes in what came of a call. One that was cut short says nothing.
func (h *hook) end(parent kube.Key, err error, cut bool) {
	back := false
	h.mu.Lock()
	defer func() {
		runAll := h.runAll
		h.mu.Unlock()
		if back {
			h.log.Info("the hook answers again: all parents are reconciled", "hook", h.name)
			runAll("the hook answers again")
		}
	}()
	h.trying = false
	if later := new(call.Later); errors.As(err, &later) {
		err = nil // it is alive
	} else if err != nil && (cut || !call.IsUnavailable(err)) { // it is the answer that is wrong, for this parent
		return
	}
	if err == nil {
		back = !h.parked.IsZero()
		h.last, h.inARow, h.failed, h.parked, h.pause = nil, 0, nil, time.Time{}, 0
		return
	}
	h.last = err
	h.inARow++
	if h.failed == nil {
		h.failed = map[kube.Key]bool{}
	}
	h.failed[parent] = true
	if h.inARow < parkAfter || len(h.failed) < parkParents {
		return
	}
	if h.parked.IsZero() {
		h.parked = time.Now()
		h.tell(events.Warning, "HookUnavailable", fmt.Sprintf("the %s hook fails for all parents (%v); one call at a "+
			"time tries it until it answers", h.name, err))
	}
	h.pause = min(max(2*h.pause, firstPark), maxPark)
	h.next = time.Now().Add(h.pause)
}
