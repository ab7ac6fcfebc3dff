package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// value is what a check of a line is about: the value at one of its paths, nil for a missing one.
type value struct {
	st *statement
	s  scope
	p  path
	at string
	v  any
}

// checkKind is a kind of check: a value that is wrong, and how that is reported.
type checkKind struct {
	argument, optional bool             // it needs an argument, or can have one
	wrong              func(value) bool // nil: the condition of the line says all
	report             func(x value, detail string) Cause
	usual              string // the detail, if the line has none; its argument stands behind a colon

	find  func(value)             // instead of wrong and report, if there is more to say
	lists func(*statement, scope) // likewise, of checks that compare items
}

var checkKinds = sync.OnceValue(func() map[string]*checkKind {
	missing := func(x value, detail string) Cause { return obj.Required(x.at, detail) }
	invalid := func(x value, detail string) Cause { return obj.Invalid(x.at, x.v, detail) }
	forbidden := func(x value, detail string) Cause { return obj.Forbidden(x.at, detail) }
	unsupported := func(x value, _ string) Cause { return obj.NotSupported(x.at, x.v, x.options()...) }
	changed := func(x value) bool {
		was := x.s.was(x.p)
		return x.s.stored != nil && !patch.Equal(x.v, was) && !patch.Equal(x.compared(x.v), x.compared(was))
	}
	return map[string]*checkKind{
		"missing":     {report: missing},
		"invalid":     {report: invalid},
		"forbidden":   {report: forbidden},
		"unsupported": {report: unsupported, argument: true},
		"required":    {wrong: func(x value) bool { return isEmpty(x.v) }, report: missing},
		"immutable":   {wrong: changed, report: invalid, usual: "field is immutable"},
		"frozen":      {wrong: changed, report: forbidden},
		"absent": {report: forbidden, wrong: func(x value) bool {
			m, isObject := x.v.(Object)
			return x.v != nil && !(isObject && len(m) == 0)
		}},
		"refers-to": {argument: true, wrong: refersToNothing,
			report: func(x value, _ string) Cause { return obj.NotFound(x.at, x.v) }},
		// one-of accepts an empty value, only does not
		"one-of": {argument: true, report: unsupported, wrong: func(x value) bool {
			text, _ := x.v.(string)
			return text != "" && !slices.Contains(x.options(), text)
		}},
		"only": {argument: true, wrong: func(x value) bool { return !slices.Contains(x.options(), shown(x.v)) },
			report: func(x value, detail string) Cause {
				if x.v == nil {
					x.v = ""
				}
				return unsupported(x, detail)
			}},
		"at-least": {argument: true, report: invalid, usual: "must be greater than or equal to ",
			wrong: func(x value) bool {
				low, _ := strconv.ParseInt(x.st.arg, 10, 64)
				n, ok := integer(x.v)
				return ok && n < low
			}},
		"port-number": {report: invalid, usual: obj.PortRange, wrong: func(x value) bool {
			n, ok := integer(x.v)
			return ok && (n < 1 || n > 1<<16-1)
		}},
		"at-most-100%": {report: invalid, usual: "must not be greater than 100%", wrong: func(x value) bool {
			text, _ := x.v.(string)
			number, _ := strconv.Atoi(strings.TrimSuffix(text, "%")) // the largest there is for more
			return number > 100
		}},
		"at-most": {argument: true, find: func(x value) {
			limit, _ := strconv.Atoi(x.st.arg)
			if list, _ := x.v.([]any); len(list) > limit {
				x.s.add(obj.TooMany(x.at, int64(len(list)), int64(limit)))
			}
		}},
		// form accepts an empty text, strict-form does not
		"strict-form": {argument: true, find: ofForm},
		"form": {argument: true, find: func(x value) {
			if text, _ := x.v.(string); text != "" {
				ofForm(x)
			}
		}},
		"keys":       {argument: true, find: keysAre},
		"keys-at":    {argument: true, find: keysAre},
		"unique":     {optional: true, lists: repeated},
		"distinct":   {optional: true, lists: repeated},
		"union":      {argument: true, find: union},
		"quantity":   {find: quantity},
		"percentage": {find: percentage},
	}
})

