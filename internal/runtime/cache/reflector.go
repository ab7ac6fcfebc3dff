package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// phase names the next work of a Reflector, and so the state reached so far.
type phase = string

const (
	// listStreamed: the content is not at any known version, or cannot be continued from there. Asks for the present
	// objects and all later events in one watch (KEP-3157).
	// Exits: end of the initial events -> streaming, on the same stream; request refused, or no end marker, or cut
	// too often -> listPaged; version expired -> listStreamed with no version; else -> backingOff.
	listStreamed phase = "listing as a stream"
	// listPaged: as listStreamed, by a paged list.
	// Exits: list complete -> resuming; version expired -> listPaged with no version; else -> backingOff.
	listPaged phase = "listing"
	// resuming: the content is the collection at state.rv; no watch is open.
	// Exits: watch open -> streaming; history found rewound -> a list; refused -> backingOff, then resuming again, or
	// a list where the version was refused.
	resuming phase = "resuming"
	// streaming: the content follows an open watch.
	// Exits: event or bookmark -> streaming; end or silence of the watch -> resuming, or backingOff after a short or
	// broken watch; ERROR event -> backingOff, then resuming or a list; older version seen and history found rewound
	// -> a list.
	streaming phase = "streaming"
	// backingOff: waits for state.pause. Exit: -> state.next.
	backingOff phase = "backing off"
	// unserved: waits for state.pause, as nobody serves the optional resource. Exit: -> state.next, a list.
	unserved phase = "not served"
	// stopped: not run yet, or the context has ended.
	stopped phase = "stopped"
)

// state is all that a Reflector knows between two steps. Readers see a copy of a part (Store.State).
type state[T kube.Object] struct {
	phase phase

	// rv is the resume point: the mirror's content is the collection at rv. The end of a list sets rv, then each
	// event and bookmark; rv never goes back (but see install). "" before the first list.
	rv string
	// unset makes the next list ask for the state of now instead of "not older than rv", because the server could not
	// serve rv: too old, or not reached by the server yet.
	unset bool
	// probed is when the server was last asked whether rv is of its present history, by a list or a probe; see probe.
	probed time.Time
	// lost says that a watch or the server was lost since probed: the server may be another by now, or restored from a
	// backup.
	lost bool

	watch *watch[T] // in streaming; else nil

	// In backingOff and unserved:
	pause time.Duration
	next  phase

	failures int  // in a row; sets the length of a pause
	silent   bool // the last failure was a request without an answer
	missing  int  // 403 and 404 in a row, at most quickMissing
	refusals int  // of a watch at rv, for a reason of the server, in a row
	cuts     int  // streamed lists ended before the end marker, in a row
	// pagedUntil remembers a server without streamed lists.
	pagedUntil time.Time

	err    error     // the last failure, nil once a request succeeds
	since  time.Time // when err was not nil for the first time since a request succeeded
	away   bool      // the connection to the server is lost, or refused; see contact
	met    bool      // the server has answered
	logged string    // the problem last logged, "" once all is well: a problem is logged when it changes
}

// Reflector keeps one scope of a Store equal to the server, as the only writer of the scope.
//
// A Reflector is a state machine: step does the work of the phase and returns the next state. The mirror only ever
// moves from one version of the collection to a later version: by a whole list, swapped in at once, or by the events
// of a watch in their order. After the end of a watch the next watch goes on from the resume point; a new list is
// made only when the server cannot go on from there.
type Reflector[T kube.Object] struct {
	store *Store[T]
	scope *scope
	query kube.Query
	log   logr.Logger
}

func newReflector[T kube.Object](s *Store[T], sc *scope) *Reflector[T] {
	log := s.o.Log.WithValues("resource", s.o.Resource.GroupResource())
	if sc.Namespace != "" {
		log = log.WithValues("namespace", sc.Namespace)
	}
	return &Reflector[T]{store: s, scope: sc, query: s.query(sc.Namespace), log: log}
}

// run steps until ctx ends.
func (r *Reflector[T]) run(ctx context.Context) {
	r.store.mu.RLock()
	s := state[T]{rv: r.scope.ResourceVersion} // "" before the first list
	r.store.mu.RUnlock()
	s = r.relist(s, "initial")
	r.publish(s)
	for ctx.Err() == nil {
		next := r.safeStep(ctx, s)
		if next.phase != s.phase || next.err != s.err {
			r.publish(next)
		}
		s = next
	}
	s = closeStream(s)
	r.store.o.contact.forget(r.scope)
	s.phase = stopped
	r.publish(s)
}

// safeStep is step with panics contained. The next step is a list, because a change may be half done.
func (r *Reflector[T]) safeStep(ctx context.Context, s state[T]) (next state[T]) {
	if p, stack := contained(func() { next = r.step(ctx, s) }); p != nil {
		err := fmt.Errorf("watch %s: panic: %v", r.query, p)
		r.store.count(r.scope, func(n *Counters) { n.Crashes++ })
		r.log.Error(err, "a watch panicked; its objects are listed again", "stack", stack)
		next = r.relistAfter(closeStream(s), err, "panic")
	}
	return next
}

