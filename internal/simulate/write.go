package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"skiff/internal/kube"
	"skiff/internal/patch"
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
func create(ctx context.Context, c *kube.Client, r kube.Resource, namespace string, body map[string]any) error {
	body["apiVersion"], body["kind"] = r.APIVersion(), r.Kind
	err := c.Create(ctx, r, namespace, body, nil, kube.WriteOptions{FieldManager: manager})
	if kube.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// change sends a merge patch for an object, unless another one has its name now. With version it fails if the object
// has changed since the mirror saw it.
func change(ctx context.Context, c *kube.Client, r kube.Resource, m *kube.Meta, version bool, sub string,
	body map[string]any) error {
	meta := member(body, "metadata")
	if meta["uid"] = m.UID; version {
		meta["resourceVersion"] = m.ResourceVersion
	}
	return c.Patch(ctx, r, m.Key(), kube.MergePatch, body, nil,
		kube.WriteOptions{FieldManager: manager, Subresource: sub})
}

// readStatus reads a status, or another part of an object, that may be missing.
func readStatus(r kube.Resource, m *kube.Meta, status kube.Raw, into any) error {
	if len(status) == 0 {
		return nil
	}
	if err := json.Unmarshal(status, into); err != nil {
		return fmt.Errorf("read %s %s: %w", r.Kind, m.Key(), err)
	}
	return nil
}

// writeStatus writes a status unless the object has it; version is that of change.
func writeStatus(ctx context.Context, c *kube.Client, r kube.Resource, m *kube.Meta, version bool, was kube.Raw,
	status map[string]any) error {
	var live map[string]any
	if err := readStatus(r, m, was, &live); err != nil {
		return err
	}
	if covered, _ := patch.Covered(nil, status, live); covered {
		return nil
	}
	return change(ctx, c, r, m, version, "status", map[string]any{"status": status})
}
