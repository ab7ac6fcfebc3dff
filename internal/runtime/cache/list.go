package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// endMarkerTimeout is how long a streamed list may pause before the end marker. A server with streamed lists
	// waits a few seconds at most, for its own cache; a server that ignores the parameter never sends the marker.
	endMarkerTimeout = 30 * time.Second
	// maxStreamedList bounds a streamed list without pauses, as on a busy server that ignores the parameter. 112,000
	// objects were seen to take 95 s (kubernetes issue 138670).
	maxStreamedList = 3 * time.Minute
	// maxCuts is how many streamed lists in a row may break off before a paged list is tried: a client too slow
	// for the server's patience would otherwise start over for ever.
	maxCuts = 3
	// pagedFor is how long a server without streamed lists is not asked for another. An upgrade may bring them.
	pagedFor = 10 * time.Minute
	// massDeleteMin is how many objects, and at least half of all, a list must remove to be reported: the server may
	// have the wrong database or a restored database.
	massDeleteMin = 10
)

var (
	errNoEndMarker = errors.New("the server did not say where the initial events end")
	errOlderList   = errors.New("the server answered with a state older than asked for")
)

// listStreamed does a streamed list (KEP-3157): a watch that begins with the present objects. The objects are
// collected aside, in no order of versions, and become the mirror's content with the bookmark at their end; only that
// bookmark says where to resume. The stream then goes on as an ordinary watch.
func (r *Reflector[T]) listStreamed(ctx context.Context, s state[T]) state[T] {
	slot, ok := r.store.o.lists.acquire(ctx)
	if !ok {
		return s
	}
	defer slot.release()
	w, own := newWatch[T](ctx)
	watchdog := time.AfterFunc(endMarkerTimeout, func() { w.cancel(errNoEndMarker) })
	defer watchdog.Stop()
	l := r.newListing(s, slot)
	defer l.close()
	err := r.open(own, w, kube.WatchOptions{ResourceVersion: listVersion(s), SendInitialEvents: true,
		Skim: r.store.skims})
	if err != nil {
		return r.listStreamedFailed(ctx, s, err, false)
	}
	s.watch = w
	err = l.collect(w.stream, w.opened, watchdog)
	watchdog.Stop() // the stream goes on for longer
	if err == nil {
		s, err = r.install(s, l)
	}
	if err != nil {
		return r.listStreamedFailed(ctx, closeStream(s), err, true)
	}
	s.phase = streaming
	return r.recovered(s)
}

// belongs reports whether a key is of the scope, and counts the keys outside: a server that mixes keys up must not
// make a Reflector write into the part of another.
func (r *Reflector[T]) belongs(k kube.Key) bool {
	if r.scope.covers(k.Namespace) {
		return true
	}
	r.store.count(r.scope, func(n *Counters) { n.Misplaced++ })
	return false
}

// listStreamedFailed decides between another try, a list without a version, and a paged list.
func (r *Reflector[T]) listStreamedFailed(ctx context.Context, s state[T], err error, opened bool) state[T] {
	switch {
	case ctx.Err() != nil:
		return s
	case expired(err):
		return r.listExpired(s, err)
	case kube.IsRefused(err), errors.Is(err, errNoEndMarker), errors.Is(err, kube.ErrIdle):
		r.log.V(1).Info("server does not do streamed lists, taking paged ones", "reason", err.Error())
		s.pagedUntil = time.Now().Add(pagedFor)
		s.phase = listPaged
		return s
	case !opened && offline(err):
		return r.failSilent(s, err, listStreamed)
	case missing(err):
		return r.fail(s, r.explain(ctx, s, err), listStreamed)
	case busy(err), kube.IsUnauthorized(err):
		return r.fail(s, err, listStreamed) // a paged list would fare no better
	}
	s.cuts++
	if s.cuts >= maxCuts {
		s.cuts, s.pagedUntil = 0, time.Now().Add(pagedFor)
	}
	return r.fail(s, err, r.listPhase(s))
}

