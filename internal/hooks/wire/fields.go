package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/patch"
)

const (
	// leastMemory is how much memory a decoded answer may take, however short: 1 MB of small objects in JSON.
	leastMemory = 8 << 20
	// memoryPerByte is how many times the size of the JSON a decoded answer may take. Deployments and ConfigMaps take
	// eight times as much; empty objects, of which a hostile answer would be made, fifty times.
	memoryPerByte = 16
	// maxQuoted is how much of a value goes into an error.
	maxQuoted = 100
)

// memoryOf returns how much memory a decoded answer may take.
func memoryOf(body []byte) int { return max(leastMemory, memoryPerByte*len(body)) }

// Memory returns about how much memory a decoded answer takes, or the error of decoding.
func Memory(body []byte) (int, error) { return patch.Measure(body, memoryOf(body), patch.MaxDepth) }

// decode reads an answer, which is a single JSON object.
func decode(body []byte, strict bool) (map[string]any, error) {
	v, duplicates, err := patch.DecodeWithin(body, memoryOf(body), patch.MaxDepth)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is %s: want a JSON object", typeName(v))
	}
	if strict && len(duplicates) > 0 {
		return nil, fmt.Errorf("%s: is there twice, and the hook's answers are checked strictly",
			kube.Printable(duplicates[0], 2*maxQuoted))
	}
	return object, nil
}

// typeName returns the name of a value's type in JSON.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "a number"
}

// quote returns a text from an answer, made fit for an error.
func quote(s string) string { return `"` + kube.Printable(s, maxQuoted) + `"` }

// typeError says that a field has a value of another type than want.
func typeError(path, want string, v any) error {
	return fmt.Errorf("%s: must be %s, is %s", path, want, typeName(v))
}

// known refuses other fields than names.
func known(object map[string]any, path string, names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s: unknown field; known are %q",
				patch.Join(path, kube.Printable(name, maxQuoted)), names)
		}
	}
	return nil
}

// fieldOf returns a field of an object; false: missing or null.
func fieldOf[T any](object map[string]any, path, name, want string) (value T, ok bool, err error) {
	v := object[name]
	if v == nil {
		return value, false, nil
	}
	if value, ok = v.(T); !ok {
		return value, false, typeError(patch.Join(path, name), want, v)
	}
	return value, true, nil
}

func textOf(object map[string]any, path, name string) (string, error) {
	s, _, err := fieldOf[string](object, path, name, "a string")
	return s, err
}

func listOf(object map[string]any, path, name string) ([]any, error) {
	list, _, err := fieldOf[[]any](object, path, name, "a list")
	return list, err
}

func objectOf(object map[string]any, path, name string) (map[string]any, error) {
	o, _, err := fieldOf[map[string]any](object, path, name, "an object")
	return o, err
}

// textsOf returns a list of strings.
func textsOf(object map[string]any, path, name string) ([]string, error) {
	list, err := listOf(object, path, name)
	if err != nil || list == nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, typeError(fmt.Sprintf("%s[%d]", patch.Join(path, name), i), "a string", v)
		}
		texts[i] = s
	}
	return texts, nil
}

// selectorOf reads a label selector; ok is false where there is none.
func selectorOf(object map[string]any, path, name string, strict bool) (s labels.Requirements, ok bool, err error) {
	fields, ok, err := fieldOf[map[string]any](object, path, name, "an object")
	if !ok || err != nil {
		return nil, false, err
	}
	path = patch.Join(path, name)
	if strict {
		if err := known(fields, path, "matchLabels", "matchExpressions"); err != nil {
			return nil, false, err
		}
	}
	text, err := patch.Encode(fields)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	var selector labels.Selector
	if err := kube.Unmarshal(text, &selector); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	s = selector.Requirements()
	if err := s.Check(); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	return s, true, nil
}

var errMissing = errors.New("is missing")

func missing(path string) error { return fmt.Errorf("%s: %w", path, errMissing) }
