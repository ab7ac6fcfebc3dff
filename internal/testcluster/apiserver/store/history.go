package store

import (
	"maps"
	"slices"
	"sort"
	"time"
)

// EventType says how an object changed.
type EventType string

// The kinds of change.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
)

// Event is one committed change. Prev is the previous version, nil for Added. The Object of a Deleted event is the
// last state with the revision of the removal.
type Event struct {
	Type         EventType
	Object, Prev *Object
	At           time.Time // when it was committed
}

// minHistory is how many changes are kept however large they are: a watch that is only a little behind can continue.
const minHistory = 100

// trimLocked drops the changes outside of the history window.
func (s *Store) trimLocked(t *table) {
	drop := max(0, len(t.log)-s.opts.HistoryEvents)
	if s.opts.HistoryAge > 0 {
		oldest := time.Now().Add(-s.opts.HistoryAge)
		for drop < len(t.log) && t.log[drop].At.Before(oldest) {
			drop++
		}
	}
	if limit := s.opts.HistoryBytes; limit > 0 {
		bytes := t.logBytes
		for i := range t.log[:drop] {
			bytes -= len(t.log[i].Object.json)
		}
		for ; bytes > limit && drop < len(t.log)-minHistory; drop++ {
			bytes -= len(t.log[drop].Object.json)
		}
	}
	t.forget(drop)
}

// forget drops the n oldest changes. It clears the entries, because the array of the slice stays in memory.
func (t *table) forget(n int) {
	if n == 0 {
		return
	}
	t.forgotten = t.log[n-1].Object.Revision
	t.compacted = t.forgotten
	for _, e := range t.log[:n] {
		t.logBytes -= len(e.Object.json)
	}
	clear(t.log[:n])
	t.log = t.log[n:]
}

// snapshot returns an older state: the current one, with the changes since that revision undone, newest first.
func (t *table) snapshot(namespace string, at int64) []*Object {
	past := maps.Clone(t.objects)
	for i := len(t.log) - 1; i >= 0 && t.log[i].Object.Revision > at; i-- {
		e := t.log[i]
		if e.Prev == nil {
			delete(past, e.Object.Key)
		} else {
			past[e.Object.Key] = e.Prev
		}
	}
	old := &table{objects: past}
	return old.list(namespace)
}

// Compact drops all history: older revisions get ErrCompacted. Watches that are up to date continue.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.forget(len(t.log))
		t.compacted = s.revision
	}
	s.encoded.forget()
}

// RevisionAt returns the revision of the last commit up to some time in the past, as far as the history reaches back.
func (s *Store) RevisionAt(then time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := s.opts.FirstRevision
	for _, t := range s.tables {
		after := sort.Search(len(t.log), func(i int) bool { return t.log[i].At.After(then) })
		if after > 0 {
			revision = max(revision, t.log[after-1].Object.Revision)
		} else {
			revision = max(revision, t.forgotten)
		}
	}
	return revision
}

// Cursor reads the changes of one table in commit order. Only one goroutine may use it.
type Cursor struct {
	s        *Store
	name     string
	revision int64 // revision of the last returned change
	current  bool  // it has been up to date
}

// Watch returns a cursor that starts after revision from. The error is ErrCompacted, with the oldest revision that a
// cursor can start from. As on the real server, a revision in the future is accepted: the cursor returns nothing until
// the counter passes it.
func (s *Store) Watch(name string, from int64) (*Cursor, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(name)
	s.trimLocked(t)
	if from < t.compacted {
		return nil, t.compacted, ErrCompacted
	}
	return &Cursor{s: s, name: name, revision: from}, 0, nil
}

// Revision returns the revision up to which all changes were returned.
func (c *Cursor) Revision() int64 { return c.revision }

// Next returns up to limit further changes, and the revision up to which the reader is now complete. If there are none
// it returns a channel that is closed by the next change. The error is ErrSlow.
func (c *Cursor) Next(limit int) (events []Event, revision int64, wait <-chan struct{}, err error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	t := c.s.tableLocked(c.name)
	if c.revision < t.forgotten {
		return nil, 0, nil, ErrSlow
	}
	first := sort.Search(len(t.log), func(i int) bool { return t.log[i].Object.Revision > c.revision })
	pending := t.log[first:]
	if c.current && c.s.opts.SlowWatcher > 0 && len(pending) > c.s.opts.SlowWatcher {
		return nil, 0, nil, ErrSlow
	}
	if len(pending) == 0 {
		c.current = true
		c.revision = max(c.revision, c.s.revision)
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		return nil, c.revision, t.changed, nil
	}
	if len(pending) > limit {
		pending = pending[:limit]
	}
	// A copy, because dropped entries of the log are cleared.
	events = append(events, pending...)
	c.revision = events[len(events)-1].Object.Revision
	return events, c.revision, nil, nil
}

// Snapshot is the content of a store at one moment.
type Snapshot struct {
	revision int64
	tables   map[string]map[Key]*Object
}

// Snapshot returns the current content.
func (s *Store) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Snapshot{revision: s.revision, tables: map[string]map[Key]*Object{}}
	for name, t := range s.tables {
		out.tables[name] = maps.Clone(t.objects) // objects are immutable
	}
	return out
}

// NewSnapshot returns an empty snapshot, for Add and then Restore.
func NewSnapshot(revision int64) *Snapshot {
	return &Snapshot{revision: revision, tables: map[string]map[Key]*Object{}}
}

// Add adds an object, and reports whether its key was free.
func (sn *Snapshot) Add(table string, o *Object) bool {
	if sn.tables[table] == nil {
		sn.tables[table] = map[Key]*Object{}
	}
	if sn.tables[table][o.Key] != nil {
		return false
	}
	sn.tables[table][o.Key] = o
	return true
}

// Revision returns the revision of the moment.
func (sn *Snapshot) Revision() int64 { return sn.revision }

// Tables returns the names of the tables, sorted.
func (sn *Snapshot) Tables() []string { return slices.Sorted(maps.Keys(sn.tables)) }

// Objects returns the objects of a table, in key order.
func (sn *Snapshot) Objects(name string) []*Object {
	return (&table{objects: sn.tables[name]}).list("")
}

// Restore returns to a snapshot, like etcd restored from a backup: the revision goes back, too, and there is no
// history. Later revisions are used again, for other changes. Existing cursors become invalid.
func (s *Store) Restore(sn *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = sn.revision
	for name := range sn.tables {
		s.tableLocked(name)
	}
	for name, t := range s.tables {
		objects := maps.Clone(sn.tables[name])
		if objects == nil {
			objects = map[Key]*Object{}
		}
		for _, o := range objects {
			if o.store == nil { // of NewSnapshot: a stored object is decoded only while it is in use
				o.store = s
				s.decoded.add(o)
			}
		}
		announce(&t.changed)
		*t = table{objects: objects, compacted: sn.revision, last: sn.revision}
	}
	announce(&s.advanced)
}

// Revert changes the content back to a snapshot's by ordinary changes: revisions go on, and watches see each change.
func (s *Store) Revert(sn *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &Tx{s: s}
	for _, name := range slices.Sorted(maps.Keys(s.tables)) {
		for _, o := range s.tables[name].list("") {
			if sn.tables[name][o.Key] == nil {
				tx.Delete(name, o.Key, nil)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sn.tables)) {
		before := &table{objects: sn.tables[name]}
		for _, o := range before.list("") {
			if cur := tx.Get(name, o.Key); cur == nil || cur.Revision != o.Revision {
				tx.Put(name, o.Key, withMetadata(o.Value()), o.Shape)
			}
		}
	}
}
