// Package reconcile runs a hook controller: it reads a parent and the parent's children, asks a hook which children
// should exist, and writes the difference.
//
// Its job lies between a hook and the cluster: the selection of parents, the ownership of children, finalizers,
// status, and the order of the steps. Package apply writes the children, package wire reads answers, and the caller
// calls the hooks; package supervise starts and stops controllers. A CompositeController and a DecoratorController
// differ in how children are known, and in what an answer says of the parent.
//
// Place on the event path: Reconcile, on the controller's workers. The package starts no goroutine.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Manager is the field manager of children, the same as metacontroller's when it applies.
const Manager = "metacontroller"

// DecoratorAnnotation names the DecoratorController of an attachment.
const DecoratorAnnotation = "metacontroller.k8s.io/decorator-controller"

// defaultWorkers is how many parents are reconciled at a time, as in metacontroller.
const defaultWorkers = 5

// Options say which resources a controller works on, and who decides.
type Options struct {
	Spec     *spec.Controller
	Rule     spec.Parent        // of Spec.Parents
	Parent   discovery.Resource // named by Rule
	Children []kube.Resource    // named by Spec.Children
	// Call calls a hook and returns the body of the answer. A *call.Later asks for another try after a while.
	Call func(ctx context.Context, hook wire.Hook, parent *kube.Meta, request []byte) ([]byte, error)
	// Changes returns another number when a hook has changed: then the customize hook is called again; nil: no hook
	// changes.
	Changes func() int64
	// Returns returns another number when a hook that was down answers again. It may be another hook, so the customize
	// hook is called again; but nobody says so, and not all parents run, so for Brake it is no change; nil: none does.
	Returns func() int64
	// Brake holds the deletions of a faulty hook; nil: no deletion is held.
	Brake *Brake
	// HasConditions says whether the definition of the parents has status.conditions, as far as the server tells: see
	// Synced; nil: no.
	HasConditions func(ctx context.Context) bool
	// Notes takes the problems of children that are no failure; nil: they are in Events alone.
	Notes *Notes
	// Others names the other hook controllers of the parent resource; nil: unknown.
	Others func() []string
	// Pods reads the pods of a namespace with some labels, for the live page; nil: no pods are shown.
	Pods func(ctx context.Context, namespace, selector string) (controller.Pods, error)
	// Manager is the field manager of the children; "": Manager.
	Manager string
	Resync  time.Duration // how often a parent is reconciled without a change, where Spec has none; 0: never
	// Memory bounds the memory of the answers to all controllers together; nil: no bound.
	Memory *call.Memory
}

// Name returns the name of the controller of a parent resource. A DecoratorController has a controller for each
// resource.
func (o *Options) Name() string {
	if o.Spec.IsComposite() {
		return o.Spec.Name
	}
	return o.Spec.Name + "." + o.Parent.GroupResource()
}

// Finalizer returns the finalizer on each parent of a controller with a finalize hook.
func Finalizer(c *spec.Controller) string {
	return "metacontroller.io/" + strings.ToLower(c.Kind) + "-" + c.Name
}

func (o *Options) finalizer() string { return Finalizer(o.Spec) }

// hooksTimeout is how long the hooks of a run may take together.
func (o *Options) hooksTimeout() (all time.Duration) {
	for _, h := range o.Spec.Hooks() {
		all += h.Timeout
	}
	return all
}

// selects says whether hooks are called for a parent.
func (o *Options) selects(parent *Object) bool {
	return o.Rule.Labels.Match(parent.Labels) && o.Rule.Annotations.Match(parent.Annotations)
}

type reconciler struct {
	Options
	parents  *apply.Statuses[*Object]
	engine   *apply.Engine
	kinds    []kind
	events   *events.Recorder
	statuses statuses
	unknown  unknownFields
	related  *related
	// revisions writes the ControllerRevisions of rolling updates; nil: no children roll.
	revisions *apply.Engine
	stored    kind // the existing ControllerRevisions
}

// kind is a kind of children.
type kind struct {
	kube.Resource
	mirror *cache.Store[*Object]
}

