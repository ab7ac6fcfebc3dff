// Package patch changes and compares objects as Kubernetes does, with pure functions on decoded JSON: strategic merge
// patch, the merge keys and list types of the built-in kinds, the comparison of a live object with a declaration, and
// resource quantities.
//
// The package works on values only: no requests, no storage, no HTTP. Ownership of fields (server-side apply) is
// apiserver/ssa, which reads the same [Node] tree; custom resource schemas are apiserver/schema, which makes such
// trees; JSON patch and merge patch, applied only by servers, are apiserver/jsonpatch.
//
// Place on the event path: inside Reconcile, where operators lay a user's template over their own object and apply
// asks [Covered] whether a write is needed. Everything runs on the caller's goroutine; the package keeps no state.
// Functions do not change their arguments; results share no memory with them.
//
// # Values
//
// A JSON value is map[string]any, []any, string, bool, nil, int64 (a number written without fraction or exponent
// that fits) or float64 (any other number). [Decode] makes such values, and every function here expects them. Numbers
// are compared by value, so 1 and 1.0 are equal. Only [Encode], [Equal] and [Copy] may meet a [Text] in place of a
// value.
package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unique"
)

// Encode writes v with the keys of objects in byte order, so that equal values give equal bytes. A value outside JSON
// (a NaN, a Go type not listed in the package comment) is an error.
func Encode(v any) ([]byte, error) {
	out, err := appendValue(make([]byte, 0, 1024), v) // most declared objects fit
	if err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return out, nil
}

// appendValue avoids reflection, the main cost of encoding/json for such values.
func appendValue(out []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case string:
		return AppendString(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case Text:
		return append(out, v.String()...), nil
	case map[string]any:
		if v == nil {
			return append(out, "null"...), nil
		}
		return appendObject(out, v)
	case []any:
		if v == nil {
			return append(out, "null"...), nil
		}
		out = append(out, '[')
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			var err error
			if out, err = appendValue(out, item); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	}
	text, err := json.Marshal(v)
	return append(out, text...), err
}

func appendObject(out []byte, object map[string]any) ([]byte, error) {
	names := make([]string, 0, 16) // on the stack for most objects
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(AppendString(out, name), ':')
		var err error
		if out, err = appendValue(out, object[name]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// AppendString adds s to JSON, with invalid UTF-8 as the replacement character, like encoding/json.
func AppendString(out []byte, s string) []byte {
	plain := 0
	for plain < len(s) && s[plain] >= ' ' && s[plain] != '"' && s[plain] != '\\' && s[plain] < utf8.RuneSelf {
		plain++
	}
	out = append(append(out, '"'), s[:plain]...)
	for _, c := range s[plain:] {
		switch short := strings.IndexRune("\"\\\b\f\n\r\t", c); {
		case short >= 0:
			out = append(out, '\\', `"\bfnrt`[short])
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = utf8.AppendRune(out, c)
		}
	}
	return append(out, '"')
}

// Copy returns a deep copy of v.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return copyMap(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Copy(v[i])
		}
		return out
	}
	return v
}

func copyMap(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	out := maps.Clone(m) // one step for all members except objects and lists
	for k, v := range out {
		switch v.(type) {
		case map[string]any, []any:
			out[k] = Copy(v)
		}
	}
	return out
}

// Equal reports whether a and b are the same JSON value; numbers are compared by value.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !Equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return equalScalar(a, b)
}

func equalScalar(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case Text:
		b, ok := b.(Text)
		return ok && a == b
	case int64:
		switch b := b.(type) {
		case int64:
			return a == b
		case float64:
			return sameNumber(a, b)
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return sameNumber(b, a)
		case float64:
			return a == b
		}
	}
	return false
}

// sameNumber is exact: beyond 2^53 a float64 cannot tell neighbouring integers apart, so the float is turned into an
// integer, and only if an int64 holds the float's value. The integer with the float's decimal text is the same number,
// too: reading the text gives the integer.
func sameNumber(i int64, f float64) bool {
	if f != math.Trunc(f) || f < math.MinInt64 || f >= -math.MinInt64 {
		return false
	}
	return int64(f) == i || strconv.FormatFloat(f, 'f', -1, 64) == strconv.FormatInt(i, 10)
}

// Join puts a field name behind a path, as the API server writes paths: spec.replicas.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Text is a JSON value kept encoded. A Text takes a fraction of the memory of the decoded value, and equal texts share
// theirs. [Encode] writes the text unchanged and [Equal] compares the text; no other function looks inside.
type Text struct{ handle unique.Handle[string] }

// NewText returns a value with the JSON text, checked by the caller.
func NewText(json string) Text { return Text{unique.Make(json)} }

// String returns the JSON text.
func (t Text) String() string { return t.handle.Value() }

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return []byte(t.String()), nil }
