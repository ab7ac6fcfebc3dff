package apply

import (
	"time"

	"skiff/internal/cache"
	"skiff/internal/kube"
)

// Answer remembers the answer to our last write of one object, for operators that write children of their own which
// cannot be applied to, such as pods. The zero value remembers nothing. It belongs to the one reconcile of its owner.
type Answer[T kube.Object] struct{ written }

// Set remembers the answer to a write, or to a live read.
func (a *Answer[T]) Set(object T) { a.set(object) }

// Remaining returns how long the answer is still trusted if no event comes; 0 if there is none to trust.
func (a *Answer[T]) Remaining() time.Duration { return a.remaining() }

// Newest returns the newest copy of an object that can be trusted, false if there is none: the answer as long as the cache
// is behind it, else what the cache has; and where the cache stays behind for too long, what read says (protocol CCH-15).
func (a *Answer[T]) Newest(k kube.Key, m *cache.Store[T], read func() (T, bool, error)) (T, bool, error) {
	newest := a.trusted(m.Reached) // before the cache is read; see (*operation).look
	cached, ok, err := m.Get(k)
	switch {
	case err != nil:
		return cached, false, err
	case newest == fromAnswer:
		return a.object.(T), true, nil
	case newest == fromServer:
		object, ok, err := read()
		if err == nil && ok {
			a.set(object)
		} else if err == nil {
			a.clear()
		}
		return object, ok, err
	}
	return cached, ok, nil
}
