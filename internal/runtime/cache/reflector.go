package cache

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
)

// phase names what a Reflector does next, that is, what it has achieved so far.
type phase string

const (
	// listStreamed: the content is not that of any known version (or of one that cannot be continued). Asks
	// for the present objects and all that follows in one watch (KEP-3157).
	// Exits: end of the initial events -> streaming, on the same stream; request refused, or no end marker,
	// or cut too often -> listPaged; version expired -> listStreamed with no version; else -> backingOff.
	listStreamed phase = "listing as a stream"
	// listPaged: as listStreamed, by a paged list.
	// Exits: list complete -> resuming; version expired -> listPaged with no version; else -> backingOff.
	listPaged phase = "listing"
	// resuming: the content is that of the collection at state.rv; no watch is open.
	// Exits: watch open -> streaming; history found rewound -> a list; refused -> backingOff, then resuming
	// again, or a list where the version is what was refused.
	resuming phase = "resuming"
	// streaming: the content follows an open watch.
	// Exits: event or bookmark -> streaming; end or silence of the watch -> resuming, or backingOff if it was
	// short or broken; ERROR event -> backingOff, then resuming or a list; older version seen and history found
	// rewound -> a list.
	streaming phase = "streaming"
	// backingOff: waits for state.pause. Exit: -> state.next.
	backingOff phase = "backing off"
	// stopped: not run yet, or the context has ended.
	stopped phase = "stopped"
)

// state is all that a Reflector knows between two steps. What readers see of it (Store.State) is a copy.
type state[T kube.Object] struct {
	phase phase

	// rv is the resume point: the mirror's content is that of the collection at rv. It comes from the end of
	// a list, then from each event and bookmark, and never goes back (but see install). "" before the first
	// list.
	rv string
	// unset makes the next list ask for the state of now instead of "not older than rv", because the server
	// could not serve rv: it is too old, or the server has not reached it.
	unset bool
	// probed is when the server was last asked whether rv is of its present history: see probe.
	probed time.Time

	// In streaming:
	stream     *kube.Stream[T]
	cancel     context.CancelCauseFunc // of the stream's context, where it has one of its own
	opened     time.Time
	lifetime   time.Duration // what we asked the server to end it after
	progressed bool          // it has brought a change
	bookmarks  int           // that it has brought

	// In backingOff:
	pause time.Duration
	next  phase

	failures int  // in a row; sets the length of a pause
	silent   bool // the last of them was a request without an answer
	missing  int  // 403 and 404 in a row, at most quickMissing
	refusals int  // of a watch at rv for a reason that is the server's, in a row
	cuts     int  // streamed lists that ended before their end marker, in a row
	// pagedUntil remembers that this server does not do streamed lists.
	pagedUntil time.Time

	err    error     // what went wrong last, nil once a request succeeds
	since  time.Time // when err was not nil for the first time since a request succeeded
	away   bool      // the connection to the server is lost, or refused; see contact
	met    bool      // the server has answered this Reflector
	logged string    // the problem that was logged, "" once all is well: a problem is logged when it changes
}

// Reflector keeps one scope of a Store equal to what the server has. It is the only writer of that scope.
//
// It is a state machine: step does what the phase says and returns the next state. The mirror is only ever
// moved from one version of the collection to a later one: by a whole list, swapped in at once, or by the
// events of a watch in their order. When a watch ends it goes on where it left off; it lists again only when
// the server says that it cannot go on from there.
type Reflector[T kube.Object] struct {
	store *Store[T]
	scope *scope
	query kube.Query
	log   logr.Logger
}

func newReflector[T kube.Object](s *Store[T], sc *scope) *Reflector[T] {
	log := s.o.Log.WithValues("resource", s.o.Resource.GroupResource())
	if sc.namespace != "" {
		log = log.WithValues("namespace", sc.namespace)
	}
	return &Reflector[T]{store: s, scope: sc, query: s.query(sc), log: log}
}

// run steps until ctx ends.
func (r *Reflector[T]) run(ctx context.Context) {
	s := r.relist(state[T]{rv: r.store.reached(r.scope)}, "initial")
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

// safeStep is step with panics contained: a panic is a failure like others, so that no object and no answer can end
// the process. The next step is a list, because a change may be half done.
func (r *Reflector[T]) safeStep(ctx context.Context, s state[T]) (next state[T]) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, bug := p.(mutated); bug {
			panic(p)
		}
		err := fmt.Errorf("watch %s: panic: %v", r.query, p)
		r.store.count(r.scope, func(n *Counters) { n.Crashes++ })
		r.log.Error(err, "a watch panicked; its objects are listed again", "stack", string(debug.Stack()))
		next = r.relistAfter(closeStream(s), err, "panic")
	}()
	return r.step(ctx, s)
}

// step does what the phase of s says and returns what comes next. Once ctx has ended, what it returns is of
// no meaning but for the stream that is to be closed.
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
	// backingOff
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
	parked := s.missing >= quickMissing && missing(s.err)
	r.store.mu.Lock()
	switch {
	case s.err == nil:
		r.scope.errSince = time.Time{}
	case r.scope.err == nil:
		r.scope.errSince = time.Now()
	}
	if parked && !r.scope.parked {
		r.scope.counters.Parked++
	}
	away := parked || r.scope.away && s.err != nil
	changed := away != r.scope.away || s.err == nil && r.scope.err != nil
	if s.err != nil && s.err != r.scope.err && kube.AsStatus(s.err) != nil {
		r.scope.refused = time.Now()
	}
	r.scope.phase, r.scope.err, r.scope.parked, r.scope.away = s.phase, s.err, parked, away
	if s.phase == streaming {
		r.scope.contact, r.scope.opened = time.Now(), s.opened
	}
	r.store.mu.Unlock()
	if changed {
		r.store.tellServes()
	}
}

func closeStream[T kube.Object](s state[T]) state[T] {
	if s.stream != nil {
		_ = s.stream.Close() // we have what we want of it
		s.stream = nil
	}
	if s.cancel != nil {
		s.cancel(nil)
		s.cancel = nil
	}
	return s
}