// New returns the controller of a parent resource. New sends nothing before Run. A nil recorder means no Events; the
// caller runs the recorder.
func New(s controller.Setup, recorder *events.Recorder, o Options) *controller.Controller {
	o.Manager = cmp.Or(o.Manager, Manager)
	none := func() int64 { return 0 }
	if o.Changes == nil {
		o.Changes = none
	}
	if o.Returns == nil {
		o.Returns = none
	}
	o.Resync = cmp.Or(o.Spec.Resync, o.Resync)
	r := &reconciler{Options: o, events: recorder, related: newRelated(s),
		unknown: unknownFields{of: map[childrenOf]map[string]time.Time{}}}
	objects := controller.Mirror[*Object](s, o.Parent.Resource, "")
	r.parents = apply.NewStatuses(s.Client, objects, func() *Object { return new(Object) })
	sources := []controller.Source{controller.ForBut(objects, func(was, is *Object) bool {
		return r.statuses.asked(is) || o.Rule.IgnoreStatusChanges && onlyStatus(was, is)
	})}
	selector := ""
	if o.Spec.GenerateSelector {
		selector = uidLabel
	} else if o.Spec.IsComposite() {
		objects.Index(selectorIndex, selectorTerms)
	}
	var children []apply.Kind
	for i, resource := range o.Children {
		m := controller.Mirror[*Object](s, resource, selector)
		if o.Spec.IsComposite() {
			m.IndexMeta(orphanIndex, orphanTerms)
		}
		r.kinds = append(r.kinds, kind{resource, m})
		children = append(children, apply.Of(m, strategyOf(o.Spec.Children[i].Method)))
		sources = append(sources, controller.Watches(m, func(child *Object) []kube.Key {
			return r.parentsOf(objects, child)
		}))
	}
	if o.Spec.Rolls() {
		m := controller.Mirror[*Object](s, spec.Revisions, "")
		m.IndexMeta(orphanIndex, orphanTerms)
		r.stored = kind{spec.Revisions, m}
		r.revisions = apply.New(s.Client, apply.Options{Manager: o.Manager, ByClaim: true},
			apply.Of(m, apply.InPlace))
		sources = append(sources, controller.Watches(m, func(revision *Object) []kube.Key {
			return r.parentsOf(objects, revision)
		}))
	}
	r.engine = apply.New(s.Client, apply.Options{Manager: o.Manager, OtherOwners: true, ByClaim: true,
		Ours: r.isOurs, Unheld: admitUnheld, InOrder: true, RemoveFirst: true, Predecessor: wire.LastApplied},
		children...)
	c := controller.New(o.Name(), r.Reconcile, controller.Options{Workers: cmp.Or(s.Workers, defaultWorkers),
		ReconcileTimeout: controller.DefaultReconcileTimeout + o.hooksTimeout(), Elected: s.Elected,
		InFlight: s.InFlight, History: s.History, Advice: s.Advice, Log: s.Log}, sources...)
	c.Show(controller.Shows{Children: r.engine.Children, Foreign: !o.Spec.IsComposite(), Works: r.worksFor,
		Pods: podsOf(r)})
	c.Remembers(r.engine, r.parents, &r.statuses, r.related, r)
	if r.revisions != nil {
		c.Remembers(r.revisions)
	}
	r.related.attach = c.Attach
	return c
}

// onlyStatus says that an update of a parent has changed nothing but the status. A kind without generations does not
// tell.
func onlyStatus(was, is *Object) bool {
	return is.Generation > 0 && was.Generation == is.Generation && slices.Equal(was.Labels, is.Labels) &&
		slices.Equal(was.Annotations, is.Annotations) && !is.Deleting()
}

func strategyOf(m spec.Method) apply.Strategy {
	switch m {
	case spec.InPlace, spec.RollingInPlace:
		return apply.InPlace
	case spec.Recreate, spec.RollingRecreate:
		return apply.Recreate
	}
	return apply.OnDelete
}

// isOurs says whether an object controlled by a parent belongs to r: several controllers can have the same parent.
func (r *reconciler) isOurs(head *kube.MetaAnnotated) bool {
	decorator, decorated := head.Annotations.Get(DecoratorAnnotation)
	if r.Spec.IsComposite() {
		return !decorated
	}
	return decorator == r.Spec.Name
}

// worksFor says whether the controller does anything for a parent, such as to remove an old finalizer.
func (r *reconciler) worksFor(parent kube.Object) bool {
	o, ok := parent.(*Object)
	return ok && (r.selects(o) || slices.Contains(o.Finalizers, r.finalizer()))
}

