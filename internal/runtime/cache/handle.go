package cache

import (
	"context"

	"skiff/internal/runtime/kube"
)

// handle brings one event into the mirror, notifies the handlers and moves the resume point.
func (r *Reflector[T]) handle(ctx context.Context, s state[T], ev kube.Event[T]) state[T] {
	switch ev.Type {
	case kube.Added, kube.Modified, kube.Deleted:
	case kube.Bookmark:
		if older(ev.ResourceVersion, s.rv) {
			return r.outdated(ctx, s)
		}
		s.bookmarks++
		if s.bookmarks == regularBookmarks {
			s.stream.IdleAfter(bookmarkSilence)
		}
		return r.advance(s, ev.ResourceVersion, true)
	default: // of a later API: the meaning is unknown, so the resume point stays before it
		r.store.count(r.scope, func(n *Counters) { n.UnknownType++ })
		r.log.V(1).Info("event of unknown type skipped", "type", string(ev.Type))
		return s
	}
	k := ev.Object.ObjectMeta().Key()
	if !r.belongs(k) {
		return s
	}
	old := r.store.look(k)
	// The mirror shows the collection at s.rv, so events up to there are in the content already. (The second
	// condition can hold alone where a list carried objects newer than the list.)
	late := older(ev.ResourceVersion, s.rv) || old.known() && older(ev.ResourceVersion, old.rv())
	switch {
	case ev.Type == kube.Deleted:
		return r.handleDeletion(ctx, s, ev, old, late)
	case late:
		return r.outdated(ctx, s)
	case old.is(ev.Object.ObjectMeta()):
		r.store.count(r.scope, func(n *Counters) { n.Outdated++ })
		return r.advance(s, ev.ResourceVersion, false)
	}
	s.rv, s.progressed = newest(s.rv, ev.ResourceVersion), true
	r.store.put(r.scope, ev.Object, ev.Part, ev.Type, s.rv)
	return s
}

// handleDeletion removes the object of the event, and no other object under the same name by now. The event carries
// the object's last state, with the version of the deletion. (Some servers leave the version that we have: that is no
// late event.)
func (r *Reflector[T]) handleDeletion(ctx context.Context, s state[T], ev kube.Event[T], old form[T],
	late bool) state[T] {
	m := ev.Object.ObjectMeta()
	if old.known() && old.uid() != m.UID || late && !old.is(m) {
		return r.outdated(ctx, s)
	}
	s.progressed = s.progressed || old.known()
	s.rv = newest(s.rv, ev.ResourceVersion)
	r.store.remove(r.scope, m.Key(), ev.Part, s.rv, Change[T]{Type: Gone, Old: ev.Object})
	return s
}

// handleBad puts an object that does not decode into quarantine and moves on: a new request would bring the same
// object.
func (r *Reflector[T]) handleBad(ctx context.Context, s state[T], t kube.EventType, bad *kube.DecodeError) state[T] {
	if obj, part, ok := largeOf[T](bad); ok {
		return r.handle(ctx, s, kube.Event[T]{Type: t, Object: obj, ResourceVersion: bad.ResourceVersion, Part: part})
	}
	if older(bad.ResourceVersion, s.rv) {
		return r.outdated(ctx, s)
	}
	if bad.Key.Name != "" && !r.belongs(bad.Key) {
		return s
	}
	old := r.store.look(bad.Key)
	s.rv = newest(s.rv, bad.ResourceVersion)
	if t == kube.Deleted && bad.Key.Name != "" {
		s.progressed = s.progressed || old.known()
		r.store.remove(r.scope, bad.Key, kube.Part{}, s.rv,
			Change[T]{Type: Gone, Old: old.object(bad.Key), Unknown: true})
		return s
	}
	if r.store.quarantine(r.scope, bad, s.rv) { // logged once for an object
		r.log.Error(bad, "object does not decode; its last good copy stays", "object", bad.Key, "hasCopy", old.held)
	}
	r.store.relieve()
	return s
}

// advance moves the resume point with the content unchanged.
func (r *Reflector[T]) advance(s state[T], rv string, bookmark bool) state[T] {
	s.rv = newest(s.rv, rv)
	r.store.advance(r.scope, s.rv, bookmark)
	return s
}

// newest returns where to resume after an event: never before where we were. Versions without an order are taken as
// they come.
func newest(rv, of string) string {
	if of == "" || older(of, rv) {
		return rv
	}
	return of
}
