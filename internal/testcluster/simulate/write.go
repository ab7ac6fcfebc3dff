package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// anyMap returns a map as one of JSON.
func anyMap(m map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range m {
		out[key] = value
	}
	return out
}

// member returns the object at a key of another one, a new one if there is none.
func member(o map[string]any, key string) map[string]any {
	m, _ := o[key].(map[string]any)
	if m == nil {
		m = map[string]any{}
		o[key] = m
	}
	return m
}

// suffix returns five characters in the alphabet of generated names that follow from a text.
func suffix(text string) string {
	h := fnv.New32a()
	h.Write([]byte(text))
	out := make([]byte, 5)
	for i, n := 0, h.Sum32(); i < len(out); i, n = i+1, n/uint32(len(nameAlphabet)) {
		out[i] = nameAlphabet[n%uint32(len(nameAlphabet))]
	}
	return string(out)
}

// create creates an object. One that exists already was created before, and its event has not arrived yet.
func (w *world) create(ctx context.Context, r kube.Resource, namespace string, body map[string]any) error {
	err := w.createInto(ctx, r, namespace, body, nil)
	if kube.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// createInto creates an object, and decodes it as it was created.
func (w *world) createInto(ctx context.Context, r kube.Resource, namespace string, body map[string]any,
	into any) error {
	body["apiVersion"], body["kind"] = r.APIVersion(), r.Kind
	return w.client.Create(ctx, r, namespace, body, into, kube.WriteOptions{FieldManager: manager})
}

// patch sends a patch for an object, unless another one has its name now.
func (w *world) patch(ctx context.Context, t kube.PatchType, r kube.Resource, o kube.Object, sub string,
	body map[string]any) error {
	m := o.ObjectMeta()
	member(body, "metadata")["uid"] = m.UID
	return w.client.Patch(ctx, r, m.Key(), t, body, nil, kube.WriteOptions{FieldManager: manager, Subresource: sub})
}

// change sends a merge patch. With version it fails if the object has changed since the mirror saw it.
func (w *world) change(ctx context.Context, r kube.Resource, o kube.Object, version bool, sub string,
	body map[string]any) error {
	if version {
		member(body, "metadata")["resourceVersion"] = o.ObjectMeta().ResourceVersion
	}
	return w.patch(ctx, kube.MergePatch, r, o, sub, body)
}

// remove deletes an object in the background, unless another one has its name now.
func (w *world) remove(ctx context.Context, r kube.Resource, o kube.Object) error {
	m := o.ObjectMeta()
	return w.client.Delete(ctx, r, m.Key(), kube.DeleteOptions{UID: m.UID, Propagation: kube.Background})
}

// letGo removes a finalizer, if the object has it and has not changed since the mirror saw it.
func (w *world) letGo(ctx context.Context, r kube.Resource, o kube.Object, finalizer string) error {
	all := o.ObjectMeta().Finalizers
	if !slices.Contains(all, finalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(f string) bool { return f == finalizer })
	return w.change(ctx, r, o, true, "", map[string]any{"metadata": map[string]any{"finalizers": rest}})
}

// readStatus reads a status, or another part of an object, that may be missing.
func readStatus(r kube.Resource, o kube.Object, status kube.Raw, into any) error {
	if len(status) == 0 {
		return nil
	}
	if err := json.Unmarshal(status, into); err != nil {
		return fmt.Errorf("read %s %s: %w", r.Kind, o.ObjectMeta().Key(), err)
	}
	return nil
}

// conditions are those that a status has.
type conditions []map[string]any

// hold reports whether a condition is true.
func (c conditions) hold(kind string) bool {
	return slices.ContainsFunc(c, func(c map[string]any) bool { return c["type"] == kind && c["status"] == "True" })
}

// next returns a condition as it is from now on. If its status is as before, so is the time of the transition.
func (c conditions) next(kind, status, reason, message string) map[string]any {
	since := any(wireTime(time.Now()))
	for _, old := range c {
		if old["type"] == kind && old["status"] == status {
			since = old["lastTransitionTime"]
		}
	}
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": since}
}
