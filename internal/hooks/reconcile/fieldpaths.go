package reconcile

import (
	"fmt"
	"maps"
	"strings"

	"skiff/internal/runtime/patch"
)

// bodyOf returns an object without metadata and status.
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

// withPatch returns a parent with the fields at some paths taken from a patch.
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

// setAt sets the value at a path. Maps on the way are copied, because they may be shared.
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
