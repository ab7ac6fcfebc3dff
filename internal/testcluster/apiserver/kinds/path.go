package kinds

import (
	"slices"
	"strconv"
	"strings"

	"skiff/internal/testcluster/apiserver/obj"
)

// path leads to values in an object: a.b is a field, a[].b is b of each item of the list a, a{} each value of the map
// a, a[k=v] the items whose field k is v, a[0] the first item, and a[name] a key that may have dots. "." is the object
// itself.
type path struct {
	stored bool // it starts with old: and leads from the stored object
	rooted bool // it starts with a slash: it leads from the whole object, not from the one that a block is about
	steps  []step
	keys   []string // of the steps, for a path without a choice of items
}

// step leads to a member or an item, or if each is set, to some of them.
type step struct {
	key   string
	dots  bool     // the key is in brackets, and may be an index
	each  byte     // '[' for the items of a list, '{' for the values of a map, 0 for one value
	field []string // of the items that are meant; nil is all
	is    string   // and its value
}

func parsePath(text string) path {
	var p path
	rest, stored := strings.CutPrefix(text, "old:")
	rest, rooted := strings.CutPrefix(rest, "/")
	p.stored, p.rooted = stored, rooted
	for rest != "" && rest != "." {
		if rest[0] == '[' || rest[0] == '{' {
			inside, after, closed := strings.Cut(rest[1:], map[byte]string{'[': "]", '{': "}"}[rest[0]])
			if !closed {
				mistake("no closing bracket: %q", text)
			}
			key, value, filtered := strings.Cut(inside, "=")
			switch {
			case filtered:
				p.steps = append(p.steps, step{each: '[', field: []string{key}, is: value})
			case inside == "":
				p.steps = append(p.steps, step{each: rest[0]})
			default:
				p.steps = append(p.steps, step{key: inside, dots: true})
			}
			rest = strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(rest, ".[{")
		if end < 0 {
			end = len(rest)
		}
		p.steps = append(p.steps, step{key: rest[:end]})
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	p.keys = obj.Each(p.steps, func(s step) string { return s.key })
	return p
}

// parsePaths parses paths with bars between them.
func parsePaths(text string) []path { return obj.Each(strings.Split(text, "|"), parsePath) }

// lists reports whether the path may lead to several values.
func (p path) lists() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.each != 0 })
}

// of returns what a step to one value leads to.
func (s step) of(v any) any {
	if list, ok := v.([]any); ok && s.dots {
		i, err := strconv.Atoi(s.key)
		if i < 0 {
			i += len(list)
		}
		if err != nil || i < 0 || i >= len(list) {
			return nil
		}
		return list[i]
	}
	m, _ := v.(Object)
	return m[s.key]
}

// get returns the first value at a path, nil if there is none.
func (p path) get(v any) any {
	for i, s := range p.steps {
		if s.each == 0 {
			v = s.of(v)
			continue
		}
		var found any
		s.walk(v, unknown, func(_ string, item any) {
			if found == nil {
				found = path{steps: p.steps[i+1:]}.get(item)
			}
		})
		return found
	}
	return v
}

// walk calls f with each value at a path below o, nil for a missing one, and where it is.
func (p path) walk(o any, at string, f func(at string, v any)) {
	if len(p.steps) == 0 {
		f(at, o)
		return
	}
	rest := path{steps: p.steps[1:]}
	p.steps[0].walk(o, at, func(at string, v any) { rest.walk(v, at, f) })
}

// walk calls f with what a step leads to, in order, and where that is.
func (s step) walk(v any, at string, f func(at string, v any)) {
	switch {
	case s.each == '{':
		m, _ := v.(Object)
		for _, key := range obj.Keys(m) {
			f(within(at, key), m[key])
		}
	case s.each == '[':
		list, _ := v.([]any)
		for i, item := range list {
			m, _ := item.(Object)
			if s.field == nil || shown(obj.Get(m, s.field...)) == s.is {
				f(within(at, strconv.Itoa(i)), item)
			}
		}
	case s.dots:
		f(within(at, s.key), s.of(v))
	default:
		f(join(at, s.key), s.of(v))
	}
}

// unknown stands for a place that is not needed: to build the places is most of the work of a walk.
const unknown = "?"

// join returns the place of a field, within that of an item.
func join(at, key string) string {
	switch at {
	case unknown:
		return at
	case "":
		return key
	}
	return at + "." + key
}

func within(at, key string) string {
	if at == unknown {
		return at
	}
	return at + "[" + key + "]"
}

// scope is what the lines of a block are about: an object, or a part of it.
type scope struct {
	root, stored Object // the whole object; its stored form, nil for a new one
	o            Object // the part that paths lead from, nil if it is missing
	old          Object // the same part of the stored form
	at           string // where the part is: "" is the whole, or unknown

	found *[]Cause // what the checks have found so far
}

// add adds to what the checks have found.
func (s scope) add(causes ...Cause) { *s.found = append(*s.found, causes...) }

func (s scope) invalid(at string, v any, detail string) { s.add(obj.Invalid(at, v, detail)) }

func (s scope) from(p path) Object {
	switch {
	case p.stored && p.rooted:
		return s.stored
	case p.stored:
		return s.old
	case p.rooted:
		return s.root
	}
	return s.o
}

func (s scope) get(p path) any { return p.get(s.from(p)) }

// was returns the stored value at a path.
func (s scope) was(p path) any {
	p.stored = true
	return s.get(p)
}

// each calls f with the parts at a path, nil for a missing one.
func (s scope) each(p path, f func(scope)) {
	p.walk(s.from(p), s.base(p), func(at string, v any) {
		part := s
		part.o, _ = v.(Object)
		part.old, _ = s.was(p).(Object)
		if part.at = at; p.lists() {
			part.old = nil
		}
		f(part)
	})
}

func (s scope) base(p path) string {
	if p.rooted && s.at != unknown {
		return ""
	}
	return s.at
}

// whole is the scope of a whole object.
func whole(next, cur Object) scope { return scope{root: next, stored: cur, o: next, old: cur} }
