package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
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

// replacing is a kind of children that are replaced, without its Go type.
type replacing struct {
	revision string
	selector []string
	limit    int
	get      func(kube.Key) (kube.Object, bool, error)
	owned    func(namespace, uid string) ([]kube.Object, error)
	known    func(namespace, uid string) ([]kube.Object, error) // owned, with the metadata of those that are not held
	count    func(namespace, uid string) (int, error)
	reached  func(namespace, rv string, written time.Time) bool
	empty    func() kube.Object // to decode an answer into
	ready    func(kube.Object) (time.Time, bool)
	ended    func(kube.Object) (string, bool)
}

// Replace returns the kind of children that a mirror holds, and that are replaced: missing ones are created, one of
// another revision is deleted and created again, the last declared first. O is what the pointer type T points to.
func Replace[O any, T interface {
	*O
	kube.Object
}](m *cache.Store[T], o ReplaceOptions[T]) Kind {
	r := m.Resource()
	return Kind{resource: r, apiVersion: r.APIVersion(), replacing: &replacing{
		revision: o.Revision,
		selector: append([]string{ManagedByLabel}, o.Selector...),
		limit:    max(1, o.MaxUnavailable),
		get: func(k kube.Key) (kube.Object, bool, error) {
			object, ok, err := m.Get(k)
			return object, ok, err
		},
		owned: func(namespace, uid string) ([]kube.Object, error) {
			list, err := m.ByOwner(namespace, uid)
			return objects(list), err
		},
		known: func(namespace, uid string) ([]kube.Object, error) {
			list, err := m.KnownByOwner(namespace, uid)
			return objects(list), err
		},
		count:   m.CountByOwner,
		reached: m.Reached,
		empty:   func() kube.Object { return T(new(O)) },
		ready:   func(object kube.Object) (time.Time, bool) { return o.Ready(object.(T)) },
		ended:   func(object kube.Object) (string, bool) { return o.Ended(object.(T)) },
	}}
}

func objects[T kube.Object](list []T) []kube.Object {
	out := make([]kube.Object, len(list))
	for i, object := range list {
		out[i] = object
	}
	return out
}

// replaceMemory is what is remembered of the children of one owner and kind. All of it can be lost without harm. The
// maps are made when they are needed: a tenant can make many owners without children.
type replaceMemory struct {
	resource kube.Resource
	accepted string  // the revision of which the server has said that it would take such a child
	refused  Refusal // of a child, by its revision: what is in it is the same for all of one
	children map[kube.Key]*childMemory
	seen     map[kube.Key]string // the uid of the child that was there last and that we have not deleted
	// settled are the declared children, if the last Apply left all of them in place, of the declared revision and
	// with the declared labels, and no others.
	settled []settledChild
}

// settledChild is a declared child of a kind that is replaced.
type settledChild struct {
	key      kube.Key
	at       int // in Report.Children
	revision string
	minReady time.Duration
	labels   kube.Labels // of the live one
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
}

// child returns what is remembered of a child, to be added to.
func (m *replaceMemory) child(k kube.Key) *childMemory {
	c := m.children[k]
	if c == nil {
		c = &childMemory{}
		if m.children == nil {
			m.children = map[kube.Key]*childMemory{}
		}
		m.children[k] = c
	}
	return c
}

// saw notes the uid of the child that is there.
func (m *replaceMemory) saw(k kube.Key, uid string) {
	if m.seen == nil {
		m.seen = map[kube.Key]string{}
	}
	m.seen[k] = uid
}

// idle says that there is nothing worth remembering.
func (c *childMemory) idle(now time.Time) bool {
	return c.removed == "" && c.foreign == "" && c.answer.object == nil && !c.crash.active(c.crash.revision, now) &&
		c.contest.pause(c.contest.hash) == 0 && now.Sub(c.contest.since) >= contestWindow
}

// replacedBy returns what is remembered of the children of one kind that are replaced.
func (o *owned) replacedBy(r kube.Resource) *replaceMemory {
	for _, m := range o.replaced { // of one or two kinds
		if m.resource == r {
			return m
		}
	}
	m := &replaceMemory{resource: r}
	o.replaced = append(o.replaced, m)
	return m
}

// replacement is one call of Apply or Teardown for the children of one kind that is replaced.
type replacement struct {
	*application
	*replacing
	resource kube.Resource
	mem      *replaceMemory
	slots    []*slot
}

