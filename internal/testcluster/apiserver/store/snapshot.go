package store

import (
	"maps"
	"slices"
)

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
