package operator

import (
	"context"
	"time"

	"skiff/internal/conditions"
	"skiff/internal/kube"
)

// notWatched is the reason of all conditions of a custom resource whose namespace cannot be watched.
const notWatched = "NotWatched"

// unseen says in the status of a custom resource that its state is not known, and why: a Ready from before would be
// believed. All else in the status stays as it was seen last.
func (r *reconciler[Spec, Status, P]) unseen(ctx context.Context, key kube.Key, why string) error {
	cr, ok, err := r.objects.Get(key)
	if err != nil || !ok || cr.Deleting() {
		return err
	}
	message := "the present state is not known: " + why
	set := conditions.NewSet(cr.Annotations)
	unknown := func(kind string, status conditions.Status) conditions.Condition {
		return conditions.Condition{Type: kind, Status: status, Reason: notWatched, Message: message}
	}
	set.Ready = unknown(conditions.Ready, conditions.Unknown)
	set.Progressing = unknown(conditions.Progressing, conditions.Unknown)
	set.Degraded = unknown(conditions.Degraded, conditions.Unknown)
	set.Stalled = unknown(conditions.Stalled, conditions.True)
	before := P(&cr.Status).common()
	after := cr.Status
	*P(&after).common() = Common{before.ObservedGeneration,
		set.After(before.Conditions, cr.Generation, time.Now())}
	_, err = r.objects.Write(ctx, cr, cr.Status, after)
	return err
}
