package cache

import "slices"

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

// Namespaces returns the namespaces that have a watch each, sorted; none if there is one for all.
func (s *Store[T]) Namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for _, sc := range s.scopes {
		if sc.namespace != "" {
			out = append(out, sc.namespace)
		}
	}
	return out
}

// Selected reports whether the namespaces come and go.
func (s *Store[T]) Selected() bool { return s.o.Selected }

// setNamespaces makes these the scopes.
func (s *Store[T]) setNamespaces(names []string) {
	s.life.Lock()
	defer s.life.Unlock()
	before := s.Namespaces()
	if slices.Equal(before, names) {
		return
	}
	var gone []string
	for _, sc := range s.scopes {
		if slices.Contains(names, sc.namespace) {
			continue
		}
		gone = append(gone, sc.namespace)
		if s.start != nil {
			sc.end() // nobody writes to the scope any more
		}
	}
	added := s.replaceScopes(names, gone)
	if s.start != nil {
		for _, sc := range added {
			s.start(sc)
		}
	}
	s.tellServes()
}

// replaceScopes drops the scopes that are gone with all that is in them, and returns those that are new.
func (s *Store[T]) replaceScopes(names, gone []string) (added []*scope) {
	s.telling.Lock() // OnChange finds a scope for each object
	defer s.telling.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, namespace := range gone {
		for e := range s.objects.entries(namespace) {
			s.dropLocked(e, s.bareLocked(e.key()))
		}
		delete(s.objects, namespace)
		s.unshedLocked(namespace)
	}
	for k := range s.bad {
		if slices.Contains(gone, k.Namespace) {
			s.dropBadLocked(k)
		}
	}
	var scopes []*scope
	unsynced := 0
	for _, name := range names {
		sc := s.scopeLocked(name)
		if sc == nil {
			sc = newScope(name)
			added = append(added, sc)
		}
		if !sc.synced {
			unsynced++
		}
		scopes = append(scopes, sc)
	}
	s.scopes = scopes
	switch {
	case s.unsynced == 0 && unsynced > 0:
		s.synced = make(chan struct{})
	case s.unsynced > 0 && unsynced == 0:
		close(s.synced)
	}
	s.unsynced = unsynced
	return added
}
