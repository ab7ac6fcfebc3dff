package cache

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// scope is what a Store knows of one Reflector's part: one namespace, or all of them. Store.mu guards it, but
// for namespace, which does not change, and end.
type scope struct {
	namespace string // "" covers all
	end       func() // stops the Reflector and waits for it; Store.life guards it

	// writing is held while the content of the scope changes and the handlers are told of it, by its Reflector or by
	// what sheds a namespace: so that the changes of one object come in order. It is taken before telling.
	writing sync.Mutex

	synced    bool      // listed and told since the mirror was started
	rv        string    // the content is that of the collection at rv
	rewound   time.Time // when the content was last replaced by that of another history, zero if never
	lastEvent time.Time
	contact   time.Time // when the server was last heard of
	bookmark  time.Time // when the last bookmark came
	opened    time.Time // when the last watch was opened
	refused   time.Time // when the server last answered a request with an error, or a list was too large
	phase     phase
	parked    bool      // err is a missing right or resource that did not come back by itself
	away      bool      // it was parked, and no request has succeeded since
	err       error     // why the last request failed, nil after one that succeeded
	errSince  time.Time // since when all requests have failed
	counters  Counters
	listing   bool // a list is under way
}

func newScope(namespace string) *scope {
	return &scope{namespace: namespace, phase: stopped, counters: newCounters()}
}

func (sc *scope) covers(namespace string) bool {
	return sc.namespace == "" || sc.namespace == namespace
}

// ScopeState describes how one part of a mirror is doing, for readiness, logs and metrics.
type ScopeState struct {
	Namespace       string // "": all
	Phase           string // "streaming", "backing off" ...
	Synced          bool
	Parked          bool   // a right or the resource is missing (403, 404): it is asked for every 5 to 10 s
	ResourceVersion string // the content is that of the collection at this version
	Objects         int
	Quarantined     int       // objects whose newest version does not decode
	LastEvent       time.Time // of the last list, event or bookmark
	LastContact     time.Time // of the last of these, or of an answer that a watch is open
	LastBookmark    time.Time
	Opened          time.Time // when the last watch was opened
	LastAnswer      time.Time // the later one of LastContact and of an answer of the server that was an error
	Err             error     // why the last request failed, nil after one that succeeded
	ErrSince        time.Time // since when all requests have failed, zero after one that succeeded
	Problem         string    // Err as text with its HTTP code: "403 Forbidden: watch pods: ..."
	Counters        Counters
}

// Counters count since the start.
type Counters struct {
	Lists      map[string]int // full lists by reason: "initial", "expired", "rewound" ...
	Reconnects map[string]int // ends of a watch by reason: "ended", "short", "idle", "broken" ...

	Outdated    int // events dropped because the mirror was already at or past them
	Misplaced   int // objects dropped because they are not of this scope
	UnknownType int // events of a type that skiff does not know
	Undecodable int // objects and events that did not decode
	Rewinds     int // times the server's history went back
	MassDeletes int // lists that removed most of a mirror
	Parked      int // times that a right or the resource went missing
	Panics      int // of OnChange handlers
	Crashes     int // panics of the Reflector itself
	IndexPanics int // of index functions
}

func newCounters() Counters {
	return Counters{Lists: map[string]int{}, Reconnects: map[string]int{}}
}

// State returns how each scope is doing, sorted by namespace.
func (s *Store[T]) State() []ScopeState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]ScopeState, 0, len(s.scopes))
	for _, sc := range s.scopes {
		st := ScopeState{
			Namespace:       sc.namespace,
			Phase:           string(sc.phase),
			Synced:          sc.synced,
			Parked:          sc.parked,
			ResourceVersion: sc.rv,
			Objects:         s.objects.count(sc.namespace),
			LastEvent:       sc.lastEvent,
			LastContact:     sc.contact,
			LastBookmark:    sc.bookmark,
			Opened:          sc.opened,
			LastAnswer:      later(sc.contact, sc.refused),
			Err:             sc.err,
			ErrSince:        sc.errSince,
			Problem:         problem(sc.err),
			Counters:        sc.counters,
		}
		st.Counters.Lists = maps.Clone(sc.counters.Lists)
		st.Counters.Reconnects = maps.Clone(sc.counters.Reconnects)
		for k := range s.bad {
			if sc.covers(k.Namespace) {
				st.Quarantined++
			}
		}
		out = append(out, st)
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// count changes the counters of a scope.
func (s *Store[T]) count(sc *scope, f func(*Counters)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&sc.counters)
}

// Serves reports whether all that is asked of a namespace can be answered and is followed: it is synced, and not
// parked, nor was it when a request succeeded last. "" stands for all namespaces that the mirror covers; what it does
// not cover it does not serve.
func (s *Store[T]) Serves(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	covered := false
	for _, sc := range s.scopes {
		if namespace == "" || sc.covers(namespace) {
			covered = true
			if !sc.synced || sc.away {
				return false
			}
		}
	}
	return covered
}

// OnServes adds a function that is called whenever the answer of Serves may have changed, and when the server answers
// again after requests have failed. It must be quick and must not block. remove takes it away; a call that is under
// way may still end after it.
func (s *Store[T]) OnServes(f func()) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onServes = append(slices.Clip(s.onServes), &f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.onServes = slices.DeleteFunc(slices.Clone(s.onServes), func(other *func()) bool { return other == &f })
	}
}

// tellServes calls the functions of OnServes.
func (s *Store[T]) tellServes() {
	s.mu.RLock()
	all := s.onServes // replaced on each change, never changed
	s.mu.RUnlock()
	for _, f := range all {
		(*f)()
	}
}

// setSynced opens the scope for readers.
func (s *Store[T]) setSynced(sc *scope) {
	s.mu.Lock()
	first := !sc.synced
	if first {
		sc.synced = true
		s.unsynced--
	}
	if first && s.unsynced == 0 {
		close(s.synced)
	}
	s.mu.Unlock()
	if first {
		s.tellServes()
	}
}

// unsync closes all scopes for readers.
func (s *Store[T]) unsync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsynced == 0 && len(s.scopes) > 0 {
		s.synced = make(chan struct{})
	}
	s.unsynced = len(s.scopes)
	for _, sc := range s.scopes {
		sc.synced = false
	}
}

// Bytes returns the memory that the objects take, about.
func (s *Store[T]) Bytes() int64 { return s.account.size() }

// usesLocked notes that an object was added to the content (times 1), or taken away (times -1).
func (s *Store[T]) usesLocked(obj T, bare bool, times int64) {
	if size, namespace := times*sizeOf(obj), obj.ObjectMeta().Namespace; bare {
		s.account.add(namespace, 0, 0, size)
	} else {
		s.account.add(namespace, size, 0, 0)
	}
}

// reached returns the resource version that the scope's content is at: "" before the first list.
func (s *Store[T]) reached(sc *scope) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return sc.rv
}
