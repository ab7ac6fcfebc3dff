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

// ReplaceOptions say how children of a kind are replaced that are made from one template and cannot be changed, such
// as pods. All of it is data and pure functions.
type ReplaceOptions[T kube.Object] struct {
	New func() T // a child to read into
	// Revision is the key of the label that identifies a child's template. Every child declares a value. A child with
	// another value is replaced.
	Revision string
	// Selector are the keys of the labels by which the children are found. Lost labels are restored, and an object
	// without an owner is adopted only with the declared values.
	Selector []string
	// Ready says whether a child is ready, and since when.
	Ready func(T) (since time.Time, ok bool)
	// Ended says how a child ended, and false if the child has not ended.
	Ended func(T) (how string, ended bool)
}

// Replace returns a kind whose children, held by a mirror, are replaced: missing children are created, and a child of
// another revision is deleted and created again, the last declared first.
func Replace[T kube.Object](m *cache.Store[T], o ReplaceOptions[T]) Kind {
	kind := kindOf(m, func() kube.Object { return o.New() }, replace{})
	kind.template = &template{
		revision: o.Revision,
		selector: o.Selector,
		ready:    func(object kube.Object) (time.Time, bool) { return o.Ready(object.(T)) },
		ended:    func(object kube.Object) (string, bool) { return o.Ended(object.(T)) },
	}
	return kind
}

// template describes the children made from one template; see ReplaceOptions.
type template struct {
	revision string
	selector []string
	ready    func(kube.Object) (time.Time, bool)
	ended    func(kube.Object) (string, bool)
}

// vitals are the state of a child made from a template.
type vitals struct {
	made    string // the revision of the child's template
	ended   bool   // how says how
	how     string
	ready   bool // since then
	since   time.Time
	replace time.Time // earliest replacement of an ended child
}

func (t *template) vitalsOf(live kube.Object) vitals {
	var h vitals
	h.made, _ = live.ObjectMeta().Labels.Get(t.revision)
	h.how, h.ended = t.ended(live)
	h.since, h.ready = t.ready(live)
	return h
}

// current says whether the child is of the declared revision.
func (c *child) current() bool { return c.stays() && c.vitals.made == c.want.hash }

// available says whether the child has been ready for long enough; wait is the missing time of a ready child.
func (c *child) available(now time.Time) (ok bool, wait time.Duration) {
	if !c.stays() || !c.vitals.ready {
		return false, 0
	}
	if c.want != nil {
		wait = max(0, c.vitals.since.Add(c.want.minReady).Sub(now))
	}
	return wait == 0, wait
}

// describe adds the state of a child made from a template.
func (c *child) describe(r *Result) {
	now := time.Now()
	available, missing := c.available(now)
	r.Wait, r.Revision, r.WaitsMinReady = Earlier(r.Wait, missing), c.vitals.made, missing > 0
	if c.want == nil {
		if c.uncached {
			r.Wait = cmp.Or(r.Wait, recheck) // the end comes as an event
		}
		return
	}
	if r.Declared = c.want.hash; c.mem.wrong != nil && !available && !c.deleting {
		r.Ending, r.Pause = c.mem.wrong.crash.ending(c.want.hash, now)
	}
}

// missing returns the Selector's labels that are not as declared on an object.
func (c *child) missing(object kube.Object) map[string]any {
	keys := c.kind.template.selector
	if c.options.ManagedBy != "" {
		keys = append(slices.Clip(keys), ManagedByLabel)
	}
	var out map[string]any
	for _, key := range keys {
		if have, ok := object.ObjectMeta().Labels.Get(key); !ok || have != c.want.labels[key] {
			if out == nil {
				out = map[string]any{}
			}
			out[key] = c.want.labels[key]
		}
	}
	return out
}

// replace is the strategy of children made from one template. They are never changed, except for their labels.
type replace struct{}

