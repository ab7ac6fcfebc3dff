// Package reconcile runs one hook controller: it reads a parent and what it owns, has a hook say what should exist,
// and makes it so.
//
// Its job is what lies between a hook and the cluster: which parents there are, which children are theirs,
// finalizers, status, and the order of all that. It has package apply write the children, package wire read answers,
// and its caller call the hooks; which controllers run is package supervise's. A CompositeController and a
// DecoratorController differ in how children are known, and in what an answer says of the parent.
//
// Place on the event path: it is Reconcile, and runs on the controller's workers. It starts no goroutine.
package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Manager is the field manager of children, the same as metacontroller's when it applies.
const Manager = "metacontroller"

// DecoratorAnnotation names the DecoratorController that an attachment belongs to.
const DecoratorAnnotation = "metacontroller.k8s.io/decorator-controller"

// defaultWorkers is how many parents are reconciled at a time, as in metacontroller.
const defaultWorkers = 5

// Options say what a controller works on, and who decides.
type Options struct {
	Spec     *spec.Controller
	Rule     spec.Parent        // of Spec.Parents
	Parent   discovery.Resource // what it names
	Children []kube.Resource    // what Spec.Children name
	// Call calls a hook and returns the body of its answer. A *call.Later asks for another try after a while.
	Call func(ctx context.Context, hook wire.Hook, parent *kube.Meta, request []byte) ([]byte, error)
	// Changes returns another number when a hook has changed: then the customize hook is called again; nil: it never
	// does.
	Changes func() int64
	// Brake holds what a hook that has changed would delete; nil: nothing is held.
	Brake *Brake
	// HasConditions says whether the definition of the parents has status.conditions, as far as the server tells: see
	// Synced; nil: it has none.
	HasConditions func(ctx context.Context) bool
	// Notes takes what is not as it should be with children and is no failure; nil: it is in Events alone.
	Notes *Notes
	// Others names the other hook controllers of the parent resource; nil: they are not known.
	Others func() []string
	// Manager is the field manager of the children; "": Manager.
	Manager string
	Resync  time.Duration // how often a parent is reconciled without a change, where Spec has none; 0: never
	// Memory bounds what answers take, those of all controllers together; nil: nothing does.
	Memory *call.Memory
}

// Name returns the name of the controller of a parent resource. A DecoratorController has one for each of its
// resources.
func (o *Options) Name() string {
	if o.Spec.IsComposite() {
		return o.Spec.Name
	}
	return o.Spec.Name + "." + o.Parent.GroupResource()
}

// Finalizer returns what is on each parent of a controller as long as it has a finalize hook.
func Finalizer(c *spec.Controller) string {
	return "metacontroller.io/" + strings.ToLower(c.Kind) + "-" + c.Name
}

func (o *Options) finalizer() string { return Finalizer(o.Spec) }

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
	stored    kind // the ControllerRevisions that are there
}

// kind is one kind of children.
type kind struct {
	kube.Resource
	mirror *cache.Store[*Object]
}

// New returns the controller of one parent resource. It sends nothing before Run. A nil recorder means no Events; who
// made it runs it.
func New(s controller.Setup, recorder *events.Recorder, o Options) *controller.Controller {
	o.Manager = cmp.Or(o.Manager, Manager)
	if o.Changes == nil {
		o.Changes = func() int64 { return 0 }
	}
	o.Resync = cmp.Or(o.Spec.Resync, o.Resync)
	r := &reconciler{Options: o, events: recorder, related: newRelated(s),
		unknown: unknownFields{of: map[kube.Resource]map[string]time.Time{}}}
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
		children = append(children, apply.Of(m, strategyOf(o.Spec.Children[i].Method)).Whole())
		sources = append(sources, controller.Watches(m, func(child *Object) []kube.Key {
			return r.parentsOf(objects, child)
		}))
	}
	if o.Spec.Rolls() {
		m := controller.Mirror[*Object](s, spec.Revisions, "")
		m.IndexMeta(orphanIndex, orphanTerms)
		r.stored = kind{spec.Revisions, m}
		r.revisions = apply.New(s.Client, apply.Options{Manager: o.Manager, ByClaim: true},
			apply.Of(m, apply.InPlace).Whole())
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
	c.Show(controller.Shows{Children: r.engine.Children, Foreign: !o.Spec.IsComposite(), Works: r.worksFor})
	c.Remembers(r.engine, r.parents, &r.statuses, r.related, r)
	if r.revisions != nil {
		c.Remembers(r.revisions)
	}
	r.related.attach = c.Attach
	return c
}

