package kinds

import "skiff/internal/testcluster/apiserver/obj"

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
