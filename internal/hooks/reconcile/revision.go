package reconcile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// The labels of a ControllerRevision, beside those of its parent's children.
const (
	groupLabel    = spec.Group + "/apiGroup"
	resourceLabel = spec.Group + "/resource"
)

// bodyOf returns what an object has beside its metadata and its status.
func bodyOf(o *Object) (map[string]any, error) {
	if len(o.Body) == 0 {
		return map[string]any{}, nil
	}
	v, err := patch.Decode(o.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key(), err)
	}
	body, _ := v.(map[string]any)
	return body, nil
}

// encodeValue encodes a value with the keys in order, as encoding/json does.
func encodeValue(v any) ([]byte, error) { return json.Marshal(v) }

// extract returns an object with nothing but the fields at some paths, such as "spec.template".
func extract(from map[string]any, paths []string) map[string]any {
	out := map[string]any{}
	for _, path := range paths {
		parts := strings.Split(path, ".")
		if value, ok := valueAt(from, parts); ok {
			setAt(out, parts, value)
		}
	}
	return out
}

// withPatch returns a parent with the fields at some paths as a patch has them.
func withPatch(parent *Object, fields map[string]any, paths []string) (*Object, error) {
	body, err := bodyOf(parent)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		parts := strings.Split(path, ".")
		if value, ok := valueAt(fields, parts); ok {
			setAt(body, parts, value)
		}
	}
	out := *parent
	if out.Body, err = patch.Encode(body); err != nil {
		return nil, fmt.Errorf("encode %s: %w", parent.Key(), err)
	}
	return &out, nil
}

func valueAt(v map[string]any, path []string) (any, bool) {
	value, ok := v[path[0]]
	if !ok || len(path) == 1 {
		return value, ok
	}
	below, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	return valueAt(below, path[1:])
}

// set sets the value at a path. What is on the way is copied, because it may be shared.
func setAt(v map[string]any, path []string, value any) {
	if len(path) == 1 {
		v[path[0]] = value
		return
	}
	below, _ := v[path[0]].(map[string]any)
	below = maps.Clone(below)
	if below == nil {
		below = map[string]any{}
	}
	v[path[0]] = below
	setAt(below, path[1:], value)
}

// readRevision reads a ControllerRevision.
func readRevision(live *Object) (*revision, error) {
	var body struct {
		ParentPatch kube.Raw `json:"parentPatch"`
		Children    []struct {
			APIGroup string   `json:"apiGroup"`
			Kind     string   `json:"kind"`
			Names    []string `json:"names"`
		} `json:"children"`
	}
	if err := kube.Unmarshal(live.Body, &body); err != nil {
		return nil, err
	}
	v := &revision{name: live.Name, claims: map[claim]bool{}}
	fields, err := patch.Decode(body.ParentPatch)
	if err != nil {
		return nil, fmt.Errorf("parentPatch: %w", err)
	}
	v.patch, _ = fields.(map[string]any)
	for _, of := range body.Children {
		for _, name := range of.Names {
			v.claims[claim{of.APIGroup, of.Kind, name}] = true
		}
	}
	return v, nil
}

// revisionBody is the ControllerRevision of a state.
func (r *reconciler) revisionBody(v *revision, owner apply.Owner) map[string]any {
	set := map[string]any{groupLabel: r.Parent.Group, resourceLabel: r.Parent.Plural}
	if r.Spec.GenerateSelector {
		set[uidLabel] = owner.UID
	} else if body, err := bodyOf(v.parent); err == nil {
		if template, ok := valueAt(body, []string{"spec", "template", "metadata", "labels"}); ok {
			of, _ := template.(map[string]any)
			maps.Copy(set, of)
		}
		// So that the selector finds it also where the template has no labels.
		if match, ok := valueAt(body, []string{"spec", "selector", "matchLabels"}); ok {
			of, _ := match.(map[string]any)
			maps.Copy(set, of)
		}
	}
	var children []any
	for _, c := range slices.SortedFunc(maps.Keys(v.claims), func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		last, _ := tail(children).(map[string]any)
		if last == nil || last["apiGroup"] != c.group || last["kind"] != c.kind {
			last = map[string]any{"apiGroup": c.group, "kind": c.kind, "names": []any{}}
			children = append(children, last)
		}
		names, _ := last["names"].([]any)
		last["names"] = append(names, c.name)
	}
	return map[string]any{"apiVersion": spec.Revisions.APIVersion(), "kind": spec.Revisions.Kind,
		"metadata": map[string]any{"name": v.name, "namespace": owner.Namespace, "labels": set,
			"ownerReferences": []any{owner.Reference()}},
		"parentPatch": v.patch, "children": children}
}

func tail(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}
