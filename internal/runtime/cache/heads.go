package cache

import (
	"fmt"
	"slices"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Heads are the metadata of objects too large to be held: who owns and who selects an object, so that a too large
// object concerns nobody else.

const (
	// maxHead bounds the metadata kept of a too large object: twenty labels need a quarter.
	maxHead = 4 << 10
	// maxHeadValue bounds an annotation kept. Longer annotations are configuration, or a copy of the object; those
	// about owners are short.
	maxHeadValue = 256
)

// headBytes is the size of a head besides the texts, with a few labels.
const headBytes = 512

// headOf returns the metadata kept of a too large object; nil: the metadata is too long as well.
func headOf(obj kube.Object) *kube.MetaAnnotated {
	head := *kube.HeadOf(obj)
	annotations := head.Annotations
	head.Annotations = nil
	for _, a := range annotations {
		if len(a.Value) <= maxHeadValue {
			head.Annotations = append(head.Annotations, a)
		}
	}
	if textOf(&head) > maxHead {
		return nil
	}
	return &head
}

// textOf is about how long metadata is.
func textOf(m *kube.MetaAnnotated) (n int64) {
	for _, of := range []kube.Labels{m.Labels, m.Annotations} {
		for _, l := range of {
			n += int64(labelBytes + len(l.Key) + len(l.Value))
		}
	}
	for _, o := range m.OwnerReferences {
		n += int64(ownerBytes + len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID))
	}
	for _, f := range m.Finalizers {
		n += int64(stringBytes + len(f))
	}
	return n
}

// Head returns the metadata of a too large object; false: the object is not too large, or the metadata is not known.
func (s *Store[T]) Head(k kube.Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var none T
	if sh := s.shed[k.Namespace]; sh != nil {
		if key := sh.keys.byName[k.Name]; key.head != nil && !key.bare {
			return stub[T](k, key), true
		}
	}
	return none, false
}

// KnownByIndex is ByIndex for an index of IndexMeta. For too large objects the result has the metadata, if known.
func (s *Store[T]) KnownByIndex(name, namespace, value string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(name, namespace, value, false)
	if err == nil && (namespace != "" || s.o.Resource.ClusterScoped) {
		err = s.withoutKeysLocked(namespace)
	}
	if err != nil {
		return nil, s.readError("list", fmt.Sprintf("by %s %q in %s", name, value, namespace), err)
	}
	out := make([]T, 0, len(set))
	for _, e := range set {
		out = append(out, e.obj)
	}
	ix := s.indexLocked(name)
	for _, obj := range s.headsLocked(namespace) {
		if values := ix.f(obj, nil); slices.Contains(values, value) {
			out = append(out, obj)
		}
	}
	slices.SortFunc(out, byKey[T])
	return out, nil
}

// withoutKeysLocked returns an error where there are objects of a namespace of which not even the key is known, or
// which are not held although they are not too large; else nil.
func (s *Store[T]) withoutKeysLocked(namespace string) error {
	if sh := s.shed[namespace]; sh != nil && (sh.whole || sh.keys.more > 0) {
		return s.unheldLocked(kube.Key{Namespace: namespace})
	}
	return nil
}

// headsLocked returns the metadata of the too large objects, as far as known: of a namespace, of all where namespace
// is "".
func (s *Store[T]) headsLocked(namespace string) (out []T) {
	for of, sh := range s.shed {
		if namespace != "" && namespace != of {
			continue
		}
		for name, key := range sh.keys.byName {
			if key.head != nil && !key.bare {
				out = append(out, stub[T](kube.Key{Namespace: of, Name: name}, key))
			}
		}
	}
	return out
}

// OverBudget returns why a namespace is shed; nil: the namespace is not.
func (s *Store[T]) OverBudget(namespace string) *NotServed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.wholeLocked(namespace) {
		return nil
	}
	return s.unheldLocked(kube.Key{Namespace: namespace})
}

// Large is an object too large to be held.
type Large struct {
	Key     kube.Key
	Labels  kube.Labels
	Known   bool           // Labels are known
	Problem health.Problem // the memory taken, and the next step
}

// ListKnown is List where objects may be too large to be held: large names them. A namespace over budget makes an
// error, also where all namespaces are asked for.
func (s *Store[T]) ListKnown(namespace string) (held []T, large []Large, err error) {
	held, large, err = s.collectKnown(namespace)
	if err != nil {
		return nil, nil, s.readError("list", namespace, err)
	}
	slices.SortFunc(held, byKey[T])
	slices.SortFunc(large, func(a, b Large) int { return a.Key.Compare(b.Key) })
	return held, large, nil
}

func (s *Store[T]) collectKnown(namespace string) (held []T, large []Large, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.readableLocked(namespace); err != nil {
		return nil, nil, err
	}
	for of, sh := range s.shed {
		if namespace != "" && namespace != of {
			continue
		}
		if err := s.withoutKeysLocked(of); err != nil {
			return nil, nil, err
		}
		for name, key := range sh.keys.byName {
			k := kube.Key{Namespace: of, Name: name}
			if !key.large || key.bare {
				continue
			}
			one := Large{Key: k, Known: key.head != nil, Problem: s.tooLarge(k, key)}
			if one.Known {
				one.Labels = key.head.Labels
			}
			large = append(large, one)
		}
	}
	held = slices.Grow(held, s.objects.count(namespace))
	for obj := range s.objects.all(namespace) {
		held = append(held, obj)
	}
	return held, large, nil
}
