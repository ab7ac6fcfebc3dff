package kinds

import (
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// rule returns what is wrong with an object; cur is nil for a new one.
type rule func(next, cur Object) []Cause

// rules joins rules to a Kind.Validate.
func rules(list ...rule) func(next, cur Object) []Cause {
	return func(next, cur Object) []Cause {
		var out []Cause
		for _, r := range list {
			out = append(out, r(next, cur)...)
		}
		return out
	}
}

// required refuses an object without a value at any of the dotted paths.
func required(paths ...string) rule {
	return func(next, _ Object) []Cause {
		var out []Cause
		for _, path := range paths {
			switch v := obj.Get(next, strings.Split(path, ".")...).(type) {
			case nil:
				out = append(out, Required(path, ""))
			case string:
				if v == "" {
					out = append(out, Required(path, ""))
				}
			case []any:
				if len(v) == 0 {
					out = append(out, Required(path, ""))
				}
			}
		}
		return out
	}
}

// immutable refuses changes of the values at the dotted paths.
func immutable(paths ...string) rule {
	return func(next, cur Object) []Cause {
		if cur == nil {
			return nil
		}
		var out []Cause
		for _, path := range paths {
			at := strings.Split(path, ".")
			if v := obj.Get(next, at...); !patch.Equal(v, obj.Get(cur, at...)) {
				out = append(out, Invalid(path, v, "field is immutable"))
			}
		}
		return out
	}
}

// oneOf refuses a string at a dotted path that is not one of the values; an empty one is fine.
func oneOf(path string, values ...string) rule {
	return checked(must(path, among(values...)))
}
