package kinds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"skiff/internal/cron"
	"skiff/internal/fakeapi/cause"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/patch"
)

// reports are the checks whose condition says all.
var reports = map[string]bool{"invalid": true, "forbidden": true, "unsupported": true, "duplicate": true,
	"missing": true}

// comparing are the checks that compare a value with the stored one. They differ in what they say.
var comparing = map[string]bool{"immutable": true, "frozen": true}

// repeats are the checks for what there is twice in lists.
var repeats = map[string]bool{"unique": true, "distinct": true}

// needsArgument are the checks that have an argument.
var needsArgument = map[string]bool{"one-of": true, "only": true, "at-least": true, "at-most": true, "form": true,
	"strict-form": true, "keys": true, "keys-at": true, "union": true, "unsupported": true,
	"refers-to": true}

// report makes the cause of a line in reports.
func (st *statement) report(s scope, at string, v any) Cause {
	detail := shown(st.detail.value(s))
	switch st.verb {
	case "missing":
		return cause.Required(at, detail)
	case "forbidden":
		return cause.Forbidden(at, detail)
	case "unsupported":
		return cause.NotSupported(at, v, strings.Split(st.arg, "|")...)
	case "duplicate":
		return cause.Duplicate(at, v)
	}
	return cause.Invalid(at, v, detail)
}

// test returns what is wrong with a value; nil is a missing one.
type test func(st *statement, s scope, at string, v any) []Cause

// tests are the checks of a value.
var tests = sync.OnceValue(func() map[string]test {
	return map[string]test{
		"required": func(st *statement, s scope, at string, v any) []Cause {
			if isEmpty(v) {
				return []Cause{cause.Required(at, shown(st.detail.value(s)))}
			}
			return nil
		},
		// one-of accepts an empty value, only does not
		"one-of": func(st *statement, s scope, at string, v any) []Cause { return among(st.arg, at, v, false) },
		"only":   func(st *statement, s scope, at string, v any) []Cause { return among(st.arg, at, v, true) },
		"at-least": func(st *statement, s scope, at string, v any) []Cause {
			low, _ := strconv.ParseInt(st.arg, 10, 64)
			if n, ok := integer(v); ok && n < low {
				usual := fmt.Sprintf("must be greater than or equal to %d", low)
				return []Cause{cause.Invalid(at, n, st.orDetail(s, usual))}
			}
			return nil
		},
		"positive": func(_ *statement, _ scope, at string, v any) []Cause {
			if n, ok := integer(v); ok && n < 1 {
				return []Cause{cause.Invalid(at, n, "must be greater than 0")}
			}
			return nil
		},
		"port-number": func(_ *statement, _ scope, at string, v any) []Cause {
			if n, ok := integer(v); ok && (n < 1 || n > 1<<16-1) {
				return []Cause{cause.Invalid(at, n, cause.PortRange)}
			}
			return nil
		},
		// form accepts an empty text, strict-form does not
		"strict-form": func(st *statement, _ scope, at string, v any) []Cause {
			return cause.InvalidAll(at, shown(v), forms()[st.arg](shown(v)))
		},
		"form": func(st *statement, _ scope, at string, v any) []Cause {
			if text, _ := v.(string); text != "" {
				return cause.InvalidAll(at, text, forms()[st.arg](text))
			}
			return nil
		},
		"keys":    func(st *statement, _ scope, at string, v any) []Cause { return keysAre(st.arg, at, v, false) },
		"keys-at": func(st *statement, _ scope, at string, v any) []Cause { return keysAre(st.arg, at, v, true) },
		"absent": func(st *statement, s scope, at string, v any) []Cause {
			if m, isObject := v.(Object); v == nil || isObject && len(m) == 0 {
				return nil
			}
			return []Cause{cause.Forbidden(at, shown(st.detail.value(s)))}
		},
		"refers-to": func(st *statement, s scope, at string, v any) []Cause {
			found := isEmpty(v)
			for _, p := range parsePaths(st.arg) {
				p.walk(s.from(p), unknown, func(_ string, other any) { found = found || other == v })
			}
			if found {
				return nil
			}
			return []Cause{cause.NotFound(at, v)}
		},
		"at-most": func(st *statement, _ scope, at string, v any) []Cause {
			limit, _ := strconv.Atoi(st.arg)
			if list, _ := v.([]any); len(list) > limit {
				return []Cause{cause.TooMany(at, int64(len(list)), int64(limit))}
			}
			return nil
		},
		"union": func(st *statement, _ scope, at string, v any) []Cause {
			noun, names, _ := strings.Cut(st.arg, " ")
			return oneOfThem(noun, strings.Split(names, "|"), at, v)
		},
		"quantity":   func(_ *statement, _ scope, at string, v any) []Cause { return quantity(at, v) },
		"percentage": func(_ *statement, s scope, at string, v any) []Cause { return percentage(at, v) },
		"at-most-100%": func(_ *statement, _ scope, at string, v any) []Cause {
			text, _ := v.(string)
			number, _ := strconv.Atoi(strings.TrimSuffix(text, "%")) // the largest there is for more
			if number > 100 {
				return []Cause{cause.Invalid(at, text, "must not be greater than 100%")}
			}
			return nil
		},
	}
})

func (st *statement) orDetail(s scope, usual string) string {
	if len(st.detail) == 0 {
		return usual
	}
	return shown(st.detail.value(s))
}

func isEmpty(v any) bool {
	list, isList := v.([]any)
	return v == nil || v == "" || isList && len(list) == 0
}

func among(values, at string, v any, needed bool) []Cause {
	text, isText := v.(string)
	known := strings.Split(values, "|")
	if !needed && text == "" || slices.Contains(known, text) {
		return nil
	}
	if !isText && v == nil {
		v = ""
	}
	return []Cause{cause.NotSupported(at, v, known...)}
}

