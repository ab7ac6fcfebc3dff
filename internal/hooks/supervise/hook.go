package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

const (
	// parkAfter failures in a row, of parkParents different parents of a namespace, mean that a hook is down, or
	// overburdened by the namespace: then the namespace gets a call at a time, instead of a call for each worker. No
	// other namespace waits meanwhile.
	parkAfter   = 5
	parkParents = 3
	// maxFailing bounds the remembered namespaces, and the parents of each: tenants make and delete both.
	// Calls of more namespaces are not held back.
	maxFailing = 1000
	// forgetAfter is how long after the last run of a parent a namespace is forgotten: its parents are gone, as those
	// for which a hook fails run at least twice in this time.
	forgetAfter = 3 * controller.SlowDelay
	// busy is the wait for the call under way while a hook is parked. Many parents wait longer, to ask busyApart from
	// each other, and a minute at most: a call that hangs would have each make its request five times a second.
	busy      = 200 * time.Millisecond
	busyApart = 20 * time.Millisecond
)

// parks are the pauses between the calls of a parked hook: a hook that comes back is noticed within a minute.
var parks = backoff.Backoff{Min: time.Second, Max: time.Minute}

// hook is a hook of a controller, with its recent calls.
type hook struct {
	name   wire.Hook
	caller *call.Caller
	log    logr.Logger
	counts counts
	tell   func(t events.Type, reason, note string) // about the controller
	// changes counts how often a hook of the controller has changed, and returns how often one that was down has
	// answered again.
	changes, returns *atomic.Int64

	mu      sync.Mutex // guards the rest
	runAll  func(namespace, cause string)
	failing map[string]*failing // by namespace: those in which calls have failed since one succeeded
	mixed   map[string]mixed    // by UID: parents for which the hook printed other lines than the answer
	ranAll  time.Time           // when the hook was last seen to have changed
	version string              // of the hook, as its answers say
}

// failing is a namespace for whose parents a hook fails.
type failing struct {
	parents map[kube.Key]bool // whose calls have failed
	inARow  int
	last    error
	parked  time.Time // since when there is a single call at a time; zero: not parked
	pause   time.Duration
	next    time.Time // when a parent whose call has failed may be tried again
	trying  bool      // a call is under way
	queued  time.Time // when the last of the parents that wait for the call asks again
	asked   time.Time // when a parent last ran
}

// mixed is a parent that is not asked about again while neither parent nor hook has changed.
type mixed struct {
	key     kube.Key
	version string
	until   time.Time
	err     error
}

// mixedFor is how long such a parent waits at most: the output of a hook may also depend on files unknown to skiff.
const mixedFor = 10 * time.Minute

// follow notes the function that runs all parents.
func (h *hook) follow(runAll func(namespace, cause string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runAll = runAll
}

// release identifies the program of the hook, "" if not known, and stays when the program is restarted.
func (h *hook) release() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	release, _, _ := strings.Cut(h.version, call.Restarts)
	return release
}

// problems says where the hook does not answer, or prints mixed answers, and why.
func (h *hook) problems() []health.Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(h.mixedProblemLocked(), h.parkedProblemLocked()...)
}

func (h *hook) mixedProblemLocked() []health.Problem {
	first, now := kube.Key{}, time.Now()
	var why error
	for uid, m := range h.mixed {
		if !now.Before(m.until) { // the parent is asked about again, or gone
			delete(h.mixed, uid)
			continue
		}
		if first.Name == "" || m.key.String() < first.String() {
			first, why = m.key, m.err
		}
	}
	if first.Name == "" {
		return nil
	}
	return []health.Problem{{Reason: "MixedAnswers", Quoted: why.Error(),
		Public: fmt.Sprintf("the %s hook is not asked about %s, such as %s, before a change of the parent or of its "+
			"file", h.name, health.Count(len(h.mixed), "parent", "parents"), first)}}
}

func (h *hook) parkedProblemLocked() []health.Problem {
	parked := h.parkedLocked()
	if len(parked) == 0 {
		return nil
	}
	one := h.failing[parked[0]]
	p := health.Problem{Reason: "HookFails", Since: one.parked, Quoted: one.last.Error(),
		Public: fmt.Sprintf("the %s hook has failed for %s%s", h.name,
			health.Count(len(one.parents), "parent", "parents"), in(parked[0])),
		Next: "it gets one call at a time until it answers"}
	if unreached := (*call.Unreached)(nil); errors.As(one.last, &unreached) {
		p.Quoted, p.Next = unreached.Err.Error(), unreached.Next()+"; "+p.Next
	}
	if parked[0] != "" {
		p.Namespaces = parked
	}
	if more := len(parked) - 1; more > 0 {
		p.Public += fmt.Sprintf(" and for those in %d more namespaces", more)
	}
	return []health.Problem{p}
}

// in is " in namespace NAME", "" for parents without one.
func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// failsIn returns the namespaces in which the hook fails for all parents.
func (h *hook) failsIn() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parkedLocked()
}

