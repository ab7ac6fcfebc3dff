package operator

import (
	"context"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// Statuses are the apply.Statuses of a custom resource whose Status embeds Common. The status also says when an
// object is not worked on: a Ready from before would be believed. All else in the status stays unchanged.
type Statuses[T object[Status], Status any, P status[Status]] struct {
	*apply.Statuses[T]
	mirror *cache.Store[T]
	drop   func(kube.Key) // forgets an object that takes too much memory
}

// NewStatuses returns the Statuses of a mirrored kind. drop has the controller forget an object.
func NewStatuses[T object[Status], Status any, P status[Status]](client *kube.Client, mirror *cache.Store[T],
	drop func(kube.Key)) *Statuses[T, Status, P] {
	return &Statuses[T, Status, P]{apply.NewStatuses(client, mirror, blank[T, Status]), mirror, drop}
}

// Source runs a controller for the objects.
func (s *Statuses[T, Status, P]) Source() controller.Source {
	return controller.For(s.mirror).Unseen(s.unseen).Shed(s.shed)
}

// unseen writes why the state of an object is not known.
func (s *Statuses[T, Status, P]) unseen(ctx context.Context, key kube.Key, why string) error {
	cr, ok, err := s.Get(ctx, key)
	if err != nil || !ok || cr.meta().Deleting() {
		return err
	}
	return s.write(ctx, cr, conditions.NotWatched(cr.meta().Annotations, why))
}

// shed writes that an object is not worked on, because the object or a dependency takes too much memory.
func (s *Statuses[T, Status, P]) shed(ctx context.Context, key kube.Key, reason, message string) error {
	set := conditions.TooLarge(reason, message)
	cr, ok, err := s.Get(ctx, key)
	if unheld := cache.Unheld(err); unheld != nil {
		s.drop(key)
		return s.WriteUnheld(ctx, unheld, map[string]any{"state": set.State(),
			"conditions": set.After(nil, unheld.Generation, time.Now())})
	}
	if err != nil || !ok {
		return err
	}
	set.Paused = conditions.PausedFor(cr.meta().Annotations)
	return s.write(ctx, cr, set)
}

// write changes the conditions of an object.
func (s *Statuses[T, Status, P]) write(ctx context.Context, cr T, set conditions.Set) error {
	before, after := P(cr.status()).common(), *cr.status()
	set.Terminating = cr.meta().Deleting()
	common := CommonOf(before, &set, cr.meta().Generation, since(cr))
	common.ObservedGeneration = before.ObservedGeneration
	*P(&after).common() = common
	_, err := s.Write(ctx, cr, *cr.status(), after)
	return err
}
