package apply

import (
	"context"
	"fmt"
	"slices"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// The children in this file exist but are not held by the cache, because the child, or the whole namespace, takes too
// much memory (cache.NotServed). Only a change of the owner makes such a child smaller, so the change must reach the
// child.

// maxUnheld bounds how many children of an owner are read from the server because the cache does not hold them: each
// costs a request per Apply.
const maxUnheld = 100

// lookUncached observes a child outside the cache: whether it exists, and is being deleted. No more is needed to
// remove the child. True: the server has to be asked.
func (c *child) lookUncached(shed error) (ask bool) {
	if c.options.Unheld != nil {
		if head, ok := c.kind.mirror.head(c.key); ok && !c.ours(head) {
			c.see(head)
			return false
		}
		c.unheld = shed
		return true
	}
	c.uncached, c.err = true, shed
	if c.kind.template == nil {
		c.outcome = Failed
	} else if c.stub != nil {
		c.see(c.stub)
	}
	return false
}

// admitUnheld asks for the memory of the children to be read because they are too large for the cache, and returns the
// part of ask that can be read.
func (a *application) admitUnheld(ctx context.Context, ask []*child) []*child {
	var bytes int64
	n := 0
	for _, c := range ask {
		if c.unheld != nil {
			bytes += cache.Unheld(c.unheld).Size
			n++
		}
	}
	if n == 0 {
		return ask
	}
	err := a.options.Unheld(ctx, bytes)
	if n > maxUnheld {
		err = fmt.Errorf("%d children of %s %s are too large to be held in memory, and %d are read at most", n,
			a.owner.Resource.Kind, a.owner.Key(), maxUnheld)
	}
	if err == nil {
		return ask
	}
	return slices.DeleteFunc(ask, func(c *child) bool {
		switch {
		case c.unheld == nil:
			return false
		case c.overBudget() && n > maxUnheld:
			c.err = c.unheld
		default:
			c.err = fmt.Errorf("read %s, which is not held in memory: %w", c, err)
		}
		return true
	})
}

// overBudget says whether the namespace of an unheld child takes too much memory: nothing is created there.
func (c *child) overBudget() bool {
	shed := cache.Unheld(c.unheld)
	return shed != nil && shed.Reason == cache.OverBudget
}

// lostUncached returns the children of an owner under deletion that are named by the status and unknown to the cache:
// they may have lost our label. They are looked for when all other children are gone.
func lostUncached(all []*child) []*child {
	var lost []*child
	for _, c := range all {
		switch {
		case !c.teardown || c.live != nil:
			return nil
		case c.uncached && c.isKnown():
			lost = append(lost, c)
		}
	}
	return lost
}

// applyUncached applies the declaration to a child of ours outside the cache: once for each generation of the owner,
// because nothing shows whether the apply is needed. Only the child's metadata is read, and nothing is compared: the
// child may be as large as the server allows. The result always has the NotServed.
func (c *child) applyUncached(ctx context.Context) error {
	m := new(managed)
	err := c.client.Get(ctx, c.kind.resource, c.key, m)
	live := &m.Metadata.MetaAnnotated
	switch {
	case kube.IsNotFound(err): // just deleted, and created when the cache says so
		return nil
	case err != nil:
		c.uncached = false
		return err
	case !c.ours(live) || live.Deleting():
		return nil
	}
	for i := range m.Metadata.ManagedFields {
		if e := &m.Metadata.ManagedFields[i]; e.Manager != c.options.Manager {
			e.FieldsV1 = nil // they grow with the child
		}
	}
	c.managed = m
	var answer struct {
		kube.Meta `json:"metadata"`
	}
	if err := c.sendApply(ctx, &live.Meta, &answer); err != nil {
		c.uncached = false
		return fmt.Errorf("apply %s, which is not held in memory: %w", c, err)
	}
	c.mem.kept = c.declaredOf(c.want.keep)
	if c.outcome = Unchanged; answer.ResourceVersion != live.ResourceVersion {
		c.outcome = Applied
	}
	return nil
}

// triedFor returns the generation of the owner applied to the children outside the cache; 0: all are held, or a child
// could not be written.
func (a *application) triedFor(all []*child) int64 {
	generation := int64(0)
	for _, c := range all {
		switch {
		case a.paused:
			return a.mem.tried
		case c.want == nil || c.kind.template != nil:
		case c.uncached:
			generation = a.owner.Generation
		case cache.Unheld(c.err) != nil:
			return 0
		}
	}
	return generation
}
