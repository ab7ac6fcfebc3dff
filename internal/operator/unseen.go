package operator

import (
	"context"
	"time"

	"skiff/internal/conditions"
	"skiff/internal/kube"
)

// unseen says in the status of a custom resource that its state is not known, and why: a Ready from before would be
// believed. All else in the status stays as it was seen last.
func (r *reconciler[T, Status, P]) unseen(ctx context.Context, key kube.Key, why string) error {
	cr, ok, err := r.objects.Get(key)
	if err != nil || !ok || cr.meta().Deleting() {
		return err
	}
	set := conditions.NotWatched(cr.meta().Annotations, why)
	before, after := P(cr.status()).common(), *cr.status()
	*P(&after).common() = Common{before.ObservedGeneration,
		set.After(before.Conditions, cr.meta().Generation, time.Now())}
	_, err = r.objects.Write(ctx, cr, *cr.status(), after)
	return err
}
