package restart

import (
	"context"
	"time"

	"skiff/internal/conditions"
	"skiff/internal/kube"
)

// unseen says in the status of a trigger that its pods cannot be seen, and why. What it has recorded stays, so that it
// goes on from there.
func (r *reconciler) unseen(ctx context.Context, key kube.Key, why string) error {
	t, ok, err := r.triggers.Get(key)
	if err != nil || !ok || t.Deleting() {
		return err
	}
	after, set := t.Status, conditions.NotWatched(t.Annotations, why)
	after.Conditions = set.After(t.Status.Conditions, t.Generation, time.Now())
	_, err = r.triggers.Write(ctx, t, t.Status, after)
	return err
}
