package cache

import (
	"slices"
	"sync"
)

// memory is the memory of all mirrors of a process, about, by mirror and namespace. Each mirror has a bound of its
// own, MaxBytes; a server could stay below MaxBytes with each mirror and still exhaust the process. The zero value is
// ready.
type memory struct {
	mu       sync.Mutex // guards all below, and the accounts
	taken    int64      // by the accounts
	accounts []*account // of the mirrors that run: a stopped mirror is not needed
}

// account is the memory of a mirror.
type account struct {
	of      *memory
	most    int64                            // MaxBytes
	shed    func(namespace string, v victim) // of the mirror
	bytes   int64
	counted bool                // the mirror runs
	shares  map[string]*portion // by namespace
}

// portion is the memory of a namespace in a mirror.
type portion struct {
	held   int64 // by the objects in the mirror
	listed int64 // objects brought by a list under way; most of a list is held already
	keys   int64 // keys of objects not held, which cannot be shed
	trial  bool  // the list under way brings a shed namespace, which goes first

	largest      string // the name of the largest object so far
	largestBytes int64
}

func (s *portion) heavy() int64 { return max(s.held, s.listed) }

// before says that the namespace is shed before another with so many bytes, perhaps on trial.
func (s *portion) before(trial bool, bytes int64) bool {
	if n := s.heavy(); n == 0 || s.trial == trial {
		return n > bytes
	}
	return s.trial
}

// victim is the namespace of a mirror to be shed, and why.
type victim struct {
	account   *account
	namespace string
	bytes     int64 // of the namespace
	most      int64 // allowed for all
	all       bool  // most is for all mirrors together

	largest      string
	largestBytes int64
}

// add notes that a namespace grows or shrinks.
func (a *account) add(namespace string, held, keys int64) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.addLocked(namespace, held, 0, keys)
}

func (a *account) addLocked(namespace string, held, listed, keys int64) {
	s := a.shares[namespace]
	if s == nil {
		s = &portion{}
		a.shares[namespace] = s
	}
	before := s.heavy() + s.keys
	s.held, s.listed, s.keys = s.held+held, s.listed+listed, s.keys+keys
	if s.held == 0 && s.listed == 0 && s.keys == 0 && !s.trial {
		delete(a.shares, namespace)
	}
	more := s.heavy() + s.keys - before
	a.bytes += more
	if a.counted {
		a.of.taken += more
	}
}

// list notes that the objects of a namespace collected by a list grow or shrink, with an object of size.
func (a *account) list(namespace, name string, more, size int64) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	s := a.shares[namespace]
	if more < 0 && s == nil {
		return
	} else if more < 0 {
		more = max(more, -s.listed) // shed meanwhile
	}
	a.addLocked(namespace, 0, more, 0)
	if s := a.shares[namespace]; s != nil && size > s.largestBytes {
		s.largest, s.largestBytes = name, size
	}
}

// unlist notes the end of a list in the scope of a namespace, "" for all.
func (a *account) unlist(namespace string) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	for ns, s := range a.shares {
		if s.listed != 0 && (namespace == "" || namespace == ns) {
			a.addLocked(ns, 0, -s.listed, 0)
		}
	}
}

// count adds a mirror to the sum of all, or takes the mirror away.
func (a *account) count(on bool) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	switch {
	case on == a.counted:
		return
	case on:
		a.of.accounts = append(a.of.accounts, a)
		a.of.taken += a.bytes
	default:
		a.of.accounts = slices.DeleteFunc(a.of.accounts, func(other *account) bool { return other == a })
		a.of.taken -= a.bytes
	}
	a.counted = on
}

func (a *account) size() int64 {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	return a.bytes
}

// mostOfAll bounds all mirrors together: with the default of MaxBytes, half of the process's memory limit.
func (a *account) mostOfAll() int64 { return a.most + a.most/2 }

// over returns the namespace to be shed next because a mirror, or all together, take more than allowed; false: none.
// In a single mirror the largest namespace is shed. In all mirrors the namespace with the largest sum is shed, where
// most of the sum is, so that no small namespace pays for a large neighbour. A namespace listed to be held again goes
// before all.
func (a *account) over() (victim, bool) {
	m := a.of
	m.mu.Lock()
	defer m.mu.Unlock()
	v := victim{account: a, most: a.most}
	switch {
	case a.bytes > a.most:
		v.namespace, v.bytes = a.heaviestLocked()
	case m.taken > a.mostOfAll():
		v.all, v.most = true, a.mostOfAll()
		v.namespace = m.heaviestLocked()
		trial := false
		for _, one := range m.accounts {
			if s := one.shares[v.namespace]; s != nil && s.before(trial, v.bytes) {
				v.account, v.bytes, trial = one, s.heavy(), s.trial
			}
		}
	}
	if s := v.account.shares[v.namespace]; s != nil {
		v.largest, v.largestBytes = s.largest, s.largestBytes
	}
	return v, v.bytes > 0
}

// heaviestLocked returns the largest namespace of a mirror that can be shed.
func (a *account) heaviestLocked() (namespace string, bytes int64) {
	trial := false
	for ns, s := range a.shares {
		if s.before(trial, bytes) || s.trial == trial && s.heavy() == bytes && bytes > 0 && ns < namespace {
			namespace, bytes, trial = ns, s.heavy(), s.trial
		}
	}
	return namespace, bytes
}

// heaviestLocked returns the largest namespace of all mirrors that can be shed.
func (m *memory) heaviestLocked() (namespace string) {
	sums := map[string]portion{}
	for _, a := range m.accounts {
		for ns, s := range a.shares {
			sum := sums[ns]
			sum.held, sum.trial = sum.held+s.heavy(), sum.trial || s.trial && s.heavy() > 0
			sums[ns] = sum
		}
	}
	most := portion{}
	for ns, sum := range sums {
		if sum.before(most.trial, most.held) || sum.trial == most.trial && sum.held == most.held && ns < namespace {
			namespace, most = ns, sum
		}
	}
	return namespace
}

// room returns the memory for namespaces to be held again: with some to spare, so that no namespace is shed again at
// the next change.
func (a *account) room() int64 {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	return min(a.most/10*9-a.bytes, a.mostOfAll()/10*9-a.of.taken)
}

// try marks a namespace as listed to be held again, or removes the mark.
func (a *account) try(namespace string, on bool) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	s := a.shares[namespace]
	if s == nil && on {
		s = &portion{}
		a.shares[namespace] = s
	}
	if s != nil {
		s.trial = on
		a.addLocked(namespace, 0, 0, 0) // without the mark, the share may be empty
	}
}
