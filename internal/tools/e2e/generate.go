package e2e

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is one place of a kind: the steps that lead there, as a cause of a refusal has them, and the type there.
type field struct {
	steps []string // the name of a field, or an index or a key in brackets
	of    reflect.Type
	leaf  bool
}

func (f field) String() string { return pathOf(f.steps) }

func pathOf(steps []string) string {
	return strings.ReplaceAll(strings.Join(steps, "."), ".[", "[")
}

// stepsOf reads a path such as spec.containers[0].name.
func stepsOf(path string) (out []string) {
	for path != "" {
		end := strings.IndexAny(path, ".[")
		switch {
		case path[0] == '[':
			if end = strings.IndexByte(path, ']') + 1; end == 0 {
				return nil
			}
			out = append(out, path[:end])
		case end < 0:
			return append(out, path)
		default:
			out = append(out, path[:end])
		}
		path = strings.TrimPrefix(path[end:], ".")
	}
	return out
}

// texts are types that JSON has as one value, whatever Go makes of them.
var texts = map[string]any{"Time": "2026-01-02T03:04:05Z", "MicroTime": "2026-01-02T03:04:05.678901Z", "Quantity": "1",
	"IntOrString": 1, "FieldsV1": map[string]any{}, "RawExtension": map[string]any{"a": "b"}, "JSON": "a",
	"JSONSchemaPropsOrArray": map[string]any{"type": "string"}, "JSONSchemaPropsOrBool": true, "Duration": "1s",
	"JSONSchemaPropsOrStringArray": []any{"a"}}

func pointed(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func isLeaf(t reflect.Type) bool {
	t = pointed(t)
	_, text := texts[t.Name()]
	switch t.Kind() {
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	case reflect.Struct:
		return text
	case reflect.Map:
		return false
	}
	return true
}

// members are the fields of a struct, with those of inlined ones, by their JSON names.
func members(t reflect.Type) (names []string, types map[string]reflect.Type) {
	types = map[string]reflect.Type{}
	if t = pointed(t); t.Kind() != reflect.Struct {
		return nil, types
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			inner, of := members(f.Type)
			for _, n := range inner {
				names, types[n] = append(names, n), of[n]
			}
		} else if name != "" && name != "-" {
			names, types[name] = append(names, name), f.Type
		}
	}
	return names, types
}

// placesOf are all places of a kind that an object can have at its creation. What is below a template of pods, which
// the kind Pod has itself, counts without its leaves and without init containers; a type that holds itself counts
// once.
func placesOf(kind reflect.Type) (out []field) {
	var visit func(t reflect.Type, steps []string, above []reflect.Type, leaves bool)
	visit = func(t reflect.Type, steps []string, above []reflect.Type, leaves bool) {
		t = pointed(t)
		f := field{steps: slices.Clone(steps), of: t, leaf: isLeaf(t)}
		switch {
		case f.leaf:
			if leaves {
				out = append(out, f)
			}
			return
		case t.Kind() == reflect.Slice:
			visit(t.Elem(), append(steps, "[0]"), above, leaves)
			return
		case t.Kind() == reflect.Map:
			visit(t.Elem(), append(steps, "[a]"), above, leaves)
			return
		case slices.Contains(above, t):
			return
		}
		if len(steps) > 0 {
			out = append(out, f)
		}
		names, types := members(t)
		for _, name := range names {
			inHead := len(steps) == 0 && slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name)
			never := name == "ephemeralContainers" || name == "initContainers" && !leaves
			if t.Name() != "ObjectMeta" && !inHead && !never {
				visit(types[name], append(slices.Clone(steps), name), append(slices.Clone(above), t),
					leaves && t.Name() != "PodTemplateSpec")
			}
		}
	}
	visit(kind, nil, nil, true)
	return out
}

// typeAt is the type at a place of a kind; nil if it has no such place.
func typeAt(t reflect.Type, steps []string) reflect.Type {
	for _, step := range steps {
		switch t = pointed(t); {
		case strings.HasPrefix(step, "[") && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map):
			t = t.Elem()
		default:
			if _, types := members(t); types[step] != nil {
				t = types[step]
				continue
			}
			return nil
		}
	}
	return pointed(t)
}

// valueAt is the value at a place of an object.
func valueAt(v any, steps []string) any {
	for _, step := range steps {
		switch of := v.(type) {
		case map[string]any:
			v = of[strings.Trim(step, "[]")]
		case []any:
			i, err := strconv.Atoi(strings.Trim(step, "[]"))
			if err != nil || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// putIn returns an object with a value at a place; what leads there is made, and what is there stays around it.
func putIn(v any, t reflect.Type, steps []string, value any) any {
	if len(steps) == 0 {
		return value
	}
	t, name := pointed(t), strings.Trim(steps[0], "[]")
	if t.Kind() == reflect.Slice {
		list, _ := v.([]any)
		i, err := strconv.Atoi(name)
		if err != nil || i > len(list) {
			return v
		}
		if list = slices.Clone(list); i == len(list) {
			list = append(list, nil)
		}
		list[i] = putIn(list[i], t.Elem(), steps[1:], value)
		return list
	}
	out := map[string]any{}
	of, _ := v.(map[string]any)
	for k, v := range of {
		out[k] = v
	}
	next := typeAt(t, steps[:1])
	if next == nil {
		return v
	}
	out[name] = putIn(out[name], next, steps[1:], value)
	return out
}

// cutOut returns an object without what is at a place.
func cutOut(v any, steps []string) any {
	name := strings.Trim(steps[0], "[]")
	switch of := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range of {
			if k != name {
				out[k] = v
			} else if len(steps) > 1 {
				out[k] = cutOut(v, steps[1:])
			}
		}
		return out
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i >= len(of) {
			return v
		}
		out := slices.Clone(of)
		if len(steps) == 1 {
			return slices.Delete(out, i, i+1)
		}
		out[i] = cutOut(out[i], steps[1:])
		return out
	}
	return v
}
