package store

import (
	"sort"
	"time"
)

// EventType says how an object changed.
type EventType string

// The three changes there are.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
)

// Event is one committed change. Prev is the version before it, nil for Added. The Object of a Deleted event is the
// last state under the revision of the removal.
type Event struct {
	Type         EventType
	Object, Prev *Object
	at           time.Time
}

// trimLocked forgets what is outside of the window.
func (s *Store) trimLocked(t *table) {
	drop := max(0, len(t.log)-s.opts.HistoryEvents)
	if s.opts.HistoryAge > 0 {
		oldest := time.Now().Add(-s.opts.HistoryAge)
		for drop < len(t.log) && t.log[drop].at.Before(oldest) {
			drop++
		}
	}
	t.forget(drop)
}

// forget drops the n oldest changes; the dropped entries are cleared because the array behind the slice lives on.
func (t *table) forget(n int) {
	if n == 0 {
		return
	}
	t.forgotten = t.log[n-1].Object.Revision
	t.compacted = t.forgotten
	clear(t.log[:n])
	t.log = t.log[n:]
}

// Compact forgets all history: each older revision gets ErrCompacted from now on. Watches that are up to date go on.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.forget(len(t.log))
		t.compacted = s.revision
	}
}

// SetWindow changes how much history is kept from now on; values as in Options.
func (s *Store) SetWindow(events int, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.HistoryEvents, s.opts.HistoryAge = events, age
	for _, t := range s.tables {
		s.trimLocked(t)
	}
}

// Cursor reads the changes of one table in commit order. It is used by one goroutine.
type Cursor struct {
	s        *Store
	name     string
	revision int64 // all changes up to this one were handed out
	current  bool  // it was up to date once
}

// Watch returns a cursor behind revision from. The error is ErrCompacted, together with the oldest revision one can
// start from. A revision in the future is accepted: nothing is handed out until the counter passes it, as with the
// real server.
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

// ListAndWatch returns the objects of now and a cursor that starts right behind them.
func (s *Store) ListAndWatch(name, namespace string) ([]*Object, *Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(name)
	return t.list(namespace), &Cursor{s: s, name: name, revision: s.revision, current: true}
}

// Revision returns the revision up to which all changes were handed out.
func (c *Cursor) Revision() int64 { return c.revision }

// Next returns up to limit changes that were not handed out yet, and the revision up to which the reader now knows
// everything. When there is none it returns a channel that is closed by the next change. The error is ErrSlow.
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
	// The log's entries are cleared when they are forgotten: hand out a copy.
	events = append(events, pending...)
	c.revision = events[len(events)-1].Object.Revision
	return events, c.revision, nil, nil
}
