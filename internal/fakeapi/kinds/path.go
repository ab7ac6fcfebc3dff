package kinds

import (
	"strconv"
	"strings"

	"skiff/internal/fakeapi/obj"
)

// path leads to values in an object: a.b is a field, a[].b is b of each item of the list a, a{} each value of the map
// a, a[k=v] the items whose field k is v, and a[name] a key that may have dots. "." is the object itself.
type path struct {
	text   string
	rooted bool // it starts with a slash: it leads from the whole object, not from the one that a block is about
	steps  []step
}

type step struct {
	key  string
	dots bool      // the key is in brackets
	each byte      // '[' for the items of a list, '{' for the values of a map, 0 for one value
	only [2]string // a field of the items and its value; empty means all items
}

func parsePath(text string) path {
	p := path{text: text}
	rest, rooted := strings.CutPrefix(text, "/")
	p.rooted = rooted
	for rest != "" && rest != "." {
		end := strings.IndexAny(rest, ".[{")
		if end < 0 {
			end = len(rest)
		}
		s := step{key: rest[:end]}
		rest = rest[end:]
		if strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, "{") {
			inside, after, _ := strings.Cut(rest[1:], map[byte]string{'[': "]", '{': "}"}[rest[0]])
			key, value, filtered := strings.Cut(inside, "=")
			switch {
			case filtered:
				s.each, s.only = '[', [2]string{key, value}
			case inside == "":
				s.each = rest[0]
			default:
				p.steps = append(p.steps, s)
				s = step{key: inside, dots: true}
			}
			rest = after
		}
		p.steps = append(p.steps, s)
		rest = strings.TrimPrefix(rest, ".")
	}
	return p
}

// lists reports whether the path may lead to several values.
func (p path) lists() bool {
	for _, s := range p.steps {
		if s.each != 0 {
			return true
		}
	}
	return false
}

// get returns the first value at a path, nil if there is none.
func (p path) get(o Object) any {
	v := any(o)
	for i, s := range p.steps {
		m, _ := v.(Object)
		if v = m[s.key]; s.each == 0 {
			continue
		}
		var found any
		rest := path{steps: p.steps[i+1:]}
		eachItem(s, v, unknown, func(_ string, item any) {
			if found != nil {
				return
			}
			if found = item; len(rest.steps) > 0 {
				inner, _ := item.(Object)
				found = rest.get(inner)
			}
		})
		return found
	}
	return v
}

// eachItem calls f with the items of the list or the values of the map at a place, in order, and where each is.
func eachItem(s step, v any, at string, f func(at string, item any)) {
	if s.each == '{' {
		m, _ := v.(Object)
		for _, key := range obj.Keys(m) {
			f(within(at, key), m[key])
		}
		return
	}
	list, _ := v.([]any)
	for i, item := range list {
		m, _ := item.(Object)
		if s.only[0] == "" || obj.String(m, s.only[0]) == s.only[1] {
			f(within(at, strconv.Itoa(i)), item)
		}
	}
}

// walk calls f with each value at a path below o, nil for a missing one, and where it is.
func (p path) walk(o any, at string, f func(at string, v any)) {
	if len(p.steps) == 0 {
		f(at, o)
		return
	}
	s, rest := p.steps[0], path{steps: p.steps[1:]}
	m, _ := o.(Object)
	if s.dots {
		at = within(at, s.key)
	} else {
		at = join(at, s.key)
	}
	if s.each == 0 {
		rest.walk(m[s.key], at, f)
		return
	}
	eachItem(s, m[s.key], at, func(at string, v any) { rest.walk(v, at, f) })
}

// unknown stands for a place that nobody asks for: to build the places is most of the work of a walk.
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
