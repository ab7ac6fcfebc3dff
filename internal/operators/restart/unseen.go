package restart

import (
	"context"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
)

// unseen says in the status of a trigger that its pods cannot be seen, and why. What it has recorded stays, so that it
// goes on from there.
func (r *reconciler) unseen(ctx context.Context, key kube.Key, why string) error {
	t, ok, err := r.triggers.Get(key)
	if err != nil || !ok || t.Deleting() {
		return err
	}
	return r.say(ctx, t, conditions.NotWatched(t.Annotations, why))
}

func (r *reconciler) say(ctx context.Context, t *RestartTrigger, set conditions.Set) error {
	after := t.Status
	after.Conditions = set.After(t.Status.Conditions, t.Generation, time.Now())
	_, err := r.triggers.Write(ctx, t, t.Status, after)
	return err
}

// shed says in the status of a trigger that nothing is done for it, because it or its pods take too much memory. What
// it has recorded stays.
func (r *reconciler) shed(ctx context.Context, key kube.Key, reason, message string) error {
	set := conditions.NotHeld(reason, message)
	t, ok, err := r.triggers.Get(key)
	switch {
	case err != nil:
		r.memories.Delete(key)
		return r.triggers.WriteShed(ctx, key, func(generation int64) any {
			return set.After(nil, generation, time.Now())
		})
	case !ok:
		return nil
	}
	set.Paused = conditions.PausedFor(t.Annotations)
	return r.say(ctx, t, set)
}
