package operator

import (
	"context"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
)

// unseen says in the status of a custom resource that its state is not known, and why: a Ready from before would be
// believed. All else in the status stays as it was seen last.
func (r *reconciler[T, Status, P]) unseen(ctx context.Context, key kube.Key, why string) error {
	cr, ok, err := r.objects.Get(key)
	if err != nil || !ok || cr.meta().Deleting() {
		return err
	}
	return r.say(ctx, cr, conditions.NotWatched(cr.meta().Annotations, why))
}

// say writes conditions into the status of a custom resource, and leaves all else in it.
func (r *reconciler[T, Status, P]) say(ctx context.Context, cr T, set conditions.Set) error {
	before, after := P(cr.status()).common(), *cr.status()
	*P(&after).common() = Common{before.ObservedGeneration,
		set.After(before.Conditions, cr.meta().Generation, time.Now())}
	_, err := r.objects.Write(ctx, cr, *cr.status(), after)
	return err
}

// shed says in the status of a custom resource that it is not worked on, because it or a child takes too much memory.
// Where it is not held itself, what is remembered of its children goes: it is in the way of others.
func (r *reconciler[T, Status, P]) shed(ctx context.Context, key kube.Key, reason, message string) error {
	set := conditions.NotHeld(reason, message)
	cr, ok, err := r.objects.Get(key)
	switch {
	case err != nil:
		r.children.Forget(key)
		return r.objects.WriteShed(ctx, key, func(generation int64) any {
			return set.After(nil, generation, time.Now())
		})
	case !ok:
		return nil
	}
	set.Paused = conditions.PausedFor(cr.meta().Annotations)
	return r.say(ctx, cr, set)
}
