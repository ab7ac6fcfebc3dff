// Package store is the storage of the embedded API server, like etcd and the watch cache of a real one. It keeps
// immutable versions of objects under one global revision counter, and per table (one per resource) a log of recent
// changes, which watches read and from which older snapshots are rebuilt. It knows keys and revisions; package
// apiserver knows what objects mean, who may write them and how they are encoded.
//
// It starts no goroutine. Writers hold one lock for a whole transaction, so that every commit is linearizable and each
// log is in commit order. A watch reads the log with a cursor, and waits on a channel.
package store

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Key identifies an object in a table; Namespace is empty for cluster-scoped kinds.
type Key struct{ Namespace, Name string }

// Compare orders keys as etcd does, by NAMESPACE/NAME: a-b/x comes before a/x.
func (k Key) Compare(o Key) int {
	if k.Namespace == o.Namespace {
		return strings.Compare(k.Name, o.Name)
	}
	return strings.Compare(k.Namespace+"/", o.Namespace+"/")
}

// Errors of reads at a revision.
var (
	ErrCompacted = errors.New("the revision is no longer in the history")
	ErrFuture    = errors.New("the revision has not been reached yet")
	ErrSlow      = errors.New("the reader fell too far behind")
)

// Options of a Store.
type Options struct {
	HistoryEvents int           // changes kept per table
	HistoryBytes  int           // and what their objects take as JSON; 0 = no limit
	HistoryAge    time.Duration // changes older than this are forgotten; 0 = no limit
	SlowWatcher   int           // a cursor that once was up to date ends when it is this many changes behind
	MaxGap        int64         // revisions skipped at random between two commits, at most; 0 = none
	FirstRevision int64         // where the counter starts
	Seed          uint64        // of the random gaps
	// Unique returns, by tables, what an object has that no other of its table may have, for Tx.Taken.
	Unique map[string]func(value map[string]any) []string
}

// Store holds all tables.
type Store struct {
	opts Options

	mu       sync.Mutex // guards what follows
	revision int64
	rand     *rand.Rand
	tables   map[string]*table
	advanced chan struct{} // closed by the next commit, nil if nothing waits

	decoded decoded    // has a lock of its own
	encoded encodings  // likewise
	large   sync.Mutex // held while a large object is decoded, so that its readers do that once
}

// table is one resource. The log has the changes with revisions in (compacted, store.revision], oldest first.
type table struct {
	objects   map[Key]*Object
	order     []Key          // sorted keys of objects, nil before the first list
	taken     map[string]Key // which object has a unique text, nil before the first Tx.Taken
	log       []Event
	logBytes  int           // what the objects of the log take as JSON
	compacted int64         // changes up to this revision are dropped: no watch can start before it
	forgotten int64         // revision of the newest dropped change: a reader that has it has missed nothing
	last      int64         // revision of the last commit to this table
	changed   chan struct{} // closed by the next commit to this table, nil if nothing waits
}

// New returns an empty store.
func New(o Options) *Store {
	return &Store{
		opts: o, revision: max(o.FirstRevision, 1), tables: map[string]*table{},
		rand: rand.New(rand.NewPCG(o.Seed, 0)),
	}
}

// tableLocked returns a table, and creates it if it does not exist.
func (s *Store) tableLocked(name string) *table {
	t := s.tables[name]
	if t == nil {
		t = &table{objects: map[Key]*Object{}, compacted: s.opts.FirstRevision}
		s.tables[name] = t
	}
	return t
}

// Revision returns the revision of the last commit to any table.
func (s *Store) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Get returns an object, nil if there is none.
func (s *Store) Get(name string, k Key) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tableLocked(name).objects[k]
}

// List returns the objects of one namespace or all (""), in key order.
func (s *Store) List(name, namespace string) []*Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tableLocked(name).list(namespace)
}

// ListAndWatch is List as of revision at (0 = now), with a cursor that starts after that revision. The errors are
// ErrCompacted and ErrFuture.
func (s *Store) ListAndWatch(name, namespace string, at int64) ([]*Object, *Cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(name)
	s.trimLocked(t)
	switch {
	case at == 0:
		return t.list(namespace), &Cursor{s: s, name: name, revision: s.revision, current: true}, nil
	case at > s.revision:
		return nil, nil, ErrFuture
	case at < t.compacted:
		return nil, nil, ErrCompacted
	}
	return t.snapshot(namespace, at), &Cursor{s: s, name: name, revision: at}, nil
}

func (t *table) list(namespace string) []*Object {
	if t.order == nil {
		t.order = slices.AppendSeq(make([]Key, 0, len(t.objects)), maps.Keys(t.objects))
		slices.SortFunc(t.order, Key.Compare)
	}
	order := t.order
	if namespace != "" {
		first, _ := t.place(Key{Namespace: namespace})
		end, _ := t.place(Key{Namespace: namespace, Name: "\xff"}) // behind all names, which are UTF-8
		order = order[first:end]
	}
	out := make([]*Object, len(order))
	for i, k := range order {
		out[i] = t.objects[k]
	}
	return out
}

