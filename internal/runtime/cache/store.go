package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// Resource returns the resource of the mirror.
func (s *Store[T]) Resource() kube.Resource { return s.o.Resource }

// Labels returns the label selector of the mirror, "" for all.
func (s *Store[T]) Labels() string { return s.o.LabelSelector }

// Run keeps the mirror up to date until ctx ends. Several users may run a Store at the same time: the first user
// starts the Reflectors, the last to leave stops the Reflectors and waits for their goroutines. A stopped mirror is
// not synced, because the content may be old. After the next Run, handlers hear of the changes meanwhile.
func (s *Store[T]) Run(ctx context.Context) {
	s.join(ctx)
	<-ctx.Done()
	s.leave()
}

// join starts the Reflectors for the first user.
func (s *Store[T]) join(ctx context.Context) {
	s.runMu.Lock()
	defer s.runMu.Unlock()
	s.users++
	if s.users > 1 {
		return
	}
	// The Reflectors outlive the first user where another user joins.
	s.account.count(true)
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.start = func(sc *scope) { s.reflect(ctx, sc) }
	for _, sc := range s.scopes {
		s.start(sc)
	}
	s.reflectors.Go(func() { s.readmit(ctx) })
}

// reflect runs the Reflector of a scope until ctx ends, or sc.end is called.
func (s *Store[T]) reflect(ctx context.Context, sc *scope) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	sc.end = func() {
		stop()
		<-ended
	}
	s.reflectors.Go(func() {
		defer close(ended)
		defer stop()
		newReflector(s, sc).run(ctx)
	})
}

// leave stops the Reflectors after the last user.
func (s *Store[T]) leave() {
	s.runMu.Lock()
	defer s.runMu.Unlock()
	s.users--
	if s.users == 0 {
		s.stop()
		s.reflectors.Wait()
		s.start = nil
		s.account.count(false)
		for _, sc := range s.scopes {
			s.setSynced(sc, false)
		}
	}
}

// query is the list and watch of the Reflector of a namespace, "" for all.
func (s *Store[T]) query(namespace string) kube.Query {
	return kube.Query{
		Resource:      s.o.Resource,
		Namespace:     namespace,
		LabelSelector: s.o.LabelSelector,
		FieldSelector: s.o.FieldSelector,
		Selects:       s.selects,
	}
}

// Namespaces returns the namespaces with a watch each, sorted; none if a single watch covers all.
func (s *Store[T]) Namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for _, sc := range s.scopes {
		if sc.Namespace != "" {
			out = append(out, sc.Namespace)
		}
	}
	return out
}

// Selected reports whether the namespaces come and go.
func (s *Store[T]) Selected() bool { return s.o.Selected }

// setNamespaces makes names, which are sorted, the scopes.
func (s *Store[T]) setNamespaces(names []string) {
	s.runMu.Lock()
	defer s.runMu.Unlock()
	if slices.Equal(s.Namespaces(), names) {
		return
	}
	var gone []string
	for _, sc := range s.scopes {
		if slices.Contains(names, sc.Namespace) {
			continue
		}
		gone = append(gone, sc.Namespace)
		if s.start != nil {
			sc.end() // from here on nothing is written to the scope
		}
	}
	added := s.replaceScopes(names, gone)
	if s.start != nil {
		for _, sc := range added {
			s.start(sc)
		}
	}
	s.notifyServes()
}

// replaceScopes drops the gone scopes with all their content, and returns the new scopes.
func (s *Store[T]) replaceScopes(names, gone []string) (added []*scope) {
	s.handlersMu.Lock() // OnChange finds a scope for each object
	defer s.handlersMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	none := newContent[T]()
	for _, namespace := range gone {
		s.replaceLocked(namespace, &none, false) // no handler hears of the changes: the objects still exist
		s.account.unlist(namespace)
		s.account.try(namespace, false)
		delete(s.shed, namespace)
	}
	var scopes []*scope
	for _, name := range names {
		sc := s.scopeLocked(name)
		if sc == nil {
			sc = newScope(name)
			added = append(added, sc)
		}
		scopes = append(scopes, sc)
	}
	s.scopes = scopes
	return added
}

