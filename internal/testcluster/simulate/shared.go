package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// object is a JSON object, as sent.
type object = map[string]any

// shared has the things that the parts of a simulation share.
type shared struct {
	Options
	client    *kube.Client
	mirrors   *cache.Mirrors              // for parts that read the same of a resource
	recorders map[string]*events.Recorder // by the sources of their Events; nil without Events
}

// all returns the options of a mirror of all objects of a resource.
func (s *shared) all(r kube.Resource) cache.Options {
	return cache.Options{Resource: r, Client: s.client, Log: s.Log}
}

// mirrorOf returns the mirror of all objects of a resource.
func mirrorOf[T kube.Object](s *shared, r kube.Resource) *cache.Store[T] {
	return cache.Shared[T](s.mirrors, s.all(r))
}

// controller returns a controller. Failed writes are no failure if the mirrors were out of date: the events are on the
// way, and the controller tries again soon. After a long reconcile, of an object with many pods, the object rests for
// the same time, at most a second, whatever the events.
func (s *shared) controller(name string, f controller.Func, sources ...controller.Source) *controller.Controller {
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
	return controller.New("simulate-"+name, retry, controller.Options{Log: s.Log}, sources...)
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

// recorder returns a function to record the Events of a source, such as default-scheduler. Nothing is recorded without
// the part Events, or for source "", a controller without Events.
func (s *shared) recorder(source string) recordFunc {
	if s.recorders == nil || source == "" {
		return func(kube.Resource, kube.Object, events.Type, string, string) {}
	}
	if s.recorders[source] == nil {
		s.recorders[source] = events.New(events.Options{Client: s.client, Log: s.Log,
			Controller: source, Instance: source})
	}
	recorder := s.recorders[source]
	return func(r kube.Resource, obj kube.Object, kind events.Type, reason, note string) {
		recorder.Record(events.Event{Regarding: events.ObjectOf(r, obj), Type: kind, Reason: reason, Note: note})
	}
}

// controllerOf is the controller of a kind, and runs for each object.
type controllerOf[T kube.Object] struct {
	*shared
	resource kube.Resource
	mirror   *cache.Store[T]
	events   recordFunc
	gone     func(context.Context, kube.Key) error // is called for objects that are gone, if set before forEach
}

// newController returns the controller of a resource. source is the source of the Events.
func newController[T kube.Object](s *shared, r kube.Resource, source string) controllerOf[T] {
	return controllerOf[T]{s, r, mirrorOf[T](s, r), s.recorder(source), nil}
}

// forEach returns the runner of the controller. sync gets an object, and returns how long until the next sync without
// an event, 0 for not at all.
func (c *controllerOf[T]) forEach(name string, sync func(ctx context.Context, o T) (time.Duration, error),
	others ...controller.Source) runner {
	f := func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
		o, ok, err := c.mirror.Get(k)
		if err == nil && !ok && c.gone != nil {
			err = c.gone(ctx, k)
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

// alive asks the server whether an object exists and is not being deleted. Mirrors of two kinds are not in step: a
// deletion of a child may be seen before the earlier deletion of the owner, and then the child must not be created
// again.
func (c *controllerOf[T]) alive(ctx context.Context, o T) (bool, error) {
	var now anyObject
	err := c.client.Get(ctx, c.resource, o.ObjectMeta().Key(), &now)
	if kube.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.UID == o.ObjectMeta().UID && !now.Deleting(), err
}

// writeStatus writes a status unless unchanged. With version the write fails if the object has changed since the
// mirror saw the object.
func (c *controllerOf[T]) writeStatus(ctx context.Context, o T, version bool, was kube.Raw,
	status object) error {
	var live object
	if err := readStatus(c.resource, o, was, &live); err != nil {
		return err
	}
	if covered, _ := patch.Covered(nil, status, live); covered {
		return nil
	}
	return c.change(ctx, c.resource, o, version, "status", object{"status": status})
}

// anyMap returns a map as a JSON object.
func anyMap(m map[string]string) object {
	out := object{}
	for key, value := range m {
		out[key] = value
	}
	return out
}

// member returns the object at a key of another object, a new object if there is none.
func member(o object, key string) object {
	m, _ := o[key].(object)
	if m == nil {
		m = object{}
		o[key] = m
	}
	return m
}

// suffix returns five characters in the alphabet of generated names, a hash of a text.
func suffix(text string) string {
	h := fnv.New32a()
	h.Write([]byte(text))
	out := make([]byte, 5)
	for i, n := 0, h.Sum32(); i < len(out); i, n = i+1, n/uint32(len(nameAlphabet)) {
		out[i] = nameAlphabet[n%uint32(len(nameAlphabet))]
	}
	return string(out)
}

// create creates an object. An existing object was created before, and the event has not arrived yet.
func (s *shared) create(ctx context.Context, r kube.Resource, namespace string, body object) error {
	err := s.createInto(ctx, r, namespace, body, nil)
	if kube.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// createInto creates an object, and decodes the answer.
func (s *shared) createInto(ctx context.Context, r kube.Resource, namespace string, body object,
	into any) error {
	body["apiVersion"], body["kind"] = r.APIVersion(), r.Kind
	return s.client.Create(ctx, r, namespace, body, into, kube.WriteOptions{FieldManager: manager})
}

// patch sends a patch for an object, unless another object has the name now.
func (s *shared) patch(ctx context.Context, t kube.PatchType, r kube.Resource, o kube.Object, sub string,
	body object) error {
	m := o.ObjectMeta()
	member(body, "metadata")["uid"] = m.UID
	return s.client.Patch(ctx, r, m.Key(), t, body, nil, kube.WriteOptions{FieldManager: manager, Subresource: sub})
}

// change sends a merge patch. With version the patch fails if the object has changed since the mirror saw the object.
func (s *shared) change(ctx context.Context, r kube.Resource, o kube.Object, version bool, sub string,
	body object) error {
	if version {
		member(body, "metadata")["resourceVersion"] = o.ObjectMeta().ResourceVersion
	}
	return s.patch(ctx, kube.MergePatch, r, o, sub, body)
}

// remove deletes an object in the background, unless another object has the name now.
func (s *shared) remove(ctx context.Context, r kube.Resource, o kube.Object) error {
	m := o.ObjectMeta()
	return s.client.Delete(ctx, r, m.Key(), kube.DeleteOptions{UID: m.UID, Propagation: kube.Background})
}

// removeFinalizer removes a finalizer, if present, from an object that has not changed since the mirror saw the
// object.
func (s *shared) removeFinalizer(ctx context.Context, r kube.Resource, o kube.Object, finalizer string) error {
	all := o.ObjectMeta().Finalizers
	if !slices.Contains(all, finalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(f string) bool { return f == finalizer })
	return s.change(ctx, r, o, true, "", object{"metadata": object{"finalizers": rest}})
}

// readStatus reads a status, or another part of an object, which may be missing.
func readStatus(r kube.Resource, o kube.Object, status kube.Raw, into any) error {
	if len(status) == 0 {
		return nil
	}
	if err := json.Unmarshal(status, into); err != nil {
		return fmt.Errorf("read %s %s: %w", r.Kind, o.ObjectMeta().Key(), err)
	}
	return nil
}

// conditions are the conditions of a status.
type conditions []object

// hold reports whether a condition is true.
func (c conditions) hold(kind string) bool {
	return c.of(kind)["status"] == "True"
}

// of returns the condition of a type, nil if there is none.
func (c conditions) of(kind string) object {
	for _, o := range c {
		if o["type"] == kind {
			return o
		}
	}
	return nil
}

// next returns a condition from now on. The time of the transition changes only with the status.
func (c conditions) next(kind string, status, reason, message any) object {
	next := object{"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": wireTime(time.Now())}
	if old := c.of(kind); old["status"] == status {
		next["lastTransitionTime"] = old["lastTransitionTime"]
	}
	return next
}

// updated is next for conditions with the time of the last change, too.
func (c conditions) updated(kind string, status, reason, message any) object {
	old, next := c.of(kind), c.next(kind, status, reason, message)
	next["lastUpdateTime"] = wireTime(time.Now())
	if old["status"] == status && old["reason"] == reason && old["message"] == message {
		next["lastUpdateTime"] = old["lastUpdateTime"]
	}
	return next
}

// timeOf reads the time in a field of an object, the zero time if there is none.
func timeOf(field any) time.Time {
	text, _ := field.(string)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}
