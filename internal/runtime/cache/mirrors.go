package cache

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"weak"

	"skiff/internal/runtime/kube"
)

// Mirrors lets the controllers of a process share their mirrors: two that want the same objects in the same form get
// the same Store, so there is one watch and one copy. A Store belongs to those who have it, and to those who run it;
// Mirrors does not keep it alive. The clients of its users must be of one server and one user. All methods may be
// called from any goroutine.
type Mirrors struct {
	lists   *limiter
	contact contact
	memory  memory

	mu       sync.Mutex // guards stores and selected
	stores   map[mirrorKey]sharedStore
	selected []string
}

// mirrorKey is what two users of one Store have in common.
type mirrorKey struct {
	resource   kube.Resource
	namespaces string
	selected   bool
	labels     string
	fields     string
	owners     bool
	object     reflect.Type // what it is decoded into
}

// sharedStore finds a Store again as long as it is in use.
type sharedStore func() (store any, ok bool)

// NewMirrors returns a registry without mirrors. Its mirrors share initialLists.
func NewMirrors() *Mirrors {
	return &Mirrors{lists: newLimiter(initialLists), stores: map[mirrorKey]sharedStore{}}
}

// Shared returns the mirror that o describes: the one that m gave to another user, or a new one. Of two users'
// Client, Log and WatchIdleTimeout those of the first count. A nil m shares nothing.
func Shared[T kube.Object](m *Mirrors, o Options) *Store[T] {
	if m == nil {
		return New[T](o)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Selected = o.Selected && !o.Resource.ClusterScoped
	if o.Selected {
		o.Namespaces = nil // so that it is found again
	}
	k := mirrorKey{o.Resource, strings.Join(scopesOf(o), ","), o.Selected, o.LabelSelector, o.FieldSelector, o.Owners,
		reflect.TypeFor[T]()}
	if find := m.stores[k]; find != nil {
		if s, ok := find(); ok {
			return s.(*Store[T])
		}
	}
	for k, find := range m.stores {
		if _, ok := find(); !ok {
			delete(m.stores, k) // it is not in use any more
		}
	}
	o.lists, o.contact, o.memory = m.lists, &m.contact, &m.memory
	if o.Selected {
		o.Namespaces = m.selected
	}
	s := New[T](o)
	w := weak.Make(s)
	m.stores[k] = func() (any, bool) {
		s := w.Value()
		return s, s != nil
	}
	return s
}

// Select names the namespaces that the mirrors with Options.Selected have from now on. One that comes is listed and
// watched; one that goes is no longer covered, and no handler hears of that: its objects are still there. It returns
// when the watches of those that go have ended, and reports whether there is a change. A handler must not call it.
func (m *Mirrors) Select(namespaces []string) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.selected
	m.selected = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	for k, find := range m.stores {
		if s, ok := find(); ok && k.selected {
			s.(interface{ setNamespaces([]string) }).setNamespaces(m.selected)
		}
	}
	return !slices.Equal(before, m.selected)
}

// scopesOf returns the namespaces that have a Reflector each: sorted, "" for all.
func scopesOf(o Options) []string {
	namespaces := slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
	if o.Resource.ClusterScoped || len(namespaces) == 0 && !o.Selected {
		return []string{""}
	}
	return namespaces
}
