package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"skiff/internal/cache"
	"skiff/internal/kube"
)

// ReplaceOptions say how children of a kind are replaced that cannot be changed, such as pods. All of it is data
// and pure functions.
type ReplaceOptions[T kube.Object] struct {
	// Revision is the key of the label that identifies what a child was made from. Every child declares it. A child
	// with another value is replaced.
	Revision string
	// Selector are the keys of the labels by which the children are found. They are restored where they are lost,
	// and an object without an owner is adopted only where they have the declared values.
	Selector []string
	// MaxUnavailable bounds how many children a roll makes unavailable at a time; 0 means 1.
	MaxUnavailable int
	// Ready says whether a child is ready, and since when.
	Ready func(T) (since time.Time, ok bool)
	// Ended says how a child ended, and false if it has not.
	Ended func(T) (how string, ended bool)
}

// ReplaceReport is what came of Apply or Teardown.
type ReplaceReport struct {
	Children []Result // in the order in which they were declared
	Surplus  []Result // the children that are not declared any more
	Err      error    // nothing is known of the children: they could not be read
}

// Replacer replaces the children of one kind. It is safe for concurrent use by reconciles of different owners; the
// controller sees to it that there is never more than one per owner.
type Replacer struct {
	replaceKind
	mu     sync.Mutex // guards owners; what an entry points at belongs to the one reconcile of that owner
	owners map[kube.Key]*replaceMemory
}

// replaceKind is a kind of children without its Go type.
type replaceKind struct {
	client   *kube.Client
	resource kube.Resource
	revision string
	selector []string
	limit    int
	get      func(kube.Key) (kube.Object, bool, error)
	byOwner  func(namespace, uid string) ([]kube.Object, error)
	reached  func(namespace, rv string, written time.Time) bool
	fresh    func() kube.Object
	ready    func(kube.Object) (time.Time, bool)
	ended    func(kube.Object) (string, bool)
}

// NewReplacer returns a Replacer of the mirrored kind. O is what the pointer type T points to.
func NewReplacer[O any, T interface {
	*O
	kube.Object
}](client *kube.Client, m *cache.Store[T], o ReplaceOptions[T]) *Replacer {
	return &Replacer{owners: map[kube.Key]*replaceMemory{}, replaceKind: replaceKind{
		client: client, resource: m.Resource(), revision: o.Revision, selector: append([]string{ManagedByLabel}, o.Selector...), limit: max(1, o.MaxUnavailable),
		get: func(k kube.Key) (kube.Object, bool, error) {
			object, ok, err := m.Get(k)
			return object, ok, err
		},
		byOwner: func(namespace, uid string) ([]kube.Object, error) {
			list, err := m.ByOwner(namespace, uid)
			out := make([]kube.Object, len(list))
			for i, object := range list {
				out[i] = object
			}
			return out, err
		},
		reached: m.Reached,
		fresh:   func() kube.Object { return T(new(O)) },
		ready:   func(object kube.Object) (time.Time, bool) { return o.Ready(object.(T)) },
		ended:   func(object kube.Object) (string, bool) { return o.Ended(object.(T)) },
	}}
}

// replaceMemory is what is remembered of the children of one owner. All of it can be lost without harm.
type replaceMemory struct {
	uid      string
	accepted string  // the revision of which the server has said that it would take such a child
	refused  Refusal // of a child, by its revision: what is in it is the same for all of one
	children map[string]*childMemory
}

// childMemory is what is known of one child that the cache may not know yet.
type childMemory struct {
	answer written // to our last write, or to a live read
	// removed is the uid of a child that is being deleted or gone, by the server's word. It can never be anything
	// else again, whatever an old copy shows. asked is when the server was last asked about it.
	removed string
	gone    bool
	asked   time.Time
	// foreign describes the object of that name, where the cache does not show it. It is looked for again at recheck.
	foreign string
	recheck time.Time
	crash   crashLoop
	contest contest
	seen    string // the uid of the child that was there last and that we have not deleted
}

func (m *replaceMemory) child(name string) *childMemory {
	c := m.children[name]
	if c == nil {
		c = &childMemory{}
		m.children[name] = c
	}
	return c
}

