package apply

import (
	"context"
	"fmt"

	"skiff/internal/runtime/kube"
)

// Adopt makes the orphans, objects of one kind without a controller, children of an owner, whatever their content, and
// returns the new children. Where an orphan is changed or gone meanwhile the error is ErrConflict: a decision made
// without the orphan would be wrong. Nothing is adopted for an owner that is gone or being deleted, by the server's
// word.
func (e *Engine) Adopt(ctx context.Context, owner Owner, r kube.Resource, orphans []kube.Object) (
	adopted []kube.Object, err error) {
	a := e.application(owner, false)
	for _, orphan := range orphans {
		c, err := a.named(r, orphan.ObjectMeta().Key())
		if err != nil {
			return adopted, err
		}
		if gone, err := c.goneWithOwner(ctx); gone || err != nil {
			return adopted, err
		}
		m := orphan.ObjectMeta()
		err = c.patch(ctx, map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion,
			"ownerReferences": append(referencesBut(m, ""), owner.Reference())})
		switch {
		case err != nil:
			return adopted, fmt.Errorf("adopt %s: %w", c, err)
		case c.live != nil:
			a.remember(c)
			adopted = append(adopted, c.live)
		case c.wait > 0: // see patch
			return adopted, fmt.Errorf("adopt %s: %w", c, ErrConflict)
		}
	}
	return adopted, nil
}

// Release takes the owner's reference off a child, leaving an object without a controller. Where the child is changed
// or gone meanwhile the error is ErrConflict: the object may still be a child, and an Apply would delete the object or
// restore the labels.
func (e *Engine) Release(ctx context.Context, owner Owner, r kube.Resource, live kube.Object) error {
	a := e.application(owner, false)
	c, err := a.named(r, live.ObjectMeta().Key())
	if err != nil {
		return err
	}
	c.live = live
	if err := c.release(ctx, "its labels do not fit any more"); err != nil {
		return fmt.Errorf("release %s: %w", c, err)
	}
	if c.outcome != Released {
		return fmt.Errorf("release %s: %w", c, ErrConflict)
	}
	a.remember(c) // the cache may show a child for a moment
	return nil
}

// named returns the child of a name with its memory.
func (a *application) named(r kube.Resource, key kube.Key) (*child, error) {
	kind := a.kindOf(r.APIVersion(), r.Kind)
	if kind == nil {
		return nil, fmt.Errorf("%s is of a kind that the engine was not made for", r.Kind)
	}
	c := &child{application: a, kind: kind, key: key}
	for _, m := range a.mem.children {
		if m.kind == kind && m.key == c.key {
			c.mem = m
		}
	}
	if c.mem == nil {
		c.mem = &memory{kind: kind, key: c.key}
	}
	return c, nil
}

// remember keeps the memory of a child for the next call.
func (a *application) remember(c *child) {
	for _, m := range a.mem.children {
		if m == c.mem {
			return
		}
	}
	a.mem.children = append(a.mem.children, c.mem)
}

// Known returns the newest known copy of a child, nil if the child is missing or being deleted.
func (e *Engine) Known(owner Owner, r kube.Resource, key kube.Key) kube.Object {
	c, err := e.application(owner, true).named(r, key)
	if err != nil || !c.lookAgain() || !c.stays() {
		return nil
	}
	return c.live
}

// Fits says whether a copy of a child is as declared, as far as known without a request.
func (e *Engine) Fits(owner Owner, want Child, live kube.Object) bool {
	a := e.application(owner, true)
	n, d, err := a.declare(&want)
	if err != nil {
		return false
	}
	c, err := a.named(n.kind.resource, n.key)
	if err != nil {
		return false
	}
	if c.see(live); !c.stays() {
		return false
	}
	if c.want = d; c.isSynced() {
		return true
	}
	differences, err := c.compare(c.live)
	return err == nil && differences.none()
}