// Forget drops a parent from Brake and Notes, which all controllers of the hook share.
func (r *reconciler) Forget(key kube.Key) {
	if r.Brake != nil {
		r.Brake.forget(brakeKey{r.Parent.Resource, key})
	}
	for _, about := range []topic{aboutChildren, aboutFight, aboutContest} {
		r.Notes.set(noteKey{r.Parent.Resource, key, about}, "")
	}
}

// Leave drops the parents of a namespace from Brake and Notes, and the unknown fields of the children there.
func (r *reconciler) Leave(namespace string) {
	if r.Brake != nil {
		r.Brake.leave(r.Parent.Resource, namespace)
	}
	r.Notes.leave(r.Parent.Resource, namespace)
	r.unknown.leave(namespace)
}

// The finalizers of the garbage collector, which deletes the children or removes their owner reference.
const (
	foreground = "foregroundDeletion"
	orphan     = "orphan"
)

// statusWait is how long a status waits for the events of children just created, which lead to another call: a status
// that counts children would be written twice. Events take milliseconds.
const statusWait = 100 * time.Millisecond

// conflictWait is the wait for the event of a parent or a child changed since the last read. The event takes
// milliseconds; the wait is for a missing event.
const conflictWait = time.Second

// Reconcile asks a hook which children and status a parent should have, and writes the difference.
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
		released := held && !holds(parent, r.finalizer()) // there is no finalize hook any more
		if released && (!selected || isGone(parent)) {
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

// paused says whether no hook is called for a parent, and tells the Observer.
func (r *reconciler) paused(ctx context.Context, parent *Object) bool {
	if !r.Spec.Paused && !conditions.IsPaused(parent.Annotations) {
		return false
	}
	apply.Tell(ctx, apply.OwnerOf(r.Parent.Resource, parent), nil,
		apply.Report{Held: "is paused: its hook is not called"})
	return true
}

// tellTooLarge records an Event about a parent too large for the cache.
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
	case r.Spec.Finalize != nil && !held && !parent.Deleting(): // selected
		return r.parents.AddFinalizer(ctx, parent, r.finalizer())
	}
	return parent, nil
}

// holds says whether a parent has any of some finalizers.
func holds(parent *Object, finalizers ...string) bool {
	return slices.ContainsFunc(parent.Finalizers, func(f string) bool { return slices.Contains(finalizers, f) })
}

// roomy calls sync with memory room for answers as large as the last.
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
	seen, err := r.observe(ctx, parent, owner, choice)
	if err != nil {
		return 0, err
	}
	groups := seen.groups
	r.statuses.asks(parent)
	decided, err := r.decideAll(ctx, hook, parent, owner, choice, seen)
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
	if finalized && parent.Deleting() {
		if parent, err = r.parents.RemoveFinalizer(ctx, parent, r.finalizer()); err != nil || isGone(parent) {
			return 0, err
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
		children = r.applyChildren(ctx, about, owner, want, decided.left)
		children.wait = apply.Earlier(apply.Earlier(children.wait, held),
			r.contested(parent, children.contested, children.pause))
	}
	if finalized && holds(parent, r.finalizer()) && children.err == nil && !children.unfinished {
		if parent, err = r.parents.RemoveFinalizer(ctx, parent, r.finalizer()); err != nil || isGone(parent) {
			return 0, err
		}
	}
	if r.Spec.IsComposite() {
		declared, err := r.declaredStatus(parent, answer.Status)
		if err != nil {
			return 0, errors.Join(children.err, err)
		}
		if r.statuses.defers(parent, string(declared), children.created && children.err == nil && !finalized) {
			return statusWait, nil
		}
		err = r.writeStatus(ctx, parent, declared)
		if errors.Is(err, apply.ErrConflict) { // the event may lead to no run (ignoreStatusChanges)
			err, children.wait = nil, apply.Earlier(children.wait, conflictWait)
		}
		children.err = errors.Join(children.err, err)
	}
	children.wait = apply.Earlier(children.wait, r.truce(parent))
	return apply.Earlier(apply.Earlier(answer.ResyncAfter, children.wait), r.Resync), children.err
}

// isGone says whether nothing holds a parent that is being deleted.
func isGone(parent *Object) bool { return parent.Deleting() && len(parent.Finalizers) == 0 }

// squeeze returns an error for a parent left alone because the namespace is over its memory budget. A change of the
// parent may make the children smaller, and is applied once: version is the version then applied, "" in a namespace
// within its budget. A parent being deleted is always reconciled: the deletion makes room.
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