// check adds what is wrong with a value to the causes of its scope.
func (k *checkKind) check(x value) {
	switch {
	case k.find != nil:
		k.find(x)
		return
	case k.wrong == nil:
		x.v = x.st.reported(x.s, x.v)
	case !k.wrong(x):
		return
	}
	detail := k.usual
	if len(x.st.detail) > 0 {
		detail = shown(x.st.detail.value(x.s))
	} else if strings.HasSuffix(detail, " ") {
		detail += x.st.arg
	}
	x.s.add(k.report(x, detail))
}

// compared returns a value as it is compared with the stored one: a copy that the block of the line has changed.
func (x value) compared(v any) any {
	if _, isObject := v.(Object); !isObject || x.st.block == nil {
		return v
	}
	part := x.s
	part.o, _ = patch.Copy(v).(Object)
	part.old, _ = x.s.was(x.p).(Object)
	change(x.st.block(), part)
	return part.o
}

// options are the texts in the argument of a check.
func (x value) options() []string { return strings.Split(x.st.arg, "|") }

func refersToNothing(x value) bool {
	found := isEmpty(x.v)
	for _, p := range parsePaths(x.st.arg) {
		p.walk(x.s.from(p), unknown, func(_ string, other any) { found = found || other == x.v })
	}
	return !found
}

// ofForm reports the detail of the line instead of a value that is secret.
func ofForm(x value) {
	text := shown(x.v)
	x.s.add(obj.InvalidAll(x.at, cmp.Or(shown(x.st.detail.value(x.s)), text), x.st.form(text))...)
}

func isEmpty(v any) bool {
	list, isList := v.([]any)
	return v == nil || v == "" || isList && len(list) == 0
}

// keysAre refuses keys of a map that have the wrong form. They are reported at the map, or by keys-at at each key.
func keysAre(x value) {
	m, _ := x.v.(Object)
	for _, key := range obj.Keys(m) {
		at := x.at
		if x.st.verb == "keys-at" {
			at += "[" + key + "]"
		}
		x.s.add(obj.InvalidAll(at, key, x.st.form(key))...)
	}
}

// repeated refuses items of the lists at the paths that have the same value in a field as another one, the same values
// in several fields, or that are the same. unique does not compare empty values, distinct does.
func repeated(st *statement, s scope) {
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
			s.add(obj.Duplicate(at, v))
		default:
			s.invalid(at, v, shown(st.detail.value(s)))
		}
		seen[text] = true
	}
	for _, p := range st.paths {
		p.walk(s.from(p), s.base(p), func(at string, v any) { step{each: '['}.walk(v, st.at(at), item) })
	}
}

// union requires one of the members of an object and refuses more. An object that is missing is fine.
func union(x value) {
	m, ok := x.v.(Object)
	if !ok {
		return
	}
	noun, names, _ := strings.Cut(x.st.arg, " ")
	found := false
	for name := range strings.SplitSeq(names, "|") {
		if m[name] != nil && found {
			x.s.add(obj.Forbidden(x.at+"."+name, "may not specify more than 1 "+noun+" type"))
		}
		found = found || m[name] != nil
	}
	if !found {
		x.s.add(obj.Required(x.at, "must specify a "+noun+" type"))
	}
}

// quantity refuses a quantity that is none, or negative.
func quantity(x value) {
	if x.v == nil {
		return
	}
	q, err := patch.ParseQuantity(fmt.Sprint(x.v))
	if zero, _ := patch.ParseQuantity("0"); err != nil {
		x.s.invalid(x.at, x.v,
			"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
	} else if q.Cmp(zero) < 0 {
		x.s.invalid(x.at, fmt.Sprint(x.v), "must be greater than or equal to 0")
	}
}

// percentage refuses what is neither a number from 0 on nor a percentage.
func percentage(x value) {
	text, isText := x.v.(string)
	digits, ok := strings.CutSuffix(text, "%")
	if n, isNumber := integer(x.v); isNumber && n < 0 {
		x.s.invalid(x.at, n, "must be greater than or equal to 0")
	} else if isText && (!ok || digits == "" || strings.Trim(digits, "0123456789") != "") {
		x.s.invalid(x.at, text, "a valid percent string must be a numeric string followed by an "+
			"ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")
	}
}
