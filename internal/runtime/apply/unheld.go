package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// This file is about children that exist and that the cache does not hold, because they, or all of their namespace,
// take too much memory (cache.ShedError). A change of their owner is what makes them smaller, so it must reach them.

// applyUnheld applies what is declared to a child that the cache does not hold, if there is one of ours: once for each
// generation of the owner, because nothing shows whether it is needed. It reads the child's metadata alone, and
// compares nothing: the child may be as large as the server takes. The result always has the ShedError.
func (t *operation) applyUnheld(ctx context.Context, shed error) Result {
	r := Result{Outcome: Failed, Unheld: true, Err: shed}
	if t.hold || t.kind.strategy.onDelete || t.application.mem.tried == t.owner.Generation {
		return r
	}
	m := new(managed)
	err := t.client.Get(ctx, t.kind.resource, t.want.key, m)
	live := &Content{}
	live.Meta = m.Metadata.Meta
	switch {
	case kube.IsNotFound(err): // it has just been deleted, and is created when the cache says so
		return r
	case err != nil:
		return Result{Err: errors.Join(shed, err)}
	case !t.isChild(live):
		return r
	}
	for i := range m.Metadata.ManagedFields {
		if e := &m.Metadata.ManagedFields[i]; e.Manager != Manager {
			e.FieldsV1 = nil // they grow with the child
		}
	}
	t.managed = m
	body, err := t.want.apply(live.UID)
	if err == nil {
		err = t.prepare(ctx, live)
	}
	var answer struct {
		kube.Meta `json:"metadata"`
	}
	if err == nil {
		err = t.client.Patch(ctx, t.kind.resource, t.want.key, kube.ApplyPatch, body, &answer,
			kube.WriteOptions{FieldManager: Manager, Force: true})
	}
	if err != nil {
		return Result{Err: errors.Join(shed, fmt.Errorf("apply %s, which is not held in memory: %w", t, err))}
	}
	t.mem.held = t.declaredOf(t.want.keep)
	if r.Outcome = Unchanged; answer.ResourceVersion != live.ResourceVersion {
		r.Outcome = Applied
	}
	return r
}

// tried returns the generation of the owner for which the children that the cache does not hold have got what it
// declares; 0: all are held, or one could not be written.
func (a *application) tried(r *Report) int64 {
	if a.hold {
		return a.mem.tried
	}
	generation := int64(0)
	for i := range r.Children {
		switch c := &r.Children[i]; {
		case c.Unheld:
			generation = a.owner.Generation
		case cache.AsShed(c.Err) != nil:
			return 0
		}
	}
	return generation
}

// lookUnheld is look where the cache does not hold all children of the kind: which there are, and which are being
// deleted, is known all the same, and enough to remove those that are not declared.
func (r *replacement) lookUnheld(children []*Child) error {
	known, err := r.known(r.owner.Namespace, r.owner.UID)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.resource.Plural, err)
	}
	live := make(map[kube.Key]kube.Object, len(known))
	others := make(map[kube.Key]bool, len(known)+len(r.owner.Known))
	for _, object := range known {
		if !r.ours(object) {
			continue
		}
		live[object.ObjectMeta().Key()], others[object.ObjectMeta().Key()] = object, true
	}
	for k := range r.owner.Known {
		others[k] = true
	}
	slots, err := newSlots(r.owner, r.revision, children, others)
	if err != nil {
		return fmt.Errorf("declare %s of %s %s: %w", r.resource.Plural, r.owner.Resource.Kind, r.owner.Key(), err)
	}
	for _, s := range slots {
		if s.live = live[s.key]; s.live != nil {
			m := r.mem.children[s.key]
			s.deleting = deleting(s.live) || m != nil && m.removed == uidOf(s.live)
		}
	}
	r.slots = slots
	return nil
}

// removeUnheld removes the last child that is not declared, and returns what came of it.
func (r *replacement) removeUnheld(ctx context.Context, children []*Child) ([]Result, error) {
	if err := r.lookUnheld(children); err != nil {
		return nil, err
	}
	surplus := slices.DeleteFunc(slices.Clone(r.slots), func(s *slot) bool { return s.want != nil })
	r.take(ctx, remove(surplus, fmt.Sprintf("%d are declared", len(children))))
	return r.unheldResults(), nil
}

// teardownUnheld removes the last child of an owner that is being deleted. One that the status names and the cache
// does not know may have lost our label: it is looked for when all others are gone.
func (r *replacement) teardownUnheld(ctx context.Context, why string) ([]Result, error) {
	if err := r.lookUnheld(nil); err != nil {
		return nil, err
	}
	for _, s := range slices.Backward(r.slots) {
		if slices.ContainsFunc(r.slots, func(s *slot) bool { return s.live != nil }) {
			break
		}
		if r.mayBeLost(s) {
			if err := r.find(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	r.take(ctx, remove(r.slots, why))
	return r.unheldResults(), nil
}

// unheldResults returns what came of the children that are not declared.
func (r *replacement) unheldResults() []Result {
	_, surplus := r.results()
	for i := range surplus {
		surplus[i].Unheld = true
		surplus[i].Wait = cmp.Or(surplus[i].Wait, recheck) // its end comes as an event
	}
	return surplus
}
