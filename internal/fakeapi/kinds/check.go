package kinds

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// check is what must hold for the values at a path: a[].b is b of each item of the list a, and c{} each value of the
// map c. Where the object or list that leads there is missing, nothing is checked.
type check struct {
	path  string
	tests []test
}

// test returns what is wrong with a value; nil is a missing one.
type test func(at string, v any) []Cause

func must(path string, tests ...test) check { return check{path, tests} }

// checked makes a rule of checks.
func checked(list ...check) rule {
	return func(next, _ Object) []Cause { return runChecks(next, "", list) }
}

// runChecks checks the object at a path.
func runChecks(o Object, at string, list []check) []Cause {
	var out []Cause
	for _, c := range list {
		each(o, at, c.path, func(at string, v any) {
			for _, t := range c.tests {
				out = append(out, t(at, v)...)
			}
		})
	}
	return out
}

// each calls f with each value at a path, in the order of lists and of the names in maps.
func each(o Object, at, path string, f func(at string, v any)) {
	step, rest, deeper := strings.Cut(path, ".")
	name := strings.TrimRight(step, "[]{}")
	here := strings.TrimPrefix(at+"."+name, ".")
	visit := func(at string, v any) {
		if m, ok := v.(Object); deeper && ok {
			each(m, at, rest, f)
		} else if !deeper {
			f(at, v)
		}
	}
	switch {
	case strings.HasSuffix(step, "[]"):
		for i, item := range obj.Slice(o, name) {
			visit(fmt.Sprintf("%s[%d]", here, i), item)
		}
	case strings.HasSuffix(step, "{}"):
		values := obj.Map(o, name)
		for _, key := range sortedKeys(values) {
			visit(here+"["+key+"]", values[key])
		}
	default:
		visit(here, o[name])
	}
}

func isEmpty(v any) bool {
	list, isList := v.([]any)
	return v == nil || v == "" || isList && len(list) == 0
}

// present refuses a missing value, an empty string and an empty list.
func present(detail string) test {
	return func(at string, v any) []Cause {
		if isEmpty(v) {
			return []Cause{Required(at, detail)}
		}
		return nil
	}
}

// among refuses a string that is none of the values; an empty one is fine.
func among(values ...string) test {
	return func(at string, v any) []Cause {
		if s, ok := v.(string); ok && s != "" && !slices.Contains(values, s) {
			return []Cause{NotSupported(at, s, values...)}
		}
		return nil
	}
}

// between refuses a number out of a range with the detail of the real server.
func between(low, high int64, detail string) test {
	return func(at string, v any) []Cause {
		if n, ok := obj.Int(Object{"": v}, ""); ok && (n < low || n > high) {
			return []Cause{Invalid(at, n, detail)}
		}
		return nil
	}
}

var (
	notNegative = between(0, 1<<62, "must be greater than or equal to 0")
	positive    = between(1, 1<<62, "must be greater than 0")
	aPort       = between(1, 1<<16-1, portRange)
)

// valid refuses a string that is not empty and has the wrong form.
func valid(form func(string) string) test {
	return func(at string, v any) []Cause {
		if s, ok := v.(string); ok && s != "" && form(s) != "" {
			return []Cause{Invalid(at, s, form(s))}
		}
		return nil
	}
}

// keysAre refuses keys of a map that have the wrong form. They are reported at the map, or with each at the key.
func keysAre(form func(string) []string, atKey bool) test {
	return func(at string, v any) []Cause {
		m, _ := v.(Object)
		var out []Cause
		for _, key := range sortedKeys(m) {
			where := at
			if atKey {
				where += "[" + key + "]"
			}
			out = append(out, InvalidAll(where, key, form(key))...)
		}
		return out
	}
}

// unique refuses items of a list that have the same value as another one, as a duplicate or with a detail.
func unique(field, detail string) test {
	return func(at string, v any) []Cause {
		list, _ := v.([]any)
		var out []Cause
		seen := map[any]bool{}
		for i, item := range list {
			m, _ := item.(Object)
			value, where := m[field], fmt.Sprintf("%s[%d].%s", at, i, field)
			switch {
			case isEmpty(value) || !seen[value]:
			case detail == "":
				out = append(out, Duplicate(where, value))
			default:
				out = append(out, Invalid(where, value, detail))
			}
			seen[value] = true
		}
		return out
	}
}

// oneOfThem requires one of the members of an object and refuses more. An object that is missing is fine.
func oneOfThem(noun string, names ...string) test {
	return func(at string, v any) []Cause {
		m, ok := v.(Object)
		if !ok {
			return nil
		}
		var out []Cause
		found := false
		for _, name := range names {
			if m[name] == nil {
				continue
			}
			if found {
				out = append(out, Forbidden(at+"."+name, "may not specify more than 1 "+noun+" type"))
			}
			found = true
		}
		if !found {
			out = append(out, Required(at, "must specify a "+noun+" type"))
		}
		return out
	}
}

// quantity refuses a quantity that is none, or negative.
func quantity(at string, v any) []Cause {
	if q, err := patch.ParseQuantity(fmt.Sprint(v)); err != nil {
		return []Cause{Invalid(at, v,
			"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")}
	} else if zero, _ := patch.ParseQuantity("0"); q.Cmp(zero) < 0 {
		return []Cause{Invalid(at, fmt.Sprint(v), "must be greater than or equal to 0")}
	}
	return nil
}
