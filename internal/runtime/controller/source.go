package controller

import (
	"context"
	"slices"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

// initialList is the cause of keys found by the first list. All sources share the cause, so that an object and its
// children make one cause.
const initialList = "initial list"

// The other causes that this package gives, beside the changes of objects.
const (
	startCause      = "start"
	recheckCause    = "scheduled recheck"
	retryCause      = "retry after an error"
	refusedCause    = "retry after a refusal"
	manyErrorsCause = "retry after many errors"
	worksCause      = "requests work again"
	cutCause        = "reconcile interrupted"
	listedCause     = "objects listed"
	missedCause     = "the status changed during the run"
)

// mirror is what a controller needs of a *cache.Store[T] of any T.
type mirror interface {
	Resource() kube.Resource
	Labels() string
	Bytes() int64
	Run(ctx context.Context)
	Serves(namespace string) bool
	OnServes(f func()) (remove func())
	State() []cache.ScopeState
	Namespaces() []string
	Selected() bool
	Answered(err error)
	Sheds() []cache.ShedNamespace
	OnReturn(f func(namespace string)) (remove func())
	Assume(object kube.Raw) error
}

// Source turns the changes of one mirror into keys. For, Owns and Watches make Sources, and Once makes a Source
// without a mirror.
type Source struct {
	mirror  mirror                                  // nil: none
	connect func(c *Controller) (disconnect func()) // makes the source queue keys
	keys    func(namespace string) []kube.Key       // of the objects themselves; nil but for For
	object  func(kube.Key) (kube.Object, error)     // the same; nil: there is none, or the error says why not
	size    func(kube.Key) int64                    // of an object itself; nil but for For
	unseen  unseenFunc
	shed    shedFunc
}

// unseenFunc writes into the status of an object that the state is not known, and why.
type unseenFunc func(ctx context.Context, key kube.Key, why string) error

// Unseen makes the controller call f for each object of a source made by For whose namespace could not be watched for
// two minutes because a right or a resource is missing: the last status may be out of date. The Func runs for all
// these objects when the namespace can be watched again.
func (s Source) Unseen(f func(ctx context.Context, key kube.Key, why string) error) Source {
	s.unseen = f
	return s
}

// For runs the controller for the objects of s themselves. Another object under the same name and a new generation (a
// changed spec, or a deletion) clear the failures of the key: the next try may succeed. A change of the status alone
// does not: a failing key waits for its next try, or each status write of another process would lead to a try, and to
// a status write of this process.
func For[T kube.Object](s *cache.Store[T]) Source {
	return forSource(s, func(c *Controller, was, is T) bool {
		return c.streaks.Get(is.ObjectMeta().Key()).failures > 0 && passesOver(c, was, is)
	})
}

// passesOver says that an update of an object that fails changed nothing but the status, and notes the update for the
// time when the object does not fail any more.
func passesOver[T kube.Object](c *Controller, was, is T) bool {
	return onlyStatus(kube.HeadOf(was), kube.HeadOf(is)) && c.streaks.passOver(is.ObjectMeta().Key())
}

// onlyStatus says that an update changed nothing but the status. A kind without generations does not tell.
func onlyStatus(was, is *kube.MetaAnnotated) bool {
	return is.Generation > 0 && was.Generation == is.Generation && slices.Equal(was.Labels, is.Labels) &&
		slices.Equal(was.Annotations, is.Annotations) && slices.Equal(was.Finalizers, is.Finalizers) &&
		was.DeletionTimestamp.Equal(is.DeletionTimestamp) && slices.Equal(was.OwnerReferences, is.OwnerReferences)
}

// ForBut is For without runs for the updates for which ignores is true. A key whose hook fails waits for its next try
// as one of For does; any other failure leaves the controller to run for a change of the status, which a hook gets.
func ForBut[T kube.Object](s *cache.Store[T], ignores func(was, is T) bool) Source {
	return forSource(s, func(c *Controller, was, is T) bool {
		return ignores(was, is) ||
			c.streaks.Get(is.ObjectMeta().Key()).reason == HookFailed && passesOver(c, was, is)
	})
}

func forSource[T kube.Object](s *cache.Store[T], ignores func(c *Controller, was, is T) bool) Source {
	kind := s.Resource().Kind
	return Source{mirror: s, size: s.Size, connect: func(to *Controller) func() {
		return s.OnChange(func(c cache.Change[T]) {
			if c.Type == cache.Updated && ignores(to, c.Old, c.New) {
				return
			}
			k := c.Object().ObjectMeta().Key()
			if c.Type != cache.Updated || c.Old.ObjectMeta().Generation != c.New.ObjectMeta().Generation {
				to.streaks.Forget(k)
			}
			add(to.queue, k, kind, c)
		})
	}, keys: s.Keys, object: func(k kube.Key) (kube.Object, error) {
		object, ok, err := s.Get(k)
		if err != nil || !ok {
			return nil, err
		}
		return object, nil
	}}
}

// Owns runs the controller for the owner of a changed object of s: the one that the controlling owner
// reference names, if it is of ownerKind, in the object's namespace. Where a change moves an object from one
// owner to another, both run.
//
// Only the kind is compared, not the API group. An owner of the same kind in another group gives a key that
// names no object of ours, or one whose reconcile finds nothing to do.
func Owns[T kube.Object](s *cache.Store[T], ownerKind string) Source {
	return Watches(s, func(obj T) []kube.Key {
		m := obj.ObjectMeta()
		if o, ok := m.Controller(); ok && o.Kind == ownerKind {
			return []kube.Key{{Namespace: m.Namespace, Name: o.Name}}
		}
		return nil
	})
}

// Watches runs the controller for the keys that f names for a changed object of s, before and after. f must be quick,
// must not block, and must not change obj; a panic in f loses the change and is logged.
func Watches[T kube.Object](s *cache.Store[T], f func(obj T) []kube.Key) Source {
	kind := s.Resource().Kind
	return Source{mirror: s, connect: func(to *Controller) func() {
		return s.OnChange(func(c cache.Change[T]) {
			if c.Type != cache.Appeared {
				for _, k := range f(c.Old) {
					add(to.queue, k, kind, c)
				}
			}
			if c.Type != cache.Gone && c.Type != cache.Shed {
				for _, k := range f(c.New) {
					add(to.queue, k, kind, c) // once more for a key of both: the queue merges it
				}
			}
		})
	}}
}

// Once runs the controller for k at the start, when all mirrors are synced, even if all are empty: for a key without
// an object.
func Once(k kube.Key) Source {
	return Source{connect: func(to *Controller) func() {
		to.queue.AddLow(k, startCause)
		return func() {}
	}}
}

// add queues k because of c, a change of an object of kind.
func add[T kube.Object](q *queue.Queue, k kube.Key, kind string, c cache.Change[T]) {
	if c.Initial {
		q.AddLow(k, initialList)
		return
	}
	m := c.Object().ObjectMeta()
	if c.Type == cache.Shed && !m.Deleting() { // there is nothing to do but to say so
		q.AddLow(k, shedCause)
		return
	}
	if m.Namespace == "" {
		q.Add(k, kind+" "+m.Name+" "+c.Type.String())
		return
	}
	q.Add(k, kind+" "+m.Namespace+"/"+m.Name+" "+c.Type.String())
}
