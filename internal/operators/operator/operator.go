// Package operator is the Reconcile that operators with children share. An operator is a [Definition]: which children
// should exist for a custom resource, and which status follows from the children seen, both pure functions.
//
// Reconcile does the rest: it reads the custom resource, adds name, labels and owner to the children (child.go), has
// package apply write the children, turns problems into conditions (problem.go), writes the status, and has the
// actions recorded in Events (package announce). Nothing here depends on the kind of a child, except for the policy
// of pod templates (template.go).
//
// Place on the event path: Reconcile, on the controller's workers, without a goroutine of the package.
package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/podpolicy"
)

// Seen holds the result for each child, in the order of the declaration, and then for the children not declared any
// more. Where the spec is not valid, Seen holds the existing children, in any order.
type Seen []apply.Result

// Find returns a child as last seen, nil if the child does not exist or belongs to another controller.
func Find[S any](seen Seen, r kube.Resource, name string) *apply.Live[S] {
	for i := range seen {
		if seen[i].Resource == r && seen[i].Key.Name == name {
			return apply.As[S](seen[i].Live)
		}
	}
	return nil
}

// New returns the controller of an operator, which sends nothing before Run. A nil recorder means no Events; the
// caller runs the recorder.
func New[T object[Status], Status any, P status[Status]](s controller.Setup, recorder *events.Recorder,
	d Definition[T, Status]) *controller.Controller {
	s.Client = s.Client.Limit(d.Rights())
	r, sources := newReconciler[T, Status, P](s, recorder, d)
	c := s.New(d.Name, r.Reconcile, sources...)
	r.follow(c)
	return c
}

// newReconciler returns a reconciler and the sources of the keys to reconcile.
func newReconciler[T object[Status], Status any, P status[Status]](s controller.Setup, recorder *events.Recorder,
	d Definition[T, Status]) (*reconciler[T, Status, P], []controller.Source) {
	objects := controller.Mirror[T](s, d.Resource, "")
	sources := make([]controller.Source, 1, 1+len(d.Children)+len(d.Inputs))
	var kinds []apply.Kind
	for _, child := range d.Children {
		kind, source := child.connect(s, d.Resource)
		kinds, sources = append(kinds, kind), append(sources, source)
	}
	var inputs []getter
	for _, in := range d.Inputs {
		get, source := in.connect(s, objects)
		inputs, sources = append(inputs, get), append(sources, source)
	}
	r := &reconciler[T, Status, P]{
		Definition: d,
		children:   apply.New(s.Client, apply.Own(), kinds...),
		inputs:     inputs,
		events:     recorder,
		policy:     s.TemplatePolicy,
	}
	r.unready.client = s.Client
	r.objects = NewStatuses[T, Status, P](s.Client, objects, func(key kube.Key) {
		r.children.Forget(key)
		r.unready.looks.Forget(key)
	})
	sources[0] = r.objects.Source()
	return r, sources
}

// follow ties r to its controller.
func (r *reconciler[T, Status, P]) follow(c *controller.Controller) {
	r.backlog = c.Backlog
	r.found = c.Report
	shows := controller.Shows{Children: r.children.Children, Short: r.ShortNames, Example: r.Example}
	if r.Pods {
		shows.Pods = func(ctx context.Context, owner kube.Object) (controller.Pods, error) {
			m := owner.ObjectMeta()
			return r.unready.shown(ctx, m.Namespace, Selector(r.Name, m.Name), time.Now())
		}
	}
	c.Show(shows)
	c.Remembers(r.children, r.objects, &r.unready.looks)
}

type reconciler[T object[Status], Status any, P status[Status]] struct {
	Definition[T, Status]
	objects  *Statuses[T, Status, P]
	children *apply.Engine
	inputs   []getter // of Definition.Inputs
	events   *events.Recorder
	policy   podpolicy.Policy
	unready  unready
	backlog  func() int                            // of the controller
	found    func(key kube.Key, p *health.Problem) // Report of the controller
}

