// Package obj reads and changes JSON objects in the form of map[string]any, the form in which the embedded API server
// keeps objects. It selects them by labels and fields, and says what is wrong with a name or a field, in the words of
// the API server. It knows nothing of Kubernetes kinds, storage and HTTP, starts no goroutine and keeps no state.
//
// The values are those of package patch: map[string]any, []any, string, bool, int64, float64 and nil.
package obj

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"skiff/internal/runtime/patch"
)

// Map returns the object at path, nil when it is absent or something else. Reading from a nil map is fine.
func Map(m map[string]any, path ...string) map[string]any {
	for _, p := range path {
		m, _ = m[p].(map[string]any)
	}
	return m
}

// Get returns the value at path, nil when it is absent.
func Get(m map[string]any, path ...string) any {
	if len(path) == 0 {
		return m
	}
	return Map(m, path[:len(path)-1]...)[path[len(path)-1]]
}

// String returns the string at path, "" when it is absent or something else.
func String(m map[string]any, path ...string) string {
	s, _ := Get(m, path...).(string)
	return s
}

// Bool returns the boolean at path, false when it is absent or something else.
func Bool(m map[string]any, path ...string) bool {
	b, _ := Get(m, path...).(bool)
	return b
}

// Int returns the whole number at path and whether there is one. A float without a fraction counts: 3.0 is 3 in JSON.
func Int(m map[string]any, path ...string) (int64, bool) {
	switch n := Get(m, path...).(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), n == float64(int64(n))
	}
	return 0, false
}

// Number returns the whole number at path, 0 when it is absent or something else.
func Number(m map[string]any, path ...string) int64 {
	n, _ := Int(m, path...)
	return n
}

// Slice returns the list at path, nil when it is absent or something else.
func Slice(m map[string]any, path ...string) []any {
	s, _ := Get(m, path...).([]any)
	return s
}

// Maps returns the objects of the list at path, in order; other items are left out.
func Maps(m map[string]any, path ...string) []map[string]any {
	return only[map[string]any](Slice(m, path...))
}

// Texts returns the strings of the list at path, in order; other items are left out.
func Texts(m map[string]any, path ...string) []string { return only[string](Slice(m, path...)) }

func only[T any](list []any) (out []T) {
	for _, v := range list {
		if item, ok := v.(T); ok {
			out = append(out, item)
		}
	}
	return out
}

// Each returns what f makes of each item of a list.
func Each[T, R any](list []T, f func(T) R) []R {
	out := make([]R, len(list))
	for i, item := range list {
		out[i] = f(item)
	}
	return out
}

// Anys returns a list of texts as a JSON list.
func Anys(list []string) []any { return Each(list, func(s string) any { return s }) }

// OmitEmpty removes the members of an object that are empty, null or 0, as omitempty of Go's encoder does.
func OmitEmpty(m map[string]any) map[string]any {
	maps.DeleteFunc(m, func(_ string, v any) bool {
		list, isList := v.([]any)
		object, isObject := v.(map[string]any)
		return v == nil || v == "" || v == int64(0) || isList && len(list) == 0 || isObject && len(object) == 0
	})
	return m
}

// Strings returns the string values of the object at path; other values are left out.
func Strings(m map[string]any, path ...string) map[string]string {
	out := map[string]string{}
	for k, v := range Map(m, path...) {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// Keys returns the keys of an object in byte order.
func Keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Set sets the value at path, and creates the objects on the way.
func Set(m map[string]any, v any, path ...string) {
	for _, p := range path[:len(path)-1] {
		next, ok := m[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[p] = next
		}
		m = next
	}
	m[path[len(path)-1]] = v
}

// Default sets the value at path unless there is one other than null.
func Default(m map[string]any, v any, path ...string) {
	if Get(m, path...) == nil {
		Set(m, v, path...)
	}
}

// Remove deletes the value at path.
func Remove(m map[string]any, path ...string) {
	delete(Map(m, path[:len(path)-1]...), path[len(path)-1])
}

// Clone returns a deep copy of an object, an empty object for nil.
func Clone(m map[string]any) map[string]any { return patch.Copy(m).(map[string]any) }

// Shallow returns a shallow copy of an object, for replacing one member of a shared value.
func Shallow(m map[string]any) map[string]any {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]any{}
	}
	return out
}

// Size returns about the length of a value as JSON, or more than is ever stored for one that is nested too deep: JSON
// patches can make objects deeper than any body.
func Size(v any) int { return size(v, 0) }

func size(v any, depth int) int {
	if depth > MaxDepth {
		return MaxMemory
	}
	n := 2 // quotes or brackets; as many as most numbers have digits
	switch v := v.(type) {
	case string:
		n += len(v)
	case []any:
		for _, item := range v {
			n += size(item, depth+1) + 1
		}
	case map[string]any:
		for name, member := range v {
			n += len(name) + size(member, depth+1) + 4
		}
	case int64:
		n = len(strconv.FormatInt(v, 10))
	default:
		n = 4
	}
	return n
}

// EqualExcept reports whether two objects are equal, except for the named members.
func EqualExcept(a, b map[string]any, except ...string) bool {
	others := func(m map[string]any) map[string]any {
		m = Shallow(m)
		maps.DeleteFunc(m, func(name string, v any) bool { return v == nil || slices.Contains(except, name) })
		return m
	}
	return patch.Equal(others(a), others(b))
}

// NewUID returns a random (version 4) UUID: that of a review, or of an object.
func NewUID() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
