package simulate

import (
	"context"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// world is what the parts of a simulation share.
type world struct {
	Options
	client    *kube.Client
	mirrors   *cache.Mirrors              // for those who read the same of a resource
	recorders map[string]*events.Recorder // by the sources of their Events; nil without Events
}

// all returns the options of a mirror of all objects of a resource.
func (w *world) all(r kube.Resource) cache.Options {
	return cache.Options{Resource: r, Client: w.client, Log: w.Log}
}

// mirrorOf returns the mirror of all objects of a resource.
func mirrorOf[T kube.Object](w *world, r kube.Resource) *cache.Store[T] {
	return cache.Shared[T](w.mirrors, w.all(r))
}

// controller returns a controller. Writes of it that fail because its mirrors were out of date are no failure: the
// events are on their way, and it tries again soon. What takes long, because an object has many pods, it does not do
// again for each event: it rests for the same time, at most a second.
func (w *world) controller(name string, f controller.Func, sources ...controller.Source) *controller.Controller {
	var rests sync.Map // keys to when they may be looked at again
	retry := func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
		if until, ok := rests.LoadAndDelete(k); ok && time.Until(until.(time.Time)) > 0 {
			rests.Store(k, until)
			return controller.After(time.Until(until.(time.Time))), nil
		}
		start := time.Now()
		outcome, err := f(ctx, k)
		if took := time.Since(start); took > longReconcile {
			rests.Store(k, time.Now().Add(min(took, time.Second)))
		}
		if err != nil && isStale(err) {
			return controller.After(mirrorLag), nil
		}
		return outcome, err
	}
	return controller.New("simulate-"+name, retry, controller.Options{Log: w.Log}, sources...)
}

// longReconcile is when a reconcile counts as long. Most take a few milliseconds.
const longReconcile = 20 * time.Millisecond

// mirrorLag is the longest wait for a mirror to catch up. Usually the awaited event triggers the reconcile earlier.
const mirrorLag = time.Second

// isStale reports whether err consists only of NotFound and Conflict, which writes based on an old mirror get.
func isStale(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !isStale(e) })
	}
	return kube.IsNotFound(err) || kube.IsConflict(err)
}

// recordFunc records an Event about an object.
type recordFunc func(r kube.Resource, o kube.Object, kind events.Type, reason, note string)

// recorder returns what records the Events of a source, such as default-scheduler. It does nothing without the part
// Events, and for a controller that records none, whose source is "".
func (w *world) recorder(source string) recordFunc {
	if w.recorders == nil || source == "" {
		return func(kube.Resource, kube.Object, events.Type, string, string) {}
	}
	if w.recorders[source] == nil {
		w.recorders[source] = events.New(events.Options{Client: w.client, Log: w.Log,
			Controller: source, Instance: source})
	}
	recorder := w.recorders[source]
	return func(r kube.Resource, obj kube.Object, kind events.Type, reason, note string) {
		recorder.Record(events.Event{Regarding: events.ObjectOf(r, obj), Type: kind, Reason: reason, Note: note})
	}
}

// controllerOf is the controller of the objects of one kind: it runs for each of them.
type controllerOf[T kube.Object] struct {
	*world
	resource kube.Resource
	mirror   *cache.Store[T]
	events   recordFunc
	gone     func(kube.Key) // is called for objects that are gone, if it is set before forEach
}

// newController returns the controller of a resource. source is that of its Events.
func newController[T kube.Object](w *world, r kube.Resource, source string) controllerOf[T] {
	return controllerOf[T]{w, r, mirrorOf[T](w, r), w.recorder(source), nil}
}

// forEach returns what runs the controller. sync gets an object, and returns after what time it wants to see it again
// without an event, 0 for not at all.
func (c *controllerOf[T]) forEach(name string, sync func(ctx context.Context, o T) (time.Duration, error),
	others ...controller.Source) runner {
	f := func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
		o, ok, err := c.mirror.Get(k)
		if err == nil && !ok && c.gone != nil {
			c.gone(k)
		}
		if err != nil || !ok {
			return controller.Done, err
		}
		again, err := sync(ctx, o)
		return controller.Wait(again), err
	}
	return c.controller(name, f, append(others, controller.For(c.mirror))...)
}

// record records an Event about an object.
func (c *controllerOf[T]) record(o T, kind events.Type, reason, note string) {
	c.events(c.resource, o, kind, reason, note)
}

// alive asks the server whether an object exists and is not being deleted. Mirrors of two kinds are not in step: one
// can show that a child was deleted before the other shows that its owner was deleted first, and then the child must
// not be created again.
func (c *controllerOf[T]) alive(ctx context.Context, o T) (bool, error) {
	var now object
	err := c.client.Get(ctx, c.resource, o.ObjectMeta().Key(), &now)
	if kube.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.UID == o.ObjectMeta().UID && !now.Deleting(), err
}

// writeStatus writes a status unless the object has it. With version it fails if the object has changed since the
// mirror saw it.
func (c *controllerOf[T]) writeStatus(ctx context.Context, o T, version bool, was kube.Raw,
	status map[string]any) error {
	var live map[string]any
	if err := readStatus(c.resource, o, was, &live); err != nil {
		return err
	}
	if covered, _ := patch.Covered(nil, status, live); covered {
		return nil
	}
	return c.change(ctx, c.resource, o, version, "status", map[string]any{"status": status})
}