// Reconcile makes the children of a custom resource as declared, and the status as seen.
func (r *reconciler[T, Status, P]) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	cr, ok, err := r.objects.Get(ctx, key)
	if err != nil {
		return controller.Done, err
	}
	if !ok {
		return controller.Gone, nil
	}
	if cr.meta().Deleting() && !(r.Finalizer != "" && slices.Contains(cr.meta().Finalizers, r.Finalizer)) {
		return r.held(ctx, cr)
	}
	f := &findings{kind: r.Resource.Kind}
	if cr.meta().Deleting() {
		r.teardown(ctx, cr, f)
	} else {
		cr = r.converge(ctx, cr, f)
	}
	about := announcer{announce.Announcer{Events: r.events, Resource: r.Resource, Object: cr}}
	about.Actions(ctx, f.seen)
	if f.removed {
		kind := r.children.ReplacedKind()
		about.Event(events.Normal, kind+"sDeleted",
			fmt.Sprintf("all %ss are deleted; deleting the %s", strings.ToLower(kind), r.Resource.Kind), nil)
	}
	if err := f.err(); controller.IsShed(err) {
		return controller.Done, err
	}
	f.explain(ctx)
	if f.good() && r.Known == nil && r.backlog() > 0 { // Known must not wait
		return controller.Behind("its children were written"), nil
	}
	if !f.stale {
		r.report(ctx, cr, f, about)
	}
	err = f.err()
	if f.wait > 0 && controller.IsTerminal(err) { // a refused write must not hold up the rest
		logr.FromContextOrDiscard(ctx).Info("refused", "error", err.Error())
		return controller.After(f.wait), nil
	}
	return controller.Wait(f.wait), err
}

// ownerOf returns the custom resource as the owner of its children.
func (r *reconciler[T, Status, P]) ownerOf(cr T) apply.Owner {
	owner := apply.OwnerOf(r.Resource, cr)
	owner.Spec = cr.spec()
	owner.Adopt, _ = conditions.Flag(cr.meta().Annotations, apply.AdoptAnnotation)
	if r.Known != nil {
		owner.Known = r.Known(cr)
	}
	return owner
}

// converge makes the children as declared, or if the custom resource is paused only compares. The returned custom
// resource may have a new finalizer.
func (r *reconciler[T, Status, P]) converge(ctx context.Context, cr T, f *findings) T {
	owner := r.ownerOf(cr)
	inputs, err := r.read(cr)
	if err != nil {
		f.errs, f.stale = append(f.errs, err), true
		return cr
	}
	if len(inputs) > 0 {
		owner.Spec = &declaration{owner.Spec, inputs}
	}
	if r.Finalizer == "" || slices.Contains(cr.meta().Finalizers, r.Finalizer) {
		if report, ok := r.children.InSync(owner); ok {
			r.see(cr, &report, f)
			return cr
		}
	}
	want, err := r.Declare(cr, inputs...)
	p := health.Problem{Reason: "InvalidSpec", Public: "the spec is not valid", Next: "correct the spec",
		Severity: health.Stalled}
	if err != nil {
		p.Quoted = err.Error()
	} else if err = checkTemplates(r.policy, want); err != nil { // in words of skiff, with the paths of fields
		p.Reason, p.Public, p.Next = "TemplateRefused", err.Error(), "correct spec.template"
	}
	if err != nil {
		f.errs = append(f.errs, controller.TerminalFor(p.Reason, err))
		f.problem = &p
		if f.seen, err = r.children.Owned(ctx, owner); err != nil {
			f.errs, f.stale = append(f.errs, err), true
		}
		return cr
	}
	hold := conditions.IsPaused(cr.meta().Annotations)
	if r.Finalizer != "" && !hold {
		// Before the first child, and confirmed: if deleted now, cr still has its children removed in order.
		before := cr
		if cr, err = r.objects.AddFinalizer(ctx, cr, r.Finalizer); err != nil {
			cr, hold = before, true
			f.failOwner(err)
		}
	}
	report := r.children.Apply(ctx, owner, want, hold)
	r.see(cr, &report, f)
	if !conditions.IsPaused(cr.meta().Annotations) {
		f.paused = nil // nothing was changed because of the finalizer, which is reported
	}
	return cr
}

// declaration is the source of the children, if inputs are read beside the spec.
type declaration struct {
	spec   any
	inputs []input
}

// read returns the objects that the inputs of a custom resource name.
func (r *reconciler[T, Status, P]) read(cr T) ([]input, error) {
	var out []input
	for i, in := range r.Inputs {
		for _, name := range in.names(cr) {
			object, err := r.inputs[i](kube.Key{Namespace: cr.meta().Namespace, Name: name})
			if err != nil {
				return nil, fmt.Errorf("read %s %s: %w", in.resource.Kind, name, err)
			}
			out = append(out, input{in.resource, name, object})
		}
	}
	return out, nil
}