func (a *application) replacement(k *Kind) *replacement {
	return &replacement{application: a, replacing: k.replacing, resource: k.resource,
		mem: a.mem.replacedBy(k.resource)}
}

// replace takes the next steps towards the declared children of all kinds that are replaced. at says where in the
// report each of them is.
func (a *application) replace(ctx context.Context, children []Child, at map[*Kind][]int, r *Report) {
	for i := range a.kinds {
		k := &a.kinds[i]
		if k.replacing == nil {
			continue
		}
		declared := make([]*Child, 0, len(at[k]))
		for _, i := range at[k] {
			declared = append(declared, &children[i])
		}
		run := a.replacement(k)
		if err := run.look(ctx, declared); err != nil {
			if cache.AsShed(err) != nil && !a.hold {
				removed, failed := run.removeUnheld(ctx, declared)
				r.Pruned, err = append(r.Pruned, removed...), errors.Join(err, failed)
			}
			r.Err = errors.Join(r.Err, err)
			continue
		}
		if !a.hold {
			run.mend(ctx)
			run.take(ctx, plan(run.slots, run.limit, time.Now()))
			run.findDeclared(ctx)
		}
		results, surplus := run.results()
		for n, i := range at[k] {
			r.Children[i] = results[n]
		}
		run.remember(at[k])
		r.Pruned = append(r.Pruned, surplus...)
	}
}

// ReplacedKind returns the name of the first kind of children that is replaced, "" if there is none.
func (e *Engine) ReplacedKind() string {
	for i := range e.kinds {
		if e.kinds[i].replacing != nil {
			return e.kinds[i].resource.Kind
		}
	}
	return ""
}

// Teardown removes the children of an owner that is being deleted, of all kinds that are replaced, the last one
// first, and the next one when it is gone. When it returns no children, all are gone.
func (e *Engine) Teardown(ctx context.Context, owner Owner) ([]Result, error) {
	a := e.application(owner, false)
	var left []Result
	for i := range e.kinds {
		k := &e.kinds[i]
		if k.replacing == nil {
			continue
		}
		run, why := a.replacement(k), "its "+owner.Resource.Kind+" is being deleted"
		err := run.look(ctx, nil)
		if cache.AsShed(err) != nil {
			var unheld []Result
			if unheld, err = run.teardownUnheld(ctx, why); err == nil {
				left = append(left, unheld...)
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		run.take(ctx, remove(run.slots, why))
		_, surplus := run.results()
		left = append(left, surplus...)
	}
	return left, nil
}

// results returns what came of the declared children, in their order, and of those that are surplus.
func (r *replacement) results() (declared, surplus []Result) {
	declared = make([]Result, 0, len(r.slots))
	for _, s := range r.slots {
		switch {
		case s.want != nil:
			declared = append(declared, r.result(s))
		case s.live != nil:
			surplus = append(surplus, r.result(s))
		}
	}
	return declared, surplus
}

// result makes the result of one slot.
func (r *replacement) result(s *slot) Result {
	now := time.Now()
	available, missing := s.available(now)
	out := Result{Resource: r.resource, Key: s.key, Outcome: s.outcome, Live: s.live, Message: s.message, Err: s.err,
		Wait: Earlier(s.wait, missing), Declared: s.revision, Revision: s.made, Deleting: s.deleting,
		Settling: missing > 0}
	if s.err != nil {
		out.Outcome = Failed
	}
	if m := r.mem.children[s.key]; m != nil && s.want != nil && !available && !s.deleting {
		out.Ending = m.crash.message(s.revision, now)
	}
	return out
}

// newSlots returns the slots of the declared children, in their order, and those of the names that are surplus, in
// theirs: the number at the end of a name counts as a number.
func newSlots(owner Owner, revision string, children []*Child, others map[kube.Key]bool) ([]*slot, error) {
	slots := make([]*slot, 0, len(children))
	var surplus []*slot
	declared := make(map[kube.Key]bool, len(children))
	for _, c := range children {
		s, err := declaredSlot(owner, revision, c)
		if err != nil {
			return nil, err
		}
		if declared[s.key] {
			return nil, fmt.Errorf("%q is declared twice", s.key.Name)
		}
		declared[s.key] = true
		slots = append(slots, s)
	}
	for k := range others {
		if !declared[k] {
			surplus = append(surplus, &slot{key: k})
		}
	}
	slices.SortFunc(surplus, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(len(a.key.Name), len(b.key.Name)), a.key.Compare(b.key))
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