// parkedLocked returns the namespaces with a call at a time, in order.
func (h *hook) parkedLocked() (out []string) {
	h.forgetLocked()
	for namespace, f := range h.failing {
		if !f.parked.IsZero() {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return out
}

// forgetLocked drops the namespaces whose parents are gone.
func (h *hook) forgetLocked() {
	maps.DeleteFunc(h.failing, func(_ string, f *failing) bool {
		return !f.trying && time.Since(f.asked) > forgetAfter
	})
}

// call calls the hook, unless the hook fails in the parent's namespace and another call tries already.
func (h *hook) call(ctx context.Context, parent *kube.Meta, request []byte) ([]byte, error) {
	if held := h.mixedLater(parent, time.Now()); held != nil {
		return nil, held
	}
	if wait := h.begin(parent.Key(), time.Now()); wait > 0 {
		return nil, &call.Later{After: wait}
	}
	cause, failures := controller.CauseOf(ctx)
	began := time.Now()
	reply, err := h.caller.Call(ctx, call.Call{Cause: cause, Attempt: failures, ParentUID: parent.UID, Body: request})
	h.counts.count(began, err)
	h.changed(reply.Version, answersApart)
	h.end(parent.Key(), err, ctx.Err() != nil)
	h.noteMixed(parent, err)
	return reply.Body, err
}

// mixedLater returns the wait of a parent for which the hook printed other lines than the answer; nil: none.
func (h *hook) mixedLater(parent *kube.Meta, now time.Time) *call.Later {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, ok := h.mixed[parent.UID]
	if !ok || m.version != reconcile.VersionOf(parent) || !now.Before(m.until) {
		return nil
	}
	return &call.Later{After: m.until.Sub(now), Why: m.err.Error()}
}

func (h *hook) noteMixed(parent *kube.Meta, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !call.IsMixed(err) {
		delete(h.mixed, parent.UID)
		return
	}
	if h.mixed == nil {
		h.mixed = map[string]mixed{}
	}
	if len(h.mixed) < maxFailing {
		h.mixed[parent.UID] = mixed{parent.Key(), reconcile.VersionOf(parent), time.Now().Add(mixedFor), err}
	}
}

// answersApart is the least time between two changes shown by answers: while an endpoint is replaced, old and new
// answer in turn, and each change runs all parents.
const answersApart = time.Minute

// look notes the version of a program. After a mere restart of the program, all parents run once a minute at most: a
// program may end after each call.
func (h *hook) look(version string) {
	h.mu.Lock()
	known, _, _ := strings.Cut(h.version, call.Restarts)
	h.mu.Unlock()
	apart := time.Duration(0)
	if files, _, restarts := strings.Cut(version, call.Restarts); restarts && files == known {
		apart = answersApart
	}
	h.changed(version, apart)
}

// changed notes the version of the hook, "" if not known, and runs all parents after a change of version, unless all
// were run less than apart ago; then a later call notes the version.
func (h *hook) changed(version string, apart time.Duration) {
	h.mu.Lock()
	differs := version != "" && h.version != "" && version != h.version && time.Since(h.ranAll) >= apart
	if version != "" && (h.version == "" || differs) {
		h.version = version
	}
	if differs {
		h.ranAll = time.Now()
		clear(h.mixed)
	}
	runAll := h.runAll
	h.mu.Unlock()
	if differs {
		h.changes.Add(1)
		h.log.Info("the hook has changed: all parents are reconciled", "hook", h.name)
		runAll("", "the hook has changed")
	}
}

// begin returns how long the call for a parent has to wait because the hook fails in the parent's namespace; 0: not
// at all. A parent whose calls have not failed waits only for the call under way.
func (h *hook) begin(parent kube.Key, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.failing[parent.Namespace]
	if f != nil {
		f.asked = now
	}
	switch {
	case f == nil || f.parked.IsZero():
		return 0
	case f.trying:
		wait := min(max(f.queued.Add(busyApart).Sub(now), busy), parks.Max)
		f.queued = now.Add(wait)
		return wait
	case f.parents[parent] && now.Before(f.next):
		return f.next.Sub(now)
	}
	f.trying = true
	return 0
}

// end takes in the result of a call. A call cut short says nothing.
func (h *hook) end(parent kube.Key, err error, cut bool) {
	h.mu.Lock()
	f := h.failing[parent.Namespace]
	if f != nil {
		f.trying = false
	}
	switch later := new(call.Later); {
	case errors.As(err, &later): // the hook is alive
		err = nil
	case err != nil && (cut || !call.IsUnavailable(err)): // the answer is wrong, for the parent alone
		h.mu.Unlock()
		return
	}
	if err != nil {
		h.failLocked(parent, err)
		h.mu.Unlock()
		return
	}
	delete(h.failing, parent.Namespace)
	var again []string
	if f != nil && !f.parked.IsZero() { // other namespaces may work now, too, and try
		again = append(h.parkedLocked(), parent.Namespace)
		for _, other := range h.failing {
			other.next = time.Time{}
		}
	}
	runAll := h.runAll
	h.mu.Unlock()
	if len(again) > 0 {
		h.returns.Add(1)
		h.log.Info("the hook answers again"+in(parent.Namespace), "hook", h.name)
	}
	for _, namespace := range again {
		runAll(namespace, "the hook answers again")
	}
}

// failLocked takes in a failure of the hook for a parent.
func (h *hook) failLocked(parent kube.Key, err error) {
	f := h.failing[parent.Namespace]
	if f == nil {
		if len(h.failing) >= maxFailing {
			h.forgetLocked()
		}
		if len(h.failing) >= maxFailing {
			return
		}
		if h.failing == nil {
			h.failing = map[string]*failing{}
		}
		f = &failing{parents: map[kube.Key]bool{}}
		h.failing[parent.Namespace] = f
	}
	f.asked = time.Now()
	if f.last = err; len(f.parents) < maxFailing {
		f.parents[parent] = true
	}
	f.inARow++
	if f.inARow < parkAfter || len(f.parents) < parkParents {
		return
	}
	switch {
	case f.parked.IsZero():
		f.parked = time.Now()
		h.tell(events.Warning, "HookUnavailable", fmt.Sprintf("the %s hook fails%s (%v); it gets one call at a time "+
			"until it answers", h.name, in(parent.Namespace), err))
	case time.Now().Before(f.next): // a call from before the pause says nothing new
		return
	}
	f.pause = parks.Next(f.pause)
	f.next = time.Now().Add(f.pause)
}