// listPaged does a list in pages. The watch is another request.
func (r *Reflector[T]) listPaged(ctx context.Context, s state[T]) state[T] {
	slot, ok := r.store.o.lists.acquire(ctx)
	if !ok {
		return s
	}
	defer slot.release()
	l := r.newListing(s, slot)
	defer l.close()
	o := kube.ListOptions{ResourceVersion: listVersion(s), Again: l.begin, Skim: r.store.skims,
		MaxObject: r.store.maxObject(),
		Each: func(obj kube.Object, part kube.Part, bad *kube.DecodeError) error {
			if bad != nil {
				l.addBad(bad, kube.Added)
			} else {
				l.add(obj.(T), part)
			}
			return nil
		}}
	if o.ResourceVersion != "" {
		o.ResourceVersionMatch = "NotOlderThan" // with a limit, the default would be "exactly"
	}
	res, err := kube.List[T](ctx, r.store.o.Client, r.query, o)
	if err == nil {
		l.content.rv = res.ResourceVersion
		s, err = r.install(s, l)
	}
	switch {
	case ctx.Err() != nil:
		return s
	case expired(err):
		return r.listExpired(s, err)
	case err != nil:
		return r.fail(s, r.explain(ctx, s, err), r.listPhase(s))
	}
	s.phase = resuming
	return s
}

// explain finds out whether a resource missing for good is there in another version. A server refuses what it does not
// serve: an optional resource is not missed then.
func (r *Reflector[T]) explain(ctx context.Context, s state[T], err error) error {
	switch {
	case r.store.o.Optional:
		if kube.IsForbidden(err) && !r.store.o.Client.Serves(ctx, r.store.o.Resource) {
			return &kube.Status{Code: http.StatusNotFound, Reason: "NotFound", Message: err.Error()}
		}
		return err
	case !kube.IsNotFound(err), s.missing+1 < quickMissing:
		return err
	}
	if served := r.store.o.Client.OtherVersions(ctx, r.store.o.Resource); len(served) > 0 {
		return &kube.OtherVersionError{Resource: r.store.o.Resource, Served: served, Err: err}
	}
	return err
}

// listVersion is the least version that a list asks for: the version already shown by the mirror, so that a server
// lagging behind cannot take the mirror back. The first list asks for the state of now.
func listVersion[T kube.Object](s state[T]) string {
	if s.unset {
		return ""
	}
	return s.rv
}

// listExpired asks again at once, for the state of now.
func (r *Reflector[T]) listExpired(s state[T], err error) state[T] {
	if listVersion(s) == "" {
		return r.fail(s, err, r.listPhase(s))
	}
	s.unset = true
	return s
}

// install makes c the content of the mirror and notifies the handlers. Only here may the resume point go back: when
// the server, asked for the state of now, answers with an older version than seen before, the server's history was
// rewound (an etcd restore), and the objects shown by the mirror may never have existed.
func (r *Reflector[T]) install(s state[T], l *listing[T]) (state[T], error) {
	c := l.content
	if older(c.rv, s.rv) {
		if !s.unset {
			s.unset = true
			return s, fmt.Errorf("list %s: resource version %s, asked for %s: %w", r.query, c.rv, s.rv, errOlderList)
		}
		c.rewound = true
		r.log.Info("the server's resource versions went back: probably restored from a backup; "+
			"all objects are compared anew", "from", s.rv, "to", c.rv)
	}
	r.logBad(c.bad)
	r.store.replace(r.scope, c, func(changes []Change[T], had int) {
		r.log.V(1).Info("listed", "resourceVersion", c.rv, "changes", len(changes))
		r.watchMassDelete(changes, had)
	})
	r.store.relieve()
	s.rv, s.unset, s.probed, s.lost = c.rv, false, time.Now(), false
	s.cuts, s.refusals, s.missing, s.err = 0, 0, 0, nil
	return s, nil
}

// watchMassDelete logs and counts a list that removes most objects, before the handlers hear of the list.
func (r *Reflector[T]) watchMassDelete(changes []Change[T], had int) {
	gone := 0
	for _, c := range changes {
		if c.Type == Gone {
			gone++
		}
	}
	if gone < massDeleteMin || 2*gone < had {
		return
	}
	r.store.count(r.scope, func(n *Counters) { n.MassDeletes++ })
	r.log.Info("mass delete: most objects are gone from the server", "gone", gone, "of", had)
}

// newListing begins a list; close ends the list.
func (r *Reflector[T]) newListing(s state[T], slot *slot) *listing[T] {
	l := &listing[T]{Reflector: r, unset: s.unset, slot: slot}
	l.begin()
	return l
}

// maxBadLogged bounds the log lines of a list: enough to go through by hand. Quarantined has all.
const maxBadLogged = 10

// logBad names the objects of a list that do not decode.
func (r *Reflector[T]) logBad(bad map[kube.Key]*kube.DecodeError) {
	logged := 0
	for _, err := range bad {
		if logged == maxBadLogged {
			r.log.Info("more objects do not decode", "objects", len(bad)-logged)
			return
		}
		r.log.Error(err, "object does not decode; its last good copy stays")
		logged++
	}
}
