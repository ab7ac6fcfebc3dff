package cache

import (
	"context"
	"fmt"

	"skiff/internal/kube"
)

// handle brings one event into the mirror, tells the handlers and moves the resume point.
func (r *Reflector[T]) handle(ctx context.Context, s state[T], ev kube.Event[T]) state[T] {
	switch ev.Type {
	case kube.Added, kube.Modified, kube.Deleted:
	case kube.Bookmark:
		if older(ev.ResourceVersion, s.rv) {
			return r.outdated(ctx, s)
		}
		s.bookmarks++
		r.store.bookmark(r.scope)
		if s.bookmarks == regularBookmarks {
			s.stream.IdleAfter(bookmarkSilence)
		}
		return r.advance(s, ev.ResourceVersion)
	default: // of a later API: what it means cannot be known, so the resume point stays before it
		r.store.count(r.scope, func(n *Counters) { n.UnknownType++ })
		r.log.V(1).Info("event of unknown type skipped", "type", string(ev.Type))
		return s
	}
	k := ev.Object.ObjectMeta().Key()
	if !r.belongs(k) {
		return s
	}
	r.trimmed(ev.Object)
	old, had := r.store.lookup(k)
	// The mirror shows the collection at s.rv, so whatever happened before that is in it already. (The second
	// condition can hold alone where a list carried objects newer than itself.)
	late := older(ev.ResourceVersion, s.rv) || had && older(ev.ResourceVersion, old.ObjectMeta().ResourceVersion)
	if ev.Type == kube.Deleted {
		return r.handleDeletion(ctx, s, ev, old, had, late)
	}
	if late {
		return r.outdated(ctx, s)
	}
	if had && sameVersion(old, ev.Object) {
		r.store.count(r.scope, func(n *Counters) { n.Outdated++ })
		return r.advance(s, ev.ResourceVersion)
	}
	if r.full() {
		return r.tooLarge(s)
	}
	s.rv, s.progressed = newest(s.rv, ev.ResourceVersion), true
	r.store.put(r.scope, ev.Object, s.rv)
	return s
}

// handleDeletion removes the object that the event is about, and no other that has its name by now. The event
// carries the object's last state, with the version of the deletion. (Some servers leave it with the version
// that we have: that is no late event.)
func (r *Reflector[T]) handleDeletion(ctx context.Context, s state[T], ev kube.Event[T], old T,
	had, late bool) state[T] {
	switch {
	case had && !sameIdentity(old, ev.Object), late && !(had && sameVersion(old, ev.Object)):
		return r.outdated(ctx, s)
	case !had:
		return r.advance(s, ev.ResourceVersion)
	}
	s.rv, s.progressed = newest(s.rv, ev.ResourceVersion), true
	r.store.remove(r.scope, ev.Object.ObjectMeta().Key(), s.rv, Change[T]{Type: Gone, Old: ev.Object})
	return s
}

// handleBad puts an object that does not decode into quarantine and moves on: a new request would bring the same
// object.
func (r *Reflector[T]) handleBad(ctx context.Context, s state[T], t kube.EventType, bad *kube.DecodeError) state[T] {
	if older(bad.ResourceVersion, s.rv) {
		return r.outdated(ctx, s)
	}
	if bad.Key.Name != "" && !r.belongs(bad.Key) {
		return s
	}
	s.rv = newest(s.rv, bad.ResourceVersion)
	old, had := r.store.lookup(bad.Key)
	if t == kube.Deleted && bad.Key.Name != "" {
		s.progressed = s.progressed || had
		r.store.remove(r.scope, bad.Key, s.rv, Change[T]{Type: Gone, Old: old, Unknown: true})
		return s
	}
	if r.full() {
		return r.tooLarge(s)
	}
	if r.store.quarantine(r.scope, bad, s.rv) { // logged once for an object
		r.store.flood.Error(r.log, bad, "object does not decode; its last good copy stays",
			"object", bad.Key.String(), "hasCopy", had)
	}
	return s
}

// full says that the mirror takes more memory than it may, or all mirrors together.
func (r *Reflector[T]) full() bool {
	taken, most := r.store.Bytes(), r.store.o.MaxBytes
	return taken > most || r.store.o.memory.over(most, taken)
}

// tooLarge ends a watch that has brought too much; a list will show whether it is less by then.
func (r *Reflector[T]) tooLarge(s state[T]) state[T] {
	err := fmt.Errorf("watch %s: %d MiB, over the limit: %w", r.query, r.store.Bytes()>>20, errBudget)
	return r.relistAfter(closeStream(s), err, "too large")
}

// advance moves the resume point with the content as it is.
func (r *Reflector[T]) advance(s state[T], rv string) state[T] {
	s.rv = newest(s.rv, rv)
	r.store.advance(r.scope, s.rv)
	return s
}

// newest returns where to resume after an event: never before where we were. Versions that cannot be compared
// are taken as they come.
func newest(rv, of string) string {
	if of == "" || older(of, rv) {
		return rv
	}
	return of
}