// see takes in the results of the children.
func (r *reconciler[T, Status, P]) see(cr T, report *apply.Report, f *findings) {
	f.seen = report.All()
	if report.Err != nil {
		f.errs, f.stale = append(f.errs, report.Err), true
	}
	for i := range f.seen {
		var special *health.Problem
		if r.Problem != nil {
			special = r.Problem(cr, f.seen[i])
		}
		f.add(&f.seen[i], special)
	}
}

// teardown removes the replaced children, one after the other, and then the finalizer, in spite of a pause or an
// invalid spec.
func (r *reconciler[T, Status, P]) teardown(ctx context.Context, cr T, f *findings) {
	var err error
	// With --cascade=orphan the user wants to keep the children, which the garbage collector frees.
	if !slices.Contains(cr.meta().Finalizers, "orphan") {
		if f.seen, err = r.children.Teardown(ctx, r.ownerOf(cr)); err != nil {
			f.errs, f.stale = append(f.errs, err), true
			return
		}
		for i := range f.seen {
			f.add(&f.seen[i], nil)
			f.stale = f.stale || f.seen[i].Uncached
		}
		if len(f.seen) > 0 {
			return
		}
	}
	if _, err := r.objects.RemoveFinalizer(ctx, cr, r.Finalizer); err != nil {
		f.failOwner(err)
		return
	}
	f.stale, f.removed = true, true
}

// held writes that a custom resource is being deleted, with the foreign finalizers. Children are still counted where
// known, and no longer written.
func (r *reconciler[T, Status, P]) held(ctx context.Context, cr T) (controller.Outcome, error) {
	set, after := conditions.HeldBy(cr.meta().Annotations, cr.meta().Finalizers), *cr.status()
	if seen, err := r.children.Owned(ctx, r.ownerOf(cr)); err == nil {
		after, _ = r.Observe(cr, seen, health.Problem{})
	}
	r.found(cr.meta().Key(), set.Problem)
	*P(&after).common() = CommonOf(P(cr.status()).common(), &set, cr.meta().Generation, since(cr))
	return HeldOutcome(r.objects.Write(ctx, cr, *cr.status(), after))
}

// HeldOutcome returns the Outcome of a status write to an object being deleted. The object may be gone by now, which
// is no error.
func HeldOutcome(_ bool, err error) (controller.Outcome, error) {
	switch {
	case kube.IsNotFound(err) && errors.Is(err, apply.ErrConflict):
		return controller.Done, nil
	case errors.Is(err, apply.ErrConflict):
		return controller.After(soon), nil
	}
	return controller.Done, err
}

// since is the transition time of conditions that change. An object being deleted gets the time of the deletion: a
// status not held in memory would otherwise differ with each write, and never come to rest.
func since[T object[Status], Status any](cr T) time.Time {
	if cr.meta().Deleting() {
		return cr.meta().DeletionTimestamp
	}
	return time.Now()
}

// report writes the status that follows from the findings, and records the changes of conditions.
func (r *reconciler[T, Status, P]) report(ctx context.Context, cr T, f *findings, about announcer) {
	before := P(cr.status()).common()
	unready, again := r.unready.of(ctx, cr.meta().Key(), func(now time.Time) (string, time.Time) {
		if r.Waits == nil {
			return "", now
		}
		return r.Waits(cr, f.seen, now)
	})
	f.wait = apply.Earlier(f.wait, again)
	after, set := r.Observe(cr, f.seen, unready)
	f.wait = apply.Earlier(f.wait, set.Recheck)
	if paused := conditions.PausedFor(cr.meta().Annotations); paused.Status == conditions.True &&
		r.children.ReplacedKind() != "" && !cr.meta().Deleting() { // there is no other controller that goes on
		set.Progressing = conditions.New(conditions.Progressing, false, conditions.Paused, paused.Message)
	}
	f.mergeInto(&set, before.Conditions, cr.meta().Generation, conditions.PausedFor(cr.meta().Annotations))
	r.found(cr.meta().Key(), set.Problem)
	set.Terminating = cr.meta().Deleting()
	*P(&after).common() = CommonOf(before, &set, cr.meta().Generation, since(cr))
	changed, err := r.objects.Write(ctx, cr, *cr.status(), after)
	switch {
	case errors.Is(err, apply.ErrConflict):
		f.wait = apply.Earlier(f.wait, soon)
	case err != nil:
		f.errs = append(f.errs, err)
	case changed:
		about.news(ctx, f, before.Conditions, P(&after).common().Conditions)
	}
}

// soon is the wait where the next event should bring the missing state, in case the event does not come.
const soon = time.Second
