package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// The finalizers of the garbage collector: it deletes the children, or takes their owner off them.
const (
	foreground = "foregroundDeletion"
	orphan     = "orphan"
)

// statusWait is how long a status waits for the events of children that were just created, which lead to another
// call: a status that counts them would be written twice. Events take milliseconds.
const statusWait = 100 * time.Millisecond

// conflictWait is the wait for the event of a parent or a child that has changed since the last read. The
// event takes milliseconds; the wait is for an event that does not come.
const conflictWait = time.Second

// Reconcile has a hook say what should exist for a parent, and makes it so.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	parent, ok, err := r.parents.Get(ctx, key)
	if err != nil {
		r.tellTooLarge(key, err)
		return controller.Done, err
	}
	if !ok {
		return controller.Gone, nil
	}
	selected, held := r.selects(parent), holds(parent, r.finalizer())
	if !selected && !held {
		return controller.Gone, nil
	}
	if r.paused(ctx, parent) {
		return controller.Wait(r.Resync), nil
	}
	if wait := r.holdBack(parent); wait > 0 {
		return controller.After(wait), nil
	}
	if parent, err = r.setFinalizer(ctx, parent); err == nil {
		if !selected && !holds(parent, r.finalizer()) { // there is no finalize hook any more
			return controller.Gone, nil
		}
		var wait time.Duration
		wait, err = r.roomy(ctx, parent, selected)
		if kube.WritesOf(ctx).Sent() > 0 {
			r.statuses.change(parent, func(w *written) { w.pace.spent++ })
		}
		if err == nil {
			return controller.Wait(wait), nil
		}
	}
	if errors.Is(err, apply.ErrConflict) {
		return controller.After(conflictWait), nil
	}
	if errors.Is(err, errUnlisted) {
		return controller.Unlisted, nil
	}
	if later := new(call.Later); errors.As(err, &later) {
		return controller.After(later.After).Because(cmp.Or(later.Why, "the hook asked for a later call")), nil
	}
	if !controller.IsShed(err) && ctx.Err() == nil {
		r.announcer(parent).Event(events.Warning, "SyncError", err.Error(), nil)
	}
	return controller.Done, err
}

// paused says whether no hook is called for a parent, and tells who plans it.
func (r *reconciler) paused(ctx context.Context, parent *Object) bool {
	if !r.Spec.Paused && !conditions.IsPaused(parent.Annotations) {
		return false
	}
	apply.Tell(ctx, apply.OwnerOf(r.Parent.Resource, parent), nil,
		apply.Report{Held: "is paused: its hook is not called"})
	return true
}

// tellTooLarge records an Event about a parent that is too large to be held.
func (r *reconciler) tellTooLarge(key kube.Key, err error) {
	shed := cache.Unserved(err, cache.TooLarge)
	if shed == nil || shed.UID == "" {
		return
	}
	parent := new(Object)
	parent.Name, parent.Namespace, parent.UID = key.Name, key.Namespace, shed.UID
	r.announcer(parent).Event(events.Warning, shed.Reason, shed.Note()+"; until then nothing is done for it", nil)
}

// holdBack returns how long a parent whose runs never come to rest has to wait.
func (r *reconciler) holdBack(parent *Object) (wait time.Duration) {
	now := time.Now()
	var held time.Duration
	r.statuses.change(parent, func(w *written) {
		if wait = w.pace.wait(now, parent.Generation, r.Changes()); wait > 0 {
			held = now.Sub(w.pace.held)
		}
	})
	if held > unsettledAfter {
		r.announcer(parent).Event(events.Warning, "Unsettled", "each answer of the hook wants something changed, and "+
			"the change leads to another answer: it is called less and less often, in the end once a minute; look "+
			"for a time, a counter or a random value in its answer", nil)
	}
	return wait
}

func (r *reconciler) announcer(parent *Object) announce.Announcer {
	about := announce.Announcer{Events: r.events, Resource: r.Parent.Resource, Object: parent}
	if r.Parent.Plural == "events" && (r.Parent.Group == "" || r.Parent.Group == "events.k8s.io") {
		about.Events = nil // an Event about an Event is the next parent, and so on
	}
	return about
}