func (r replace) plan(children []*child, now time.Time) []step {
	if len(children) > 0 && children[0].teardown {
		return removal(children, "its "+children[0].owner.Resource.Kind+" is being deleted")
	}
	surplus := slices.DeleteFunc(slices.Clone(children), func(c *child) bool { return c.want != nil })
	if slices.ContainsFunc(children, func(c *child) bool { return c.uncached }) {
		return removal(surplus, fmt.Sprintf("%d are declared", len(children)-len(surplus)))
	}
	var steps []step
	var others []*child
	for _, c := range children {
		does, ok := r.repair(c)
		if ok {
			steps = append(steps, step{child: c, does: does})
		}
		if !ok || does != Released {
			others = append(others, c)
		}
	}
	return append(steps, plan(others, now)...)
}

// repair says what to do about a child before all else: an object provably ours is adopted, an undeclared child
// without our label is released, and lost Selector labels are restored. A child in no need of repair is marked as in
// sync.
func (r replace) repair(c *child) (does Outcome, ok bool) {
	switch {
	case c.want == nil:
		return Released, c.stays() && !c.options.labelled(c.live)
	case c.other != nil:
		return Adopted, c.adoptable()
	case c.stays() && len(c.missing(c.live)) > 0:
		return Unchanged, true
	case c.current() && !c.vitals.ended:
		c.unchanged()
	}
	return Unchanged, false
}

func (r replace) act(ctx context.Context, s step) error {
	c := s.child
	switch s.does {
	case Created:
		if met, err := c.create(ctx); !met {
			return err
		}
		if does, ok := r.repair(c); ok {
			return r.act(ctx, step{child: c, does: does})
		}
		return nil
	case Adopted:
		return c.adoptLabelled(ctx)
	case Released:
		return c.release(ctx, unlabelled)
	case Unchanged:
		return c.relabel(ctx)
	case Rolled:
		if err := c.try(ctx); err != nil {
			return err
		}
	}
	return c.remove(ctx, s)
}

// try asks the server whether a child of the declared revision would be accepted, before a roll deletes the first old
// child: a refused template must not cost a child. Invalid content is refused before the server looks at the name,
// which is taken.
func (c *child) try(ctx context.Context) error {
	owned := c.application.mem
	if owned.accepted[c.kind] == c.want.hash {
		return nil
	}
	request := requestOf(c.want.hash, 0)
	if err := c.mem.refused(request); err != nil {
		return err
	}
	o := c.createOptions()
	o.DryRun = true
	err := c.client.Create(ctx, c.kind.resource, c.key.Namespace, c.want.plain, nil, o)
	switch {
	case err == nil, kube.IsAlreadyExists(err):
		if owned.accepted == nil {
			owned.accepted = map[*Kind]string{}
		}
		owned.accepted[c.kind] = c.want.hash
		return nil
	case kube.IsRefused(err):
		c.mem.trouble().refusal.Note(request, err)
	}
	return err
}

// findLost looks for declared children that may be lost after the POSTs have been sent: a POST refused or not sent has
// not met the existing object. Unless the status goes on naming the child, nothing finds it later.
func (a *application) findLost(ctx context.Context, all []*child) {
	for _, c := range all {
		if c.kind.template == nil || c.want == nil || c.live != nil || c.other != nil || c.uncached || !c.isKnown() {
			continue
		}
		err := c.ask(ctx)
		if err == nil && c.stays() && len(c.missing(c.live)) > 0 {
			err = c.relabel(ctx)
		}
		c.err = errors.Join(c.err, err)
	}
}

// relabel restores the labels by which a child is found, by our watch and by other programs.
func (c *child) relabel(ctx context.Context) error {
	return c.patch(ctx, map[string]any{"uid": uidOf(c.live), "labels": c.missing(c.live)})
}

// patch changes the metadata of an object and takes in the answer.
func (c *child) patch(ctx context.Context, metadata map[string]any) error {
	answer := c.kind.mirror.empty()
	err := c.client.Patch(ctx, c.kind.resource, c.key, kube.MergePatch, map[string]any{"metadata": metadata}, answer,
		kube.WriteOptions{FieldManager: c.options.Manager})
	if kube.IsNotFound(err) || kube.IsConflict(err) {
		c.requeue(soon) // changed or gone; either comes as an event
		return nil
	}
	if err == nil {
		c.see(answer)
		c.mem.written.set(answer)
	}
	return err
}
