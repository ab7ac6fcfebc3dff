package apply

import (
	"context"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Recreate deletes a child that differs, and creates the child again after the deletion: for kinds that cannot be
// changed. Before the deletion, dry runs find out whether the server sees a difference and would accept the new child.
var Recreate Strategy = recreate{}

type recreate struct{ inPlace }

func (r recreate) plan(children []*child, now time.Time) []step {
	steps := r.inPlace.plan(children, now)
	kept := steps[:0]
	for _, s := range steps {
		switch {
		case s.does != Applied:
		case s.child.uncached: // the differences are not known
			continue
		default:
			s.does, s.why = Replaced, &health.Problem{Public: "it differs in " + List(s.child.differences.texts())}
		}
		kept = append(kept, s)
	}
	return kept
}

func (r recreate) act(ctx context.Context, s step) error {
	if s.does != Replaced {
		return r.inPlace.act(ctx, s)
	}
	return s.child.recreate(ctx, s)
}

// recreate deletes a child that differs, unless the server sees no difference: then only the hash is applied.
func (c *child) recreate(ctx context.Context, s step) error {
	t := c.mem.trouble()
	if pause := t.contest.pause(c.want.hash, withChanges); pause > 0 {
		c.conclude(Contested, pause, contested, c.rival(ctx, c.differences), List(c.differences.texts()))
		return nil
	}
	request := requestOf(c.want.hash, fingerprint(c.want, c.live))
	if err := t.refusal.Standing(request); err != nil {
		return err
	}
	same, err := c.tryApply(ctx)
	if kube.IsInvalid(err) && !otherUID(err) { // the change is invalid; is the new child valid?
		err = c.tryCreate(ctx)
	}
	switch {
	case same:
		return c.apply(ctx)
	case kube.IsRefused(err):
		t.refusal.Note(request, err)
		return err
	case err != nil:
		return err
	}
	t.contest.add(c.want.hash, withChanges)
	return c.remove(ctx, s)
}

// tryApply asks the server for the effect of an apply; same says that only the hash would change.
func (c *child) tryApply(ctx context.Context) (same bool, err error) {
	live := c.live.ObjectMeta()
	if err := c.prepare(ctx, live); err != nil {
		return false, err
	}
	body, err := c.want.apply(live.UID)
	if err != nil {
		return false, err
	}
	answer := c.kind.mirror.empty()
	err = c.client.Patch(ctx, c.kind.resource, c.key, kube.ApplyPatch, body, answer,
		kube.WriteOptions{FieldManager: c.options.Manager, Force: true, DryRun: true})
	if err != nil {
		return false, err
	}
	return declaredHash(c.want, answer, "") == declaredHash(c.want, c.live, ""), nil
}

// tryCreate asks the server whether a new child would be accepted. Invalid content is refused before the server looks
// at the name, which is taken.
func (c *child) tryCreate(ctx context.Context) error {
	body, err := c.want.post(c.kind)
	if err != nil {
		return err
	}
	o := c.createOptions()
	o.DryRun = true
	err = c.client.Create(ctx, c.kind.resource, c.key.Namespace, body, nil, o)
	if kube.IsAlreadyExists(err) {
		return nil
	}
	return err
}