// keysAre refuses keys of a map that have the wrong form. They are reported at the map, or with each at the key.
func keysAre(form, at string, v any, atKey bool) []Cause {
	m, _ := v.(Object)
	var out []Cause
	for _, key := range obj.Keys(m) {
		where := at
		if atKey {
			where += "[" + key + "]"
		}
		out = append(out, cause.InvalidAll(where, key, forms()[form](key))...)
	}
	return out
}

// repeated refuses items of the lists at the paths that have the same value in a field as another one, the same values
// in several fields, or that are the same. unique does not compare empty values, distinct does.
func (st *statement) repeated(s scope) (out []Cause) {
	names := strings.Fields(st.arg)
	seen := map[string]bool{}
	item := func(at string, v any) {
		m, _ := v.(Object)
		switch len(names) {
		case 0:
		case 1:
			at, v = join(at, names[0]), m[names[0]]
		default:
			values := Object{}
			for _, name := range names {
				values[name] = m[name]
			}
			v = values
		}
		text := shown(v)
		switch {
		case isEmpty(v) && st.verb == "unique" || !seen[text]:
		case len(st.detail) == 0:
			out = append(out, cause.Duplicate(at, v))
		default:
			out = append(out, cause.Invalid(at, v, shown(st.detail.value(s))))
		}
		seen[text] = true
	}
	for _, p := range st.paths {
		p.walk(s.from(p), s.base(p), func(at string, v any) { step{each: '['}.walk(v, st.at(at), item) })
	}
	return out
}

// oneOfThem requires one of the members of an object and refuses more. An object that is missing is fine.
func oneOfThem(noun string, names []string, at string, v any) []Cause {
	m, ok := v.(Object)
	if !ok {
		return nil
	}
	var out []Cause
	found := false
	for _, name := range names {
		if m[name] != nil && found {
			out = append(out, cause.Forbidden(at+"."+name, "may not specify more than 1 "+noun+" type"))
		}
		found = found || m[name] != nil
	}
	if !found {
		out = append(out, cause.Required(at, "must specify a "+noun+" type"))
	}
	return out
}

// quantity refuses a quantity that is none, or negative.
func quantity(at string, v any) []Cause {
	if v == nil {
		return nil
	}
	q, err := patch.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return []Cause{cause.Invalid(at, v,
			"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")}
	}
	if zero, _ := patch.ParseQuantity("0"); q.Cmp(zero) < 0 {
		return []Cause{cause.Invalid(at, fmt.Sprint(v), "must be greater than or equal to 0")}
	}
	return nil
}

// percentage refuses what is neither a number from 0 on nor a percentage.
func percentage(at string, v any) []Cause {
	if n, ok := integer(v); ok && n < 0 {
		return []Cause{cause.Invalid(at, n, "must be greater than or equal to 0")}
	}
	text, isText := v.(string)
	digits, ok := strings.CutSuffix(text, "%")
	if isText && (!ok || digits == "" || strings.Trim(digits, "0123456789") != "") {
		return []Cause{cause.Invalid(at, text, "a valid percent string must be a numeric string followed by an "+
			"ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")}
	}
	return nil
}

// forms are the forms that texts can be required to have. They return what is wrong.
var forms = sync.OnceValue(func() map[string]func(string) []string {
	one := func(form func(string) string) func(string) []string {
		return func(text string) []string {
			if why := form(text); why != "" {
				return []string{why}
			}
			return nil
		}
	}
	unless := func(good func(string) bool, why string) func(string) []string {
		return func(text string) []string {
			if good(text) {
				return nil
			}
			return []string{why}
		}
	}
	return map[string]func(string) []string{
		"label": one(selector.Label), "subdomain": one(selector.Subdomain), "segment": selector.PathSegment,
		"label-1035": one(selector.Label1035),
		"mixed-1035": one(func(text string) string {
			if why := selector.Label1035(strings.ToLower(text)); why != "" {
				return "may have mixed case, but should otherwise match: " + why
			}
			return ""
		}),
		"qualified": selector.QualifiedName, "data-key": selector.DataKey, "port-name": selector.PortName,
		"image": unless(func(image string) bool { return strings.TrimSpace(image) == image },
			"must not have leading or trailing whitespace"),
		"variable": unless(func(name string) bool {
			return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '=' })
		}, "a valid environment variable name must consist only of printable ASCII characters other than '='"),
		"hook-name": one(func(name string) string {
			if why := selector.Subdomain(name); why != "" || strings.Count(name, ".") > 1 {
				return why
			}
			return "should be a domain with at least three segments separated by dots"
		}),
		"cidr": one(cidr), "ip": one(canonicalIP), "certificate-request": one(notRequest),
		"cron-name": unless(func(name string) bool { return len(name) <= 52 }, // its Jobs are called after it
			"must be no more than 52 characters"),
		"schedule": one(func(text string) string {
			if strings.Contains(text, "TZ") {
				return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
			}
			if _, err := cron.Parse(text); err != nil {
				return err.Error()
			}
			return ""
		}),
		"time-zone": one(func(zone string) string {
			if strings.EqualFold(zone, "Local") {
				return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
			}
			if _, err := time.LoadLocation(zone); err != nil {
				return "unknown time zone " + zone
			}
			return ""
		}),
		"domain-path": unless(func(text string) bool { return strings.Contains(text, "/") },
			`must be a domain-prefixed path (such as "acme.io/foo")`),
		"group-version": one(func(text string) string {
			if strings.Count(text, "/") < 2 {
				return ""
			}
			return "unexpected GroupVersion string: " + text
		}),
	}
})
