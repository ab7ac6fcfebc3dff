package apply

import (
	"context"
	"fmt"
	"slices"

	"skiff/internal/runtime/kube"
)

// prune deletes the children of the owner that are not declared any more, of all kinds of the engine, and releases
// those that have lost our label as well. Only objects with our controller owner reference are children.
func (a *application) prune(ctx context.Context) []Result {
	var out []Result
	for i := range a.kinds {
		kind := &a.kinds[i]
		if kind.replacing != nil {
			continue // replace has seen to these
		}
		children, err := kind.mirror.owned(a.owner.Namespace, a.owner.UID)
		if err != nil {
			out = append(out, Result{Resource: kind.resource, Outcome: Failed,
				Err: fmt.Errorf("find children to delete: %w", err)})
			continue
		}
		for _, live := range children {
			if live.content().ControllerUID() != a.owner.UID {
				continue
			}
			if m := a.mem.undeclared(kind, live.ObjectMeta().Key()); m != nil {
				t := a.unwanted(m)
				out = append(out, t.finish(t.remove(ctx, live)))
			}
		}
	}
	// What the cache does not show has gone, or has lost the label that our watch selects by.
	for _, m := range slices.Clone(a.mem.children[a.mem.wanted:]) {
		if _, cached, err := m.kind.mirror.get(m.key); err != nil || cached {
			continue
		}
		t := a.unwanted(m)
		if t.mem.trouble().deleted != "" {
			t.forget()
			continue
		}
		if r := t.release(ctx); r.Outcome != Unchanged || r.Err != nil {
			out = append(out, t.finish(r))
		}
	}
	return out
}

func (a *application) unwanted(m *memory) *operation {
	want := declared{apiVersion: m.kind.apiVersion, kind: m.kind.resource.Kind, key: m.key}
	return &operation{application: a, kind: m.kind, want: want, mem: m}
}

// remove deletes a child, and no other object that may have taken its place.
func (t *operation) remove(ctx context.Context, live object) Result {
	c := live.content()
	if t.mem.trouble().deleted == c.UID || c.Deleting() {
		return Result{Live: live} // its end comes as an event
	}
	request := "delete " + c.UID
	if err := t.mem.trouble().refusal.Standing(request); err != nil {
		return Result{Live: live, Err: err}
	}
	err := t.client.Delete(ctx, t.kind.resource, t.want.key,
		kube.DeleteOptions{UID: c.UID, Propagation: kube.Background})
	switch {
	case err == nil:
		*t.mem = memory{kind: t.kind, key: t.want.key, wrong: &trouble{deleted: c.UID}}
		return Result{Outcome: Deleted, Live: live}
	case kube.IsNotFound(err), kube.IsConflict(err): // gone, or another object has its name: an event will tell
		return Result{Outcome: Overtaken, Wait: soon, Message: fmt.Sprintf("%s has just been deleted", t)}
	case kube.IsRefused(err):
		t.mem.trouble().refusal.Note(request, err)
	}
	return Result{Live: live, Err: err}
}

// release makes an object that is not declared any more, and that has lost our label, free of the owner: whoever took
// the label off wants to keep it. Nothing remains remembered of it.
func (t *operation) release(ctx context.Context) Result {
	live, err := t.get(ctx)
	switch {
	case kube.IsNotFound(err):
		t.forget()
		return Result{}
	case err != nil:
		return Result{Err: err}
	}
	c := live.content()
	managedBy, _ := c.Labels.Get(ManagedByLabel)
	switch {
	case c.ControllerUID() != t.owner.UID:
		t.forget()
		return Result{}
	case managedBy == ManagedBy: // the cache is behind
		return Result{Live: live, Wait: soon}
	}
	// The version protects references that somebody else adds meanwhile, the uid another object of that name.
	err = t.client.Patch(ctx, t.kind.resource, t.want.key, kube.MergePatch, map[string]any{"metadata": map[string]any{
		"uid": c.UID, "resourceVersion": c.ResourceVersion, "ownerReferences": referencesBut(&c.Meta, t.owner.UID)}},
		nil, kube.WriteOptions{FieldManager: Manager})
	switch {
	case err == nil:
		t.forget()
		return Result{Outcome: Released, Live: live}
	case kube.IsNotFound(err), kube.IsInvalid(err), kube.IsConflict(err): // gone or changed: look again
		return Result{Wait: soon}
	}
	return Result{Live: live, Err: err}
}

// forget drops what is remembered of the child.
func (t *operation) forget() {
	o := t.application.mem
	o.children = slices.DeleteFunc(o.children, func(m *memory) bool { return m == t.mem })
}