// step does the work of the phase of s and returns the next state. Once ctx has ended, only the stream in the result
// has a meaning: the caller closes the stream.
func (r *Reflector[T]) step(ctx context.Context, s state[T]) state[T] {
	switch s.phase {
	case listStreamed:
		return r.listStreamed(ctx, s)
	case listPaged:
		return r.listPaged(ctx, s)
	case resuming:
		return r.resume(ctx, s)
	case streaming:
		return r.stream(ctx, s)
	}
	// backingOff, unserved
	timer := time.NewTimer(s.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	s.phase = s.next
	return s
}

// relist makes the next phase a full list.
func (r *Reflector[T]) relist(s state[T], reason string) state[T] {
	r.store.count(r.scope, func(n *Counters) { n.Lists[reason]++ })
	s.phase = r.listPhase(s)
	return s
}

func (r *Reflector[T]) listPhase(s state[T]) phase {
	if time.Now().Before(s.pagedUntil) {
		return listPaged
	}
	return listStreamed
}

// publish shows the state to readers.
func (r *Reflector[T]) publish(s state[T]) {
	parked := s.missing >= quickMissing && missing(s.err) && !r.store.o.Optional
	sc := r.scope
	r.store.mu.Lock()
	switch {
	case s.err == nil:
		sc.ErrSince = time.Time{}
	case sc.Err == nil:
		sc.ErrSince = time.Now()
	}
	if parked && !sc.Parked {
		sc.Counters.Parked++
	}
	away := parked || sc.away && s.err != nil
	changed := away != sc.away || s.err == nil && sc.Err != nil
	if s.err != nil && s.err != sc.Err && kube.AsStatus(s.err) != nil {
		sc.refused = time.Now()
	}
	sc.Phase, sc.Err, sc.Parked, sc.away = s.phase, s.err, parked, away
	if s.phase == unserved {
		sc.Opened, sc.LastBookmark = time.Time{}, time.Time{} // no watch is silent
	}
	if s.phase == streaming {
		sc.LastContact, sc.Opened, sc.interrupt = time.Now(), s.watch.opened, s.watch.cancel
		if r.store.onTrialLocked(sc) { // since the watch was asked for
			s.watch.cancel(errReadmit)
		}
	}
	r.store.mu.Unlock()
	if changed {
		r.store.notifyServes()
	}
}

func closeStream[T kube.Object](s state[T]) state[T] {
	if s.watch != nil {
		s.watch.close()
		s.watch = nil
	}
	return s
}

const (
	// minProbe is the least time between two probes of a scope while the server answers. A watch in steady state is
	// opened anew every 5 to 10 minutes, each time with a probe; watches that end again and again add one request a
	// minute.
	minProbe = time.Minute
	// soonLost is the least time from a probe to the clean end of a watch that leads to another probe before minProbe:
	// a server that ends each watch after a second or two is asked often enough.
	soonLost = 5 * time.Second
	// probeTimeout bounds a probe: the read of one object, for which the watch waits.
	probeTimeout = 10 * time.Second
)

// probe asks the server, before a watch is opened, whether the server has reached our resource version. After an etcd
// restore it has not: the counter went back. Such a server accepts a watch from our version, which is then the
// future, and stays silent until the counter has passed our version (kubernetes issue 107457), while the mirror shows
// objects that no longer exist and misses all new ones. No error ever tells, so the probe asks: with a list of one
// object, of the state of now, whose list version is then lower than ours.
//
// A restore breaks all watches, so a probe before each watch is soon enough, and a steady state sends nothing but
// watches. (A probe cannot notice a counter that went back and has passed our version again before.)
func (r *Reflector[T]) probe(ctx context.Context, s state[T]) (next state[T], rewound bool, err error) {
	if !s.lost && time.Since(s.probed) < minProbe {
		return s, false, nil
	}
	rv, err := r.presentVersion(ctx)
	if err != nil && offline(err) {
		return s, false, err // no answer: still unknown
	}
	s.probed, s.lost = time.Now(), false
	if err != nil { // not allowed, or busy: a watch is worth trying all the same
		r.log.V(1).Info("cannot probe the server's resource version", "reason", err.Error())
		return s, false, err
	}
	if !older(rv, s.rv) {
		return s, false, nil
	}
	s.unset = true // the list decides: see install
	return s, true, nil
}

// presentVersion returns the resource version of the collection now, asked for in the mirror's own namespace, so that
// the list's right is enough.
func (r *Reflector[T]) presentVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	body, err := r.store.o.Client.ListOne(ctx, r.query)
	if err != nil {
		return "", err
	}
	defer clear(body) // the object of the list may be a Secret
	var list struct {
		kube.Meta `json:"metadata"`
	}
	if err := kube.Unmarshal(body, &list); err != nil {
		r.log.V(1).Info("probe was not answered with a list", "reason", err.Error()) // which proves nothing
		return "", nil
	}
	return list.ResourceVersion, nil
}

