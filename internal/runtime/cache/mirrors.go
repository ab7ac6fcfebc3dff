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
// the same Store, so there is a single watch and copy. A Store belongs to those who have or run the Store; Mirrors
// does not keep a Store alive. The clients of all users must be of the same server and user. All methods may be
// called from any goroutine.
type Mirrors struct {
	lists   *limiter
	contact contact
	memory  memory

	// selecting is held while Select changes the mirrors, and is taken before mu: who holds mu waits for no handler.
	selecting sync.Mutex
	mu        sync.Mutex // guards stores and selected
	stores    map[mirrorKey]sharedStore
	selected  []string
}

// mirrorKey is the common part of two users of a Store.
type mirrorKey struct {
	resource   kube.Resource
	namespaces string
	selected   bool
	labels     string
	fields     string
	optional   bool
	object     reflect.Type // into which objects are decoded
}

// sharedStore finds a Store again as long as in use.
type sharedStore func() (store any, ok bool)

// NewMirrors returns a registry without mirrors. The mirrors share initialLists.
func NewMirrors() *Mirrors {
	return &Mirrors{lists: newLimiter(initialLists), stores: map[mirrorKey]sharedStore{}}
}

// Shared returns the mirror described by o: the mirror that m gave to another user, or a new mirror. The Client, Log
// and WatchIdleTimeout of the first user count. A nil m shares nothing.
func Shared[T kube.Object](m *Mirrors, o Options) *Store[T] {
	if m == nil {
		return New[T](o)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Selected = o.Selected && !o.Resource.ClusterScoped
	if o.Selected {
		o.Namespaces = nil // to be found again
	}
	k := mirrorKey{o.Resource, strings.Join(scopesOf(o), ","), o.Selected, o.LabelSelector, o.FieldSelector,
		o.Optional, reflect.TypeFor[T]()}
	if find := m.stores[k]; find != nil {
		if s, ok := find(); ok {
			return s.(*Store[T])
		}
	}
	for k, find := range m.stores {
		if _, ok := find(); !ok {
			delete(m.stores, k) // not in use any more
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

// Select names the namespaces of the mirrors with Options.Selected from now on. A new namespace is listed and
// watched; a namespace left out is no longer covered, and no handler hears of that: the objects are still there.
// Select returns when the watches of those left out have ended, and reports whether there is a change. A handler must
// not call Select.
func (m *Mirrors) Select(namespaces []string) (changed bool) {
	m.selecting.Lock()
	defer m.selecting.Unlock()
	after := slices.Compact(slices.Sorted(slices.Values(namespaces)))
	before, stores := m.replaceSelected(after)
	for _, s := range stores {
		s.setNamespaces(after)
	}
	return !slices.Equal(before, after)
}

// selectable is a Store with Options.Selected.
type selectable interface{ setNamespaces(names []string) }

// replaceSelected has new mirrors begin with the namespaces after. The results are those before, and the mirrors that
// began with others.
func (m *Mirrors) replaceSelected(after []string) (before []string, stores []selectable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.selected = m.selected, after
	for k, find := range m.stores {
		if s, ok := find(); ok && k.selected {
			stores = append(stores, s.(selectable))
		}
	}
	return before, stores
}

// scopesOf returns the namespaces with a Reflector each: sorted, "" for all.
func scopesOf(o Options) []string {
	namespaces := slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
	if o.Resource.ClusterScoped || len(namespaces) == 0 && !o.Selected {
		return []string{""}
	}
	return namespaces
}
