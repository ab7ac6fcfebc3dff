package cache

import (
	"errors"
	"fmt"
	"io"
	"time"

	"skiff/internal/runtime/kube"
)

// listing collects a list that is to become the content of a scope. What there is no room for it keeps as keys, while
// it reads.
type listing[T kube.Object] struct {
	*Reflector[T]
	content content[T]
	unset   bool // of the state: the same version may be of another history
	slot    *slot
	sheds   int // Store.sheds when the content was last looked through
}

// newListing begins a list; close ends it.
func (r *Reflector[T]) newListing(s state[T], slot *slot) *listing[T] {
	l := &listing[T]{Reflector: r, unset: s.unset, slot: slot}
	l.begin()
	return l
}

// begin begins the list, or begins it anew. What is being read of a single namespace to be held again is given up: the
// list may bring it at another version.
func (l *listing[T]) begin() {
	l.content = newContent[T]()
	l.store.account.unlist(l.scope.namespace)
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.scope.listing, l.sheds = true, l.store.sheds
	for namespace, sh := range l.store.shed {
		if l.scope.covers(namespace) {
			sh.staged = nil
		}
	}
}

func (l *listing[T]) close() {
	l.store.mu.Lock()
	l.scope.listing = false
	l.store.mu.Unlock()
	l.store.account.unlist(l.scope.namespace)
}

// collect reads the initial events of a watch up to their end.
func (l *listing[T]) collect(stream *kube.Stream[T], opened time.Time, watchdog *time.Timer) error {
	for {
		ev, err := stream.Next()
		switch bad, ok := errors.AsType[*kube.DecodeError](err); {
		case ok:
			l.addBad(bad, ev.Type)
		case err == io.EOF:
			return fmt.Errorf("read initial events of %s: %w", l.query, io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("read initial events of %s: %w", l.query, err)
		case ev.InitialEventsEnd && ev.ResourceVersion == "":
			return fmt.Errorf("read initial events of %s: the end marker carries no resource version", l.query)
		case ev.InitialEventsEnd:
			l.content.rv = ev.ResourceVersion
			return nil
		case ev.Type == kube.Added, ev.Type == kube.Modified:
			l.add(ev.Object, ev.Part)
		case ev.Type == kube.Deleted:
			l.delete(ev.Object.ObjectMeta().Key(), int64(ev.Part.Size/2))
		case ev.Type == kube.Bookmark:
			continue // no progress: does not count as activity for the watchdog
		default:
			l.store.count(l.scope, func(n *Counters) { n.UnknownType++ })
		}
		if time.Since(opened) > maxStreamedList {
			return fmt.Errorf("read initial events of %s: %w", l.query, errNoEndMarker)
		}
		watchdog.Reset(endMarkerTimeout)
	}
}

// add takes an object. Where the mirror holds the same version, its copy is taken, so that a second list does not need
// the memory twice. (With unset, the same version may be of another history.) Of a repeated key the last counts.
func (l *listing[T]) add(obj T, part kube.Part) {
	l.slot.moves()
	k := obj.ObjectMeta().Key()
	if !l.belongs(k) {
		return
	}
	l.delete(k, 0)
	s := l.store
	s.mu.RLock()
	whole, sheds := s.wholeLocked(k.Namespace), s.sheds
	bare := s.bareLocked(k)
	old, had := s.objects.get(k)
	s.mu.RUnlock()
	if sheds != l.sheds {
		l.prune()
	}
	l.trimmed(obj)
	if had && !bare && !l.unset && sameVersion(old, obj) && !part.Skimmed && !part.Large {
		l.content.objects.put(old)
		s.account.list(k.Namespace, k.Name, sizeOf(old))
	} else if f := s.formOf(obj, part, whole); !f.shed {
		l.content.objects.putNew(obj)
		s.account.list(k.Namespace, k.Name, f.bytes)
	} else {
		l.content.putKey(&f, k.Namespace)
	}
	s.relieve()
}

// delete takes away what was collected under a key; size is what it took if its key is not known.
func (l *listing[T]) delete(k kube.Key, size int64) {
	l.deleteBad(k)
	bare := false
	if keys := l.content.keys[k.Namespace]; keys != nil {
		key, known := keys.byName[k.Name]
		if bare = key.bare; known || size > 0 {
			keys.delete(k.Name, size)
		}
	}
	if obj, ok := l.content.objects.get(k); ok {
		l.content.objects.delete(k)
		if !bare {
			l.store.account.list(k.Namespace, "", -sizeOf(obj))
		}
	}
}

// prune makes keys of what was collected of namespaces that were shed meanwhile.
func (l *listing[T]) prune() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.sheds = l.store.sheds
	l.store.pruneLocked(&l.content)
}

// pruneLocked makes keys of the objects of shed namespaces.
func (s *Store[T]) pruneLocked(c *content[T]) {
	for namespace := range c.objects {
		if !s.wholeLocked(namespace) {
			continue
		}
		for e := range c.objects.entries(namespace) {
			k := e.key()
			if keys := c.keys[namespace]; keys != nil && keys.byName[k.Name].bare {
				continue
			}
			f := s.formOf(e.obj, kube.Part{}, true)
			c.objects.delete(k)
			c.putKey(&f, namespace)
		}
	}
	for k := range c.bad {
		if s.wholeLocked(k.Namespace) {
			delete(c.bad, k)
		}
	}
}

// putKey notes an object that is not held as it is.
func (c *content[T]) putKey(f *form[T], namespace string) {
	of := c.keys[namespace]
	if of == nil {
		of = &keys{}
		c.keys[namespace] = of
	}
	if _, stored := of.put(f.name, f.key, true); stored && f.held {
		c.objects.putNew(f.obj)
	}
}

// addBad takes an object that does not decode.
func (l *listing[T]) addBad(bad *kube.DecodeError, t kube.EventType) {
	if obj, part, ok := largeOf[T](bad); ok && t != kube.Deleted {
		l.add(obj, part)
		return
	}
	l.slot.moves()
	switch {
	case bad.Key.Name == "": // nothing to remember it by
		l.store.count(l.scope, func(n *Counters) { n.Undecodable++ })
		l.log.Error(bad,
			"an object of the list does not decode and has no readable name; it is left out")
	case !l.belongs(bad.Key):
	case t == kube.Deleted:
		l.delete(bad.Key, 0)
	case !l.store.skims(bad.Key):
		l.deleteBad(bad.Key)
		l.content.bad[bad.Key] = bad
		l.store.account.list(bad.Key.Namespace, bad.Key.Name, sizeOfBad(bad))
		l.store.relieve()
	}
}

func (l *listing[T]) deleteBad(k kube.Key) {
	if bad := l.content.bad[k]; bad != nil {
		delete(l.content.bad, k)
		l.store.account.list(k.Namespace, "", -sizeOfBad(bad))
	}
}

// maxBadLogged bounds the lines that one list may cost: enough to go through by hand. Quarantined has all.
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
