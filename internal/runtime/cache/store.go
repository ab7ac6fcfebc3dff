package cache

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Store is the read side of a mirror.
//
// All readers share the objects and must not change any; returned slices are the caller's. Under the race detector
// each object is fingerprinted on entry and checked whenever returned or replaced, so that a test which changes a
// cached object panics.
type Store[T kube.Object] struct {
	o    Options
	only string // the only name admitted by the field selector, "" for any
	// selects says whether the label selector admits an object with some labels; nil: any
	selects func(kube.Labels) bool

	runMu      sync.Mutex         // guards users, start and stop; taken before handlersMu and mu
	users      int                // calls of Run under way
	start      func(*scope)       // runs a Reflector; nil while none runs
	stop       context.CancelFunc // all Reflectors
	reflectors sync.WaitGroup

	// handlersMu guards handlers, and is taken before mu. A Reflector holds handlersMu for reading while the content
	// changes and the handlers are notified: with handlersMu held for writing, the handlers have heard of all
	// changes.
	handlersMu sync.RWMutex
	handlers   []*func(Change[T]) // of OnChange

	mu       sync.RWMutex // guards all below, and the fields of the scopes
	scopes   []*scope     // sorted by namespace; also with runMu held the slice may be read
	objects  table[T]
	account  *account                          // memory of the objects, about
	shed     map[string]*shed[T]               // by namespace: the objects not held
	sheds    int                               // how often a namespace was shed
	onServes listeners[func()]                 // see OnServes
	onReturn listeners[func(namespace string)] // see OnReturn
	shedNews chan struct{}                     // has an element when a namespace was shed
	indexes  []*index[T]                       // by owner first, then those of Index
	bad      map[kube.Key]*kube.DecodeError    // quarantine: objects whose newest version does not decode
	check    mutationCheck
}

// Get returns an object. The error is a NotServed; false without an error means that the object does not exist, or is
// left out by a selector.
func (s *Store[T]) Get(k kube.Key) (T, bool, error) {
	var none T
	s.mu.RLock()
	defer s.mu.RUnlock()
	sc := s.scopeLocked(k.Namespace)
	if sc == nil || s.only != "" && s.only != k.Name {
		return none, false, s.readError("get", k.String(), s.outOfScope(k))
	}
	if !sc.Synced {
		return none, false, s.readError("get", k.String(), s.notSyncedLocked(sc))
	}
	obj, ok := s.objects.get(k)
	if ok {
		s.check.verify(obj)
		return obj, true, nil
	}
	if e := s.unheldLocked(k); e != nil {
		return none, false, s.readError("get", k.String(), e)
	}
	if bad := s.bad[k]; bad != nil {
		return none, false, s.readError("get", k.String(),
			s.notServed(Undecodable, k, "the object does not decode", bad.Err))
	}
	return none, false, nil
}

// List returns all objects of a namespace, or of the whole mirror where namespace is "", in key order: the content at
// a single moment. The error is a NotServed; for lack of memory only where a namespace is asked for, or the resource
// is cluster-scoped. An object that has never decoded is missing, and a shed object from the list of all namespaces;
// State counts both, Quarantined and Sheds name both.
func (s *Store[T]) List(namespace string) ([]T, error) {
	out, err := s.collect(namespace)
	if namespace != "" && Unserved(err, OutOfScope, OverBudget, TooLarge) != nil {
		return nil, s.readError("list", "in "+namespace, err)
	} else if err != nil {
		return nil, s.readError("list", "", err)
	}
	slices.SortFunc(out, byKey[T]) // outside the lock: the objects do not change
	return out, nil
}

func byKey[T kube.Object](a, b T) int { return a.ObjectMeta().Key().Compare(b.ObjectMeta().Key()) }

// verifiedInARead is how many objects of a list are given to the mutationCheck. Where each reconcile lists hundreds,
// a check of all took nine tenths of a test.
const verifiedInARead = 8

func (s *Store[T]) collect(namespace string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.readableLocked(namespace); err != nil {
		return nil, err
	}
	if namespace != "" || s.o.Resource.ClusterScoped {
		if e := s.unheldLocked(kube.Key{Namespace: namespace}); e != nil {
			return nil, e
		}
	}
	out := make([]T, 0, s.objects.count(namespace))
	for obj := range s.objects.all(namespace) {
		if len(out) < verifiedInARead {
			s.check.verify(obj)
		}
		out = append(out, obj)
	}
	return out, nil
}