// place returns the place of a key in the order, and whether it is there.
func (t *table) place(k Key) (int, bool) { return slices.BinarySearchFunc(t.order, k, Key.Compare) }

// Advanced returns a channel that is closed by the next commit to any table, and the current revision.
func (s *Store) Advanced() (<-chan struct{}, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.advanced == nil {
		s.advanced = make(chan struct{})
	}
	return s.advanced, s.revision
}

// Tx reads and writes under the store's lock. Each Put and Delete commits immediately and cannot be rolled back: a
// transaction checks first and writes last.
type Tx struct{ s *Store }

// Update runs fn with exclusive access to the store.
func (s *Store) Update(fn func(tx *Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(&Tx{s: s})
}

// Get returns an object, nil if there is none.
func (tx *Tx) Get(name string, k Key) *Object { return tx.s.tableLocked(name).objects[k] }

// List returns the objects of one namespace or all (""), in key order.
func (tx *Tx) List(name, namespace string) []*Object { return tx.s.tableLocked(name).list(namespace) }

// Last returns the revision of the last commit to any of some tables: what was read from them then is still true.
func (tx *Tx) Last(names ...string) (revision int64) {
	for _, name := range names {
		if t := tx.s.tables[name]; t != nil {
			revision = max(revision, t.last)
		}
	}
	return revision
}

// Taken reports whether another object than that of k has a text that Options.Unique returned for it.
func (tx *Tx) Taken(name string, k Key, text string) bool {
	t, of := tx.s.tableLocked(name), tx.s.opts.Unique[name]
	if t.taken == nil {
		t.taken = map[string]Key{}
		for _, o := range t.objects {
			for _, has := range of(o.Value()) {
				t.taken[has] = o.Key
			}
		}
	}
	holder, ok := t.taken[text]
	return ok && holder != k
}

// Put commits a new version of an object and returns it. The store takes ownership of value and sets its
// resourceVersion. shape is kept with the version; it tells readers which schema the value was written under.
func (tx *Tx) Put(name string, k Key, value map[string]any, shape any) *Object {
	t := tx.s.tableLocked(name)
	o := tx.s.versionLocked(k, value, shape)
	prev := t.objects[k]
	t.objects[k] = o
	e := Event{Type: Modified, Object: o, Prev: prev, At: time.Now()}
	if prev == nil {
		e.Type = Added
		if at, _ := t.place(k); t.order != nil {
			t.order = slices.Insert(t.order, at, k)
		}
	}
	tx.s.commitLocked(name, t, e)
	return o
}

// Delete commits the removal of an object and returns its last state, with the revision of the removal. value is that
// state (the store takes ownership); nil means the stored one. The object must exist.
func (tx *Tx) Delete(name string, k Key, value map[string]any) *Object {
	t := tx.s.tableLocked(name)
	prev := t.objects[k]
	if value == nil {
		value = withMetadata(prev.Value())
	}
	o := tx.s.versionLocked(k, value, prev.Shape)
	delete(t.objects, k)
	if at, ok := t.place(k); ok {
		t.order = slices.Delete(t.order, at, at+1)
	}
	tx.s.commitLocked(name, t, Event{Type: Deleted, Object: o, Prev: prev, At: time.Now()})
	return o
}

func (s *Store) versionLocked(k Key, value map[string]any, shape any) *Object {
	s.revision++
	if s.opts.MaxGap > 0 {
		s.revision += s.rand.Int64N(s.opts.MaxGap + 1)
	}
	meta, _ := value["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.FormatInt(s.revision, 10)
	o := NewObject(k, s.revision, value, shape)
	o.store = s
	s.decoded.add(o)
	return o
}

func (s *Store) commitLocked(name string, t *table, e Event) {
	if t.taken != nil {
		if e.Prev != nil {
			for _, text := range s.opts.Unique[name](e.Prev.Value()) {
				if t.taken[text] == e.Prev.Key { // not if a Revert has just given it to another
					delete(t.taken, text)
				}
			}
		}
		if e.Type != Deleted {
			for _, text := range s.opts.Unique[name](e.Object.Value()) {
				t.taken[text] = e.Object.Key
			}
		}
	}
	if e.Prev != nil {
		e.Prev.value.Store(nil) // it is history now
		e.Prev.encoded.Store(nil)
	}
	t.log = append(t.log, e)
	t.last = e.Object.Revision
	t.logBytes += len(e.Object.json)
	s.trimLocked(t)
	announce(&t.changed)
	announce(&s.advanced)
}

// announce wakes those who wait on a channel, which may be nil.
func announce(c *chan struct{}) {
	if *c != nil {
		close(*c)
		*c = nil
	}
}