// setFinalizer puts the finalizer on a parent, or takes it off where there is no finalize hook any more.
func (r *reconciler) setFinalizer(ctx context.Context, parent *Object) (*Object, error) {
	switch held := holds(parent, r.finalizer()); {
	case r.Spec.Finalize == nil && held:
		return r.parents.RemoveFinalizer(ctx, parent, r.finalizer())
	case r.Spec.Finalize != nil && !held && !parent.Deleting(): // it is selected
		return r.parents.AddFinalizer(ctx, parent, r.finalizer())
	}
	return parent, nil
}

// roomy is sync as soon as there is room for answers as long as those before.
func (r *reconciler) roomy(ctx context.Context, parent *Object, selected bool) (time.Duration, error) {
	squeezed, err := r.squeeze(parent)
	if err != nil {
		return 0, err
	}
	room, err := r.Memory.Room(parent.Namespace, r.statuses.Get(parent.Key()).memory)
	if err != nil {
		return 0, err
	}
	defer room.Leave()
	ctx = room.WithRoom(ctx)
	wait, err := r.sync(ctx, parent, selected)
	r.statuses.change(parent, func(w *written) {
		if w.memory = room.Taken(); err == nil {
			w.squeezed = squeezed
		}
	})
	return wait, err
}

// sync calls the hook for a parent and carries the answer out. The result is when the next call is due without a
// change; 0: never.
func (r *reconciler) sync(ctx context.Context, parent *Object, selected bool) (time.Duration, error) {
	hook := wire.Sync
	if r.Spec.Finalize != nil && holds(parent, r.finalizer()) && (parent.Deleting() || !selected) {
		hook = wire.Finalize
	}
	choice, err := r.selectorOf(parent)
	if err != nil {
		return 0, err
	}
	owner := apply.OwnerOf(r.Parent.Resource, parent)
	groups, err := r.observe(ctx, parent, owner, choice)
	if err != nil {
		return 0, err
	}
	r.statuses.asks(parent)
	decided, err := r.decideAll(ctx, hook, parent, owner, choice, groups)
	if err != nil {
		apply.Tell(ctx, owner, nil, apply.Report{Err: err, Pruned: make([]apply.Result, sizeOf(groups))})
		return 0, errors.Join(err, r.reportFailure(ctx, parent, err))
	}
	if !parent.Deleting() && r.relabelled(owner, choice, groups) {
		return conflictWait, nil
	}
	answer, want := decided.answer, decided.want
	about := r.announcer(parent)
	r.hookEvents(about, answer)
	finalized := hook == wire.Finalize && answer.Finalized
	if finalized {
		if parent, err = r.parents.RemoveFinalizer(ctx, parent, r.finalizer()); err != nil {
			return 0, err
		}
		if parent.Deleting() && len(parent.Finalizers) == 0 {
			return 0, nil // it is gone
		}
	}
	if !r.Spec.IsComposite() && !(finalized && parent.Deleting()) {
		if parent, err = r.decorate(ctx, parent, answer); err != nil {
			return 0, err
		}
	}
	var children outcome
	if r.managesChildren(parent, hook, finalized) {
		var held time.Duration
		if r.Brake != nil && hook == wire.Sync {
			held = r.brake(about, parent, owner, groups, answer.Children)
		}
		owner.KeepOthers = held > 0
		children = r.applyChildren(ctx, about, owner, want)
		children.wait = apply.Earlier(apply.Earlier(children.wait, held),
			r.contested(parent, children.contested, children.pause))
	}
	if r.Spec.IsComposite() {
		declared, err := r.declaredStatus(parent, answer.Status)
		if err != nil {
			return 0, errors.Join(children.err, err)
		}
		if r.statuses.defers(parent, string(declared), children.created && children.err == nil) {
			return statusWait, nil
		}
		err = r.writeStatus(ctx, parent, declared)
		if errors.Is(err, apply.ErrConflict) { // its event need not lead to another run (ignoreStatusChanges)
			err, children.wait = nil, apply.Earlier(children.wait, conflictWait)
		}
		children.err = errors.Join(children.err, err)
	}
	children.wait = apply.Earlier(children.wait, r.truce(parent))
	return apply.Earlier(apply.Earlier(answer.ResyncAfter, children.wait), r.Resync), children.err
}

