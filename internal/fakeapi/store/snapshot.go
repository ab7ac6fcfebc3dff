package store

import "maps"

// Snapshot is all that a store held at one moment.
type Snapshot struct {
	revision int64
	tables   map[string]map[Key]*Object
}

// Snapshot returns the present.
func (s *Store) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Snapshot{revision: s.revision, tables: map[string]map[Key]*Object{}}
	for name, t := range s.tables {
		out.tables[name] = maps.Clone(t.objects) // objects never change
	}
	return out
}

// Restore goes back to a snapshot, as etcd does to a backup: the revision, too, and there is no history. Revisions
// between the two will be given again, to other changes. Cursors are of no use any more.
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
		if t.changed != nil {
			close(t.changed)
		}
		*t = table{objects: objects, compacted: sn.revision}
	}
	if s.advanced != nil {
		close(s.advanced)
		s.advanced = nil
	}
}