// Forget drops what is remembered of an owner's children. Operators call it when the owner is gone.
func (r *Replacer) Forget(owner kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
}

func (r *Replacer) memoryOf(owner Owner) *replaceMemory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.owners[owner.Key()]
	if m == nil || m.uid != owner.UID {
		m = &replaceMemory{uid: owner.UID, children: map[string]*childMemory{}}
		r.owners[owner.Key()] = m
	}
	return m
}

// Apply takes the next steps towards the declared children, in whose reversed order they are replaced. With hold it
// changes nothing and only reports what is there.
func (r *Replacer) Apply(ctx context.Context, owner Owner, children []Child, hold bool) ReplaceReport {
	run := &replacement{Replacer: r, owner: owner, mem: r.memoryOf(owner), hold: hold}
	if err := run.look(ctx, children); err != nil {
		return ReplaceReport{Err: err}
	}
	if !hold {
		run.mend(ctx)
		run.take(ctx, plan(run.slots, r.limit, time.Now()))
	}
	return run.report()
}

// Teardown removes the children of an owner that is being deleted, the last one first, and the next one when it is
// gone. When it reports no children, all are gone.
func (r *Replacer) Teardown(ctx context.Context, owner Owner) ReplaceReport {
	run := &replacement{Replacer: r, owner: owner, mem: r.memoryOf(owner)}
	if err := run.look(ctx, nil); err != nil {
		return ReplaceReport{Err: err}
	}
	run.take(ctx, remove(run.slots, "its "+owner.Resource.Kind+" is being deleted"))
	return run.report()
}

// replacement is one call of Apply or Teardown.
type replacement struct {
	*Replacer
	owner Owner
	mem   *replaceMemory
	hold  bool
	slots []*slot
}

// report makes the report of the slots.
func (r *replacement) report() (out ReplaceReport) {
	for _, s := range r.slots {
		switch {
		case s.want != nil:
			out.Children = append(out.Children, r.result(s))
		case s.live != nil:
			out.Surplus = append(out.Surplus, r.result(s))
		}
	}
	return out
}

// result makes the result of one slot.
func (r *replacement) result(s *slot) Result {
	now := time.Now()
	available, missing := s.available(now)
	out := Result{Resource: r.resource, Key: s.key, Outcome: s.outcome, Live: s.live, Message: s.message, Err: s.err,
		Wait: Earlier(s.wait, missing), Revision: s.made, Deleting: s.deleting, Settling: missing > 0}
	if s.err != nil {
		out.Outcome = Failed
	}
	if m := r.mem.children[s.key.Name]; m != nil && s.want != nil && !available && !s.deleting {
		out.Ending = m.crash.message(s.revision, now)
	}
	return out
}

// newSlots returns the slots of the declared children, in their order, and those of the names that are surplus, in
// theirs: the number at the end of a name counts as a number.
func newSlots(owner Owner, revision string, children []Child, others map[string]bool) ([]*slot, error) {
	var slots, surplus []*slot
	declared := map[string]bool{}
	for i := range children {
		s, err := declaredSlot(owner, revision, &children[i])
		if err != nil {
			return nil, err
		}
		if declared[s.key.Name] {
			return nil, fmt.Errorf("%q is declared twice", s.key.Name)
		}
		declared[s.key.Name] = true
		slots = append(slots, s)
	}
	for name := range others {
		if !declared[name] {
			surplus = append(surplus, &slot{key: kube.Key{Namespace: owner.Namespace, Name: name}})
		}
	}
	slices.SortFunc(surplus, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(len(a.key.Name), len(b.key.Name)), cmp.Compare(a.key.Name, b.key.Name))
	})
	return append(slots, surplus...), nil
}

// declaredSlot returns the slot of a declared child.
func declaredSlot(owner Owner, revision string, c *Child) (*slot, error) {
	key, labels, err := identify(owner, c.Body)
	if err != nil {
		return nil, err
	}
	s := &slot{key: key, want: c, minReady: c.MinReady}
	if s.revision, _ = labels[revision].(string); s.revision == "" {
		return nil, fmt.Errorf("%q does not declare the label %s", key.Name, revision)
	}
	return s, nil
}