// onlyStatus says that an update of a parent has changed nothing but its status.
func onlyStatus(was, is *Object) bool {
	return was.Generation == is.Generation && slices.Equal(was.Labels, is.Labels) &&
		slices.Equal(was.Annotations, is.Annotations) && !is.Deleting()
}

// hooksTimeout is how long the hooks of one run may take together.
func (o *Options) hooksTimeout() (all time.Duration) {
	for _, h := range o.Spec.Hooks() {
		all += h.Timeout
	}
	return all
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

// isOurs says whether an object that a parent controls is a child by this controller: several of them can have the
// same parent.
func (r *reconciler) isOurs(head *kube.MetaAnnotated) bool {
	decorator, decorated := head.Annotations.Get(DecoratorAnnotation)
	if r.Spec.IsComposite() {
		return !decorated
	}
	return decorator == r.Spec.Name
}

// hookOf returns a hook of the controller, nil if it has none.
func (r *reconciler) hookOf(hook wire.Hook) *spec.Hook {
	switch hook {
	case wire.Finalize:
		return r.Spec.Finalize
	case wire.Customize:
		return r.Spec.Customize
	}
	return r.Spec.Sync
}

// selects says whether hooks are called for a parent.
func (o *Options) selects(parent *Object) bool {
	return o.Rule.Labels.Match(parent.Labels) && o.Rule.Annotations.Match(parent.Annotations)
}

// worksFor says whether the controller does anything for a parent: it may have a finalizer of its from before.
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

// Leave drops the parents of a namespace from Brake and Notes.
func (r *reconciler) Leave(namespace string) {
	if r.Brake != nil {
		r.Brake.leave(r.Parent.Resource, namespace)
	}
	r.Notes.leave(r.Parent.Resource, namespace)
}

// smallAnswer is the length of an answer that is decoded without asking for room: it takes a megabyte at most.
const smallAnswer = 64 << 10

// copies is how often the texts of an answer are in memory beside what it is decoded to: as they came, encoded to be
// compared, encoded to be sent, and in the request.
const copies = 4

// admitUnheld takes the room for children that are read because they are too large for the cache: a hook gets them
// whole, as those that are held.
func admitUnheld(ctx context.Context, bytes int64) error {
	return call.RoomOf(ctx).Take(copies * bytes)
}

// ask calls a hook, and takes the room that its answer needs to be decoded.
func (r *reconciler) ask(ctx context.Context, hook wire.Hook, parent *Object, request []byte) ([]byte, error) {
	room := call.RoomOf(ctx)
	before := room.Taken()
	answer, err := r.Call(ctx, hook, parent.ObjectMeta(), request)
	if err != nil {
		return nil, ofHook(err) // which names the hook
	}
	room.Give(room.Taken() - before) // what it took to read it, for more bytes than came
	if len(answer) <= smallAnswer {
		return answer, nil
	}
	decoded, err := wire.Memory(answer)
	if err == nil {
		err = room.Take(int64(copies*len(answer) + decoded))
	}
	if err != nil {
		return nil, fmt.Errorf("answer of the %s hook: %w", hook, err)
	}
	return answer, nil
}

// resources are those of the kinds of children.
func (r *reconciler) resources() []kube.Resource {
	out := make([]kube.Resource, len(r.kinds))
	for i := range r.kinds {
		out[i] = r.kinds[i].Resource
	}
	return out
}

// holds says whether one of some finalizers is on a parent.
func holds(parent *Object, finalizers ...string) bool {
	return slices.ContainsFunc(parent.Finalizers, func(f string) bool { return slices.Contains(finalizers, f) })
}