// outdated drops an event from before the resume point: a replay, or the first sign of a rewound history. The server
// is asked which.
func (r *Reflector[T]) outdated(ctx context.Context, s state[T]) state[T] {
	r.store.count(r.scope, func(n *Counters) { n.Outdated++ })
	s, rewound, err := r.probe(ctx, s)
	if err != nil {
		s.probed, s.lost = time.Now(), false // the stream works; ask again later
	}
	if !rewound {
		return s
	}
	r.store.count(r.scope, func(n *Counters) { n.Reconnects["rewound"]++ })
	return r.relist(closeStream(s), "rewound")
}

// fail ends a step with a pause before the next phase.
func (r *Reflector[T]) fail(s state[T], err error, next phase) state[T] {
	if s.silent && !offline(err) {
		s.failures = min(s.failures, answeredFailures)
	}
	s.silent = false
	s = r.report(s, err)
	switch {
	case r.store.o.Optional && missing(err) && (s.rv == "" || time.Since(s.since) >= keptMissing):
		return r.absent(s)
	case !missing(err):
		s.pause, s.missing = pauseAfter(err, s.failures), 0
		s.failures++
	case s.missing < quickMissing: // not counted as a failure of the server
		s.pause = retries.After(s.missing)
		s.missing++
	default:
		s.pause = pauseAfter(err, s.failures)
	}
	s.phase, s.next = backingOff, next
	return s
}

// keptMissing is how long the content of an optional resource stays that is missing all of a sudden: longer than a
// server just started answers 404 and 403, and a definition that is replaced is away.
const keptMissing = time.Minute

// askedApart is the least time between two requests of all scopes of a mirror for a resource that is not there.
const askedApart = 6 * time.Second

// absent shows that there are no objects of an optional resource. A refusal stays visible.
func (r *Reflector[T]) absent(s state[T]) state[T] {
	if kube.IsNotFound(s.err) {
		s.err = nil
	}
	r.store.replace(r.scope, newContent[T](), func([]Change[T], int) {})
	s.rv, s.unset, s.missing = "", false, 0
	s.phase, s.next = unserved, r.listPhase(s)
	s.pause = max(whileUnserved.After(s.failures), time.Duration(r.store.scopeCount())*askedApart)
	s.failures++
	return r.recovered(s)
}

// failSilent is fail after a request without any answer.
func (r *Reflector[T]) failSilent(s state[T], err error, next phase) state[T] {
	s = r.fail(s, err, next)
	s.silent, s.lost = true, true
	return s
}

// report notes a failure and logs a problem once: again only after a change of the problem, or after a recovery. A
// failure that the next tries will probably solve is logged at level 1: each restart of a server breaks each watch
// once.
func (r *Reflector[T]) report(s state[T], err error) state[T] {
	if s.err == nil {
		s.since = time.Now()
	}
	s.err = err
	if offline(err) || kube.IsUnauthorized(err) {
		s.away = true
		r.store.o.contact.lost(r.scope)
	} else if s.away {
		s = r.inContact(s)
	}
	first := s.failures == 0 && (offline(err) || busy(err)) || s.failures <= quietExpired && expired(err)
	passes := !common(err) && kube.IsTransient(err) && time.Since(s.since) < logAfter
	if first || passes {
		r.log.V(1).Info("trying again", "reason", err.Error())
		return s
	}
	if missing(err) && (r.store.o.QuietParking || r.store.o.Optional) {
		return s
	}
	if common(err) {
		o := &r.store.o
		o.contact.log(o, err, time.Since(s.since) >= logAfter && r.alone())
		return s
	}
	if class := problemClass(err); class != s.logged {
		s.logged = class
		if next := health.OfError(err).Next; kube.IsTransient(err) || missing(err) {
			r.log.Info("cannot list or watch, trying again", kube.Warn("hint", next, "error", err)...)
		} else {
			r.log.Error(err, "cannot list or watch, trying again", "hint", next)
		}
	}
	return s
}

// alone reports whether lists and watches fail while other requests do not: then nothing else logs the failure.
func (r *Reflector[T]) alone() bool { return r.store.o.Client.Contact().Since.IsZero() }

// inContact notes an answer of the server.
func (r *Reflector[T]) inContact(s state[T]) state[T] {
	s.away, s.met = false, true
	r.store.o.contact.back(r.store.o.Log, r.scope)
	return s
}

// recovered notes a watch that works again.
func (r *Reflector[T]) recovered(s state[T]) state[T] {
	if s.away || !s.met {
		s = r.inContact(s)
	}
	if s.logged != "" {
		s.logged = ""
		r.log.Info("watch recovered", "resourceVersion", s.rv)
	}
	return s
}