// scopeCount returns how many scopes there are.
func (s *Store[T]) scopeCount() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.scopes)
}

// State returns how each scope is doing, sorted by namespace.
func (s *Store[T]) State() []ScopeState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]ScopeState, 0, len(s.scopes))
	for _, sc := range s.scopes {
		st := sc.ScopeState
		st.Objects, st.Problem, st.LastAnswer = s.objects.count(sc.Namespace), problem(sc.Err), sc.LastContact
		if sc.refused.After(st.LastAnswer) {
			st.LastAnswer = sc.refused
		}
		st.Counters.Lists = maps.Clone(sc.Counters.Lists)
		st.Counters.Reconnects = maps.Clone(sc.Counters.Reconnects)
		for k := range s.bad {
			if sc.covers(k.Namespace) {
				st.Quarantined++
			}
		}
		out = append(out, st)
	}
	return out
}

// count changes the counters of a scope.
func (s *Store[T]) count(sc *scope, f func(*Counters)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&sc.Counters)
}

// Serves reports whether all reads of a namespace can be answered and are followed: the scope is synced, and was not
// parked since a request last succeeded. "" stands for all namespaces of the mirror; a namespace outside is not
// served.
func (s *Store[T]) Serves(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	covered := false
	for _, sc := range s.scopes {
		if namespace == "" || sc.covers(namespace) {
			covered = true
			if !sc.Synced || sc.away {
				return false
			}
		}
	}
	return covered
}

// setSynced opens or closes a scope for readers.
func (s *Store[T]) setSynced(sc *scope, synced bool) {
	s.mu.Lock()
	changed := sc.Synced != synced
	sc.Synced = synced
	s.mu.Unlock()
	if changed {
		s.notifyServes()
	}
}

// Index declares an index: f names the values under which ByIndex finds an object. Index can be called at any time; a
// name already taken stays as before, so that all who share a mirror can each declare their needs.
//
// f must be pure, because the values of an object are asked for once more at the object's end. An object on which f
// panics is left out of the index. Each panic is counted, the first is logged, and all else goes on.
func (s *Store[T]) Index(name string, f func(obj T) []string) {
	s.addIndex(newIndex(name, func(obj T, into []string) []string { return append(into, f(obj)...) }))
}

// IndexMeta is Index for values that depend on labels and owner references alone. Most changes of an object leave
// both as they are; then f is not called, and nothing of the index is touched.
func (s *Store[T]) IndexMeta(name string, f func(labels kube.Labels, owners []kube.OwnerReference) []string) {
	ix := newIndex(name, func(obj T, into []string) []string {
		m := obj.ObjectMeta()
		return append(into, f(m.Labels, m.OwnerReferences)...)
	})
	ix.meta = true
	s.addIndex(ix)
}

func (s *Store[T]) addIndex(ix *index[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexLocked(ix.name) != nil {
		return
	}
	for e := range s.objects.entries("") {
		s.addLocked(ix, e)
	}
	s.indexes = append(s.indexes, ix)
}

func (s *Store[T]) indexLocked(name string) *index[T] {
	for _, ix := range s.indexes {
		if ix.name == name {
			return ix
		}
	}
	return nil
}

// OnChange adds a handler that hears of every change. Objects already there come at once, as Appeared or Shed, and
// Initial, before OnChange returns. remove takes the handler away: there is no call after remove has returned.
//
// Changes of an object come in order, after the Store shows them. The handler runs on the goroutine that reads the
// stream, so it must be quick and must not block: a handler is meant to put a key into a queue. With several
// namespaces, several goroutines call the handler. A handler must not call OnChange or remove.
func (s *Store[T]) OnChange(f func(Change[T])) (remove func()) {
	s.handlersMu.Lock()
	defer s.handlersMu.Unlock()
	h := &f
	s.handlers = append(s.handlers, h)
	for _, c := range s.present() {
		s.mu.RLock()
		sc := s.scopeLocked(c.Object().ObjectMeta().Namespace) // does not go while handlersMu is held
		s.mu.RUnlock()
		s.call(sc, f, c)
	}
	return func() {
		s.handlersMu.Lock()
		defer s.handlersMu.Unlock()
		s.handlers = slices.DeleteFunc(s.handlers, func(other *func(Change[T])) bool { return other == h })
	}
}

// present returns the changes from which all known objects follow, in key order, synced or not.
func (s *Store[T]) present() (all []Change[T]) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for obj := range s.objects.all("") {
		all = append(all, Change[T]{Type: Appeared, New: obj, Initial: true})
	}
	for namespace, sh := range s.shed {
		for name, key := range sh.keys.byName {
			old := stub[T](kube.Key{Namespace: namespace, Name: name}, key)
			all = append(all, Change[T]{Type: Shed, Old: old, Initial: true})
		}
	}
	slices.SortFunc(all, func(a, b Change[T]) int { return byKey(a.Object(), b.Object()) })
	return all
}

