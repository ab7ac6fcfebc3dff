package apply

import (
	"context"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Recreate deletes a child that differs, and creates it again when it is gone: for what cannot be changed. Whether
// the server sees a difference, and would take the new child, it is asked before.
var Recreate Strategy = recreate{}

type recreate struct{ inPlace }

func (r recreate) plan(children []*child, now time.Time) []step {
	steps := r.inPlace.plan(children, now)
	kept := steps[:0]
	for _, s := range steps {
		switch {
		case s.does != Applied:
		case s.child.uncached: // what differs is not known
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
	if kube.IsInvalid(err) && !otherUID(err) { // it cannot be changed to that; can it be created so?
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

// tryApply asks the server what an apply would change; same says that it would be nothing but the hash.
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

// tryCreate asks the server whether it would take the child as a new one. It refuses what is wrong before it looks at
// the name, which is taken.
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