// squeeze returns an error for a parent that is left alone because the namespace takes too much memory. A change of
// the parent may make the children smaller, and is applied once to those that exist, which are read: version is the
// version applied then, "" in a namespace within its budget. A parent that is being deleted
// is always worked on: the deletion makes room.
func (r *reconciler) squeeze(parent *Object) (version string, err error) {
	var shed *cache.NotServed
	for i := range r.kinds {
		shed = cmp.Or(shed, r.kinds[i].mirror.OverBudget(parent.Namespace))
	}
	if shed == nil || parent.Deleting() {
		return "", nil
	}
	if version = parent.ResourceVersion; parent.Generation > 0 {
		version = strconv.FormatInt(parent.Generation, 10)
	}
	if w := r.statuses.Get(parent.Key()); w.uid == parent.UID && w.squeezed == version {
		return version, shed
	}
	r.announcer(parent).Event(events.Warning, shed.Reason, shed.Note(), nil)
	return version, nil
}

// sizeOf is how many objects groups have.
func sizeOf(groups []wire.Group) (n int) {
	for _, g := range groups {
		n += len(g.Items)
	}
	return n
}

// managesChildren says whether the children of a parent are written and deleted. Those of a parent being deleted are
// the garbage collector's, unless a finalize hook decides.
func (r *reconciler) managesChildren(parent *Object, hook wire.Hook, finalized bool) bool {
	if !parent.Deleting() {
		return true
	}
	return hook == wire.Finalize && !finalized && !holds(parent, foreground, orphan)
}

// decide calls the hook and checks its answer.
func (r *reconciler) decide(ctx context.Context, hook wire.Hook, parent *Object, children, related []wire.Group) (
	*wire.Answer, error) {
	request, err := r.request(hook, parent, children, related)
	if err != nil {
		return nil, err
	}
	body, err := r.ask(ctx, hook, parent, request)
	if err != nil {
		return nil, err
	}
	return r.answer(hook, parent, body)
}

// request returns what a hook gets for a parent.
func (r *reconciler) request(hook wire.Hook, parent *Object, children, related []wire.Group) ([]byte, error) {
	item, err := encode(r.Parent.Resource, parent)
	if err != nil {
		return nil, err
	}
	request := wire.Request{Controller: r.Spec.Object, Parent: item.JSON, ParentKey: item.Key, Children: children,
		Related: related, Finalizing: hook == wire.Finalize}
	return request.Encode(r.Spec.IsComposite(), r.hookOf(hook).Version, hook), nil
}

// answer reads and checks what sync or finalize answers.
func (r *reconciler) answer(hook wire.Hook, parent *Object, body []byte) (*wire.Answer, error) {
	answer, err := wire.Decode(body, wire.Options{Composite: r.Spec.IsComposite(), Finalizing: hook == wire.Finalize,
		Strict: r.hookOf(hook).Strict, Parent: parent.Key(), ParentUID: parent.UID, Kinds: r.resources()})
	if err != nil {
		return nil, ofHook(fmt.Errorf("answer of the %s hook: %w", hook, err))
	}
	return answer, nil
}

// hookEvents records the Events that a hook asks for.
func (r *reconciler) hookEvents(about announce.Announcer, answer *wire.Answer) {
	for _, e := range answer.Events {
		var child *apply.Result
		for _, k := range r.kinds {
			if e.Kind != "" && k.Kind == e.Kind {
				child = &apply.Result{Resource: k.Resource,
					Key: kube.Key{Namespace: about.Object.ObjectMeta().Namespace, Name: e.Name}}
			}
		}
		about.Event(events.Type(e.Type), e.Reason, e.Message, child)
	}
}