// OnServes adds a function called whenever the answer of Serves may have changed, and when the server answers again
// after failed requests. The function must be quick and must not block. remove takes the function away; a call under
// way may still end later.
func (s *Store[T]) OnServes(f func()) (remove func()) { return s.onServes.add(&s.mu, f) }

// OnReturn adds a function called when the objects of a shed namespace are held again. The function must be quick and
// must not block. remove takes the function away; a call under way may still end later.
func (s *Store[T]) OnReturn(f func(namespace string)) (remove func()) {
	return s.onReturn.add(&s.mu, f)
}

// Answered notes the result of a user's request: one line of the log, for all of a process, tells of a missing or
// refused credential.
func (s *Store[T]) Answered(err error) {
	if err == nil || kube.IsUnauthorized(err) || errors.As(err, new(*kube.CredentialError)) {
		s.o.contact.answered(&s.o, err)
	}
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

// ByIndex returns the objects with a value in an index, in key order: of a namespace, or of the whole mirror where
// namespace is "". The error is a NotServed or ErrNoIndex. Beside an error for lack of memory come the objects held.
func (s *Store[T]) ByIndex(name, namespace, value string) ([]T, error) {
	out, err := s.lookUp(name, namespace, value)
	if err != nil {
		what := fmt.Sprintf("by %s %q", name, value)
		if namespace != "" {
			what += " in " + namespace
		}
		err = s.readError("list", what, err)
	}
	return out, err
}

func (s *Store[T]) lookUp(name, namespace, value string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(name, namespace, value)
	if err == nil {
		err = s.withheldLocked(name, namespace, value)
	}
	if len(set) == 0 {
		return nil, err
	}
	out := make([]T, len(set))
	for i, e := range set {
		if i < verifiedInARead {
			s.check.verify(e.obj)
		}
		out[i] = e.obj
	}
	return out, err
}

// indexedLocked returns the part of an index for ByIndex, good while s.mu is held.
func (s *Store[T]) indexedLocked(name, namespace, value string) ([]*entry[T], error) {
	if err := s.readableLocked(namespace); err != nil {
		return nil, err
	}
	ix := s.indexLocked(name)
	if ix == nil {
		return nil, ErrNoIndex
	}
	set := ix.sets[value]
	if namespace != "" {
		from, _ := find(set, kube.Key{Namespace: namespace})
		to, _ := find(set, kube.Key{Namespace: namespace + "\x00"}) // the least string above it
		set = set[from:to]
	}
	return set, nil
}

// withheldLocked returns an error where objects not held may have a value in an index. An index over the whole mirror
// leaves out shed objects, but for the single index of owners of all namespaces.
func (s *Store[T]) withheldLocked(name, namespace, value string) error {
	var e *NotServed
	switch {
	case len(s.shed) == 0:
	case name == ownerIndex:
		e = s.ownsShedLocked(namespace, value)
	case namespace != "" || s.o.Resource.ClusterScoped:
		e = s.unheldLocked(kube.Key{Namespace: namespace})
	}
	if e == nil {
		return nil
	}
	return e
}

// ByOwner returns the objects with an owner reference to uid, in key order: of a namespace, or of the whole mirror
// where namespace is "", for a cluster-scoped owner. The error is a NotServed.
func (s *Store[T]) ByOwner(namespace, uid string) ([]T, error) {
	return s.ByIndex(ownerIndex, namespace, uid)
}

// CountByOwner returns how many objects ByOwner would return.
func (s *Store[T]) CountByOwner(namespace, uid string) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(ownerIndex, namespace, uid)
	if err == nil {
		err = s.withheldLocked(ownerIndex, namespace, uid)
	}
	if err != nil {
		return 0, s.readError("count", fmt.Sprintf("by %s %q", ownerIndex, uid), err)
	}
	return len(set), nil
}