// Swap puts lighter in the place of old, if the mirror still holds old: the same version of the same object, without
// the parts no reader needs any more. The result says whether old was replaced. No handler is notified, and the next
// event brings a whole object again.
func (s *Store[T]) Swap(old, lighter T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := old.ObjectMeta().Key()
	f := s.formLocked(k)
	if !f.held || f.bare() || any(f.obj) != any(old) || !sameVersion(old, lighter) {
		return false
	}
	s.exchangeLocked(s.objects.entry(k), lighter, false, false)
	return true
}

// lookup is Get for the Reflector, which also looks before the scope is synced.
func (s *Store[T]) lookup(k kube.Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.get(k)
}

// Size returns the memory of an object, about; 0 where there is none.
func (s *Store[T]) Size(k kube.Key) int64 {
	obj, ok := s.lookup(k)
	if !ok {
		return 0
	}
	return sizeOf(obj)
}

// Bytes returns the memory of the objects, about.
func (s *Store[T]) Bytes() int64 { return s.account.size() }

// Reached reports whether the mirror of a namespace shows the state at resource version rv or later, by an event, a
// bookmark or a list. A writer waits so for a write of its own, answered at the time written, to come back. Resource
// versions that cannot be compared (KEP-5504) are reached only when equal, so a caller needs a limit on the wait. A
// write from before the mirror noticed a rewound history of the server (an etcd restore) counts as reached: the write
// may be lost, and the version is given out once more.
func (s *Store[T]) Reached(namespace, rv string, written time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sc := s.scopeLocked(namespace)
	if sc == nil {
		return false
	}
	return notOlder(sc.ResourceVersion, rv) || written.Before(sc.rewound)
}

func notOlder(a, b string) bool {
	order, comparable := kube.CompareRV(a, b)
	return comparable && order >= 0
}

func older(a, b string) bool {
	order, comparable := kube.CompareRV(a, b)
	return comparable && order < 0
}

// Quarantined returns the objects whose newest version does not decode, in key order. Readers still get the last good
// copy, where there was any.
func (s *Store[T]) Quarantined() []kube.DecodeError {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]kube.DecodeError, 0, len(s.bad))
	for _, bad := range s.bad {
		out = append(out, *bad)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key.Compare(out[j].Key) < 0 })
	return out
}

// scopeLocked returns the scope of a namespace, or nil.
func (s *Store[T]) scopeLocked(namespace string) *scope {
	if len(s.scopes) > 0 && s.scopes[0].Namespace == "" {
		return s.scopes[0] // the only scope
	}
	i, found := slices.BinarySearchFunc(s.scopes, namespace, func(sc *scope, namespace string) int {
		return strings.Compare(sc.Namespace, namespace)
	})
	if !found {
		return nil
	}
	return s.scopes[i]
}

// notServed is the answer to a read for a reason, with the cause.
func (s *Store[T]) notServed(reason string, k kube.Key, why string, cause error) *NotServed {
	return &NotServed{Problem: health.Problem{Reason: reason, Public: why}, Resource: s.o.Resource, Key: k,
		cause: cause}
}

// outOfScope is the answer to a read outside the options of the mirror.
func (s *Store[T]) outOfScope(k kube.Key) error {
	return s.notServed(OutOfScope, k, "outside what the cache mirrors", nil)
}

// notSyncedLocked is the answer to a read of a scope before the first list is complete.
func (s *Store[T]) notSyncedLocked(sc *scope) error {
	return s.notServed(NotSynced, kube.Key{Namespace: sc.Namespace}, "the cache is not synced", sc.Err)
}

func (s *Store[T]) readError(verb, what string, err error) error {
	if what != "" {
		what = " " + what
	}
	return fmt.Errorf("%s %s%s from the cache: %w", verb, s.o.Resource, what, err)
}

// onlyName returns the name demanded by a field selector, or "". A read of any other name is out of scope.
func onlyName(fieldSelector string) string {
	for part := range strings.SplitSeq(fieldSelector, ",") {
		if v, ok := strings.CutPrefix(part, "metadata.name="); ok {
			return strings.TrimPrefix(v, "=") // "==" means the same
		}
	}
	return ""
}