// readableLocked returns nil when a namespace is synced; where namespace is "", the whole mirror.
func (s *Store[T]) readableLocked(namespace string) error {
	if namespace != "" && s.scopeLocked(namespace) == nil {
		return s.outOfScope(kube.Key{Namespace: namespace})
	}
	for _, sc := range s.scopes {
		if !sc.Synced && (namespace == "" || sc.covers(namespace)) {
			return s.notSyncedLocked(sc)
		}
	}
	return nil
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
			if !key.large {
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

// Head returns the metadata of a too large object; false: the object is not too large, or the metadata is not known.
func (s *Store[T]) Head(k kube.Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var none T
	if sh := s.shed[k.Namespace]; sh != nil {
		if key := sh.keys.byName[k.Name]; key.head != nil {
			return stub[T](k, key), true
		}
	}
	return none, false
}

// KnownByIndex is ByIndex for an index of IndexMeta, also of objects not held: the result has the metadata, if known.
// Beside an error for lack of memory come the known objects.
func (s *Store[T]) KnownByIndex(name, namespace, value string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(name, namespace, value)
	if err == nil && (namespace != "" || s.o.Resource.ClusterScoped) {
		err = s.withoutKeysLocked(namespace)
	}
	if err != nil && Unheld(err) == nil {
		return nil, s.readError("list", fmt.Sprintf("by %s %q in %s", name, value, namespace), err)
	}
	out := make([]T, 0, len(set))
	for _, e := range set {
		out = append(out, e.obj)
	}
	ix := s.indexLocked(name)
	for of, sh := range s.shed {
		if !covers(namespace, of) {
			continue
		}
		for name, key := range sh.keys.byName {
			if key.head == nil && ix.name != ownerIndex { // a controller is known of each
				continue
			}
			obj := stub[T](kube.Key{Namespace: of, Name: name}, key)
			if slices.Contains(ix.f(obj, nil), value) {
				out = append(out, obj)
			}
		}
	}
	slices.SortFunc(out, byKey[T])
	if err != nil {
		err = s.readError("list", fmt.Sprintf("by %s %q in %s", name, value, namespace), err)
	}
	return out, err
}

// KnownByOwner is ByOwner, also of objects not held.
func (s *Store[T]) KnownByOwner(namespace, uid string) ([]T, error) {
	return s.KnownByIndex(ownerIndex, namespace, uid)
}

// withoutKeysLocked returns an error where there are objects of a namespace of which not even the key is known, or
// which are not held although they are not too large; else nil.
func (s *Store[T]) withoutKeysLocked(namespace string) error {
	if sh := s.shed[namespace]; sh != nil && (sh.whole || sh.keys.more > 0) {
		return s.unheldLocked(kube.Key{Namespace: namespace})
	}
	return nil
}

// Keys returns the keys of all known objects of a namespace, held or not, of the whole mirror where namespace is "",
// in no order.
func (s *Store[T]) Keys(namespace string) []kube.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []kube.Key
	for e := range s.objects.entries(namespace) {
		out = append(out, e.key())
	}
	for of, sh := range s.shed {
		for name := range sh.keys.byName {
			if namespace == "" || namespace == of {
				out = append(out, kube.Key{Namespace: of, Name: name})
			}
		}
	}
	return out
}

// lookup is Get for the Reflector, which also looks before the scope is synced.
func (s *Store[T]) lookup(k kube.Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.get(k)
}

// Size returns the memory that a run for an object takes of the object, about: an object being deleted is read from
// the server where the mirror does not hold it. 0: there is none to work on.
func (s *Store[T]) Size(k kube.Key) int64 {
	switch f := s.look(k); {
	case f.held:
		return sizeOf(f.obj)
	case f.key.deleting:
		return f.key.size
	}
	return 0
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
