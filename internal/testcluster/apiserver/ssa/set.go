package ssa

import (
	"fmt"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// set is a set of fields as a tree, with the keys of fieldsV1: "f:" and a name for a field, "k:" and a JSON object for
// an item of a list with keys, "v:" and a JSON value for a member of a set, "i:" and a number for an index.
type set map[string]node

type node struct {
	member bool // the field itself, "." in fieldsV1
	below  set
}

// neverOwned are the fields without owners: identity, and fields that only the server sets.
var neverOwned = func() set {
	s := set{}
	for _, path := range []string{"apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace",
		"metadata.creationTimestamp", "metadata.selfLink", "metadata.uid", "metadata.clusterName",
		"metadata.generation", "metadata.managedFields", "metadata.resourceVersion"} {
		s.insertFields(path)
	}
	return s
}()

func (s set) empty() bool { return len(s) == 0 }

// insertFields adds a path of field names, joined by dots.
func (s set) insertFields(path string) {
	s.insert(obj.Each(strings.Split(path, "."), func(name string) string { return "f:" + name }))
}

// insert adds the field at path; the empty path, the object itself, is never a member.
func (s set) insert(path []string) {
	if len(path) == 0 {
		return
	}
	n := s[path[0]]
	if len(path) == 1 {
		n.member = true
	} else {
		if n.below == nil {
			n.below = set{}
		}
		n.below.insert(path[1:])
	}
	s[path[0]] = n
}

// put sets the node of an element, unless it is empty.
func (s set) put(element string, n node) {
	if n.member || len(n.below) > 0 {
		s[element] = n
	}
}

func (s set) union(other set) set {
	if len(other) == 0 { // sets are not changed once they are made
		return s
	}
	if len(s) == 0 {
		return other
	}
	out := make(set, max(len(s), len(other)))
	for e, n := range s {
		o := other[e]
		out.put(e, node{n.member || o.member, n.below.union(o.below)})
	}
	for e, o := range other {
		if _, ok := s[e]; !ok {
			out[e] = o
		}
	}
	return out
}

// minus removes the members of other. A field stays if only its parent is in other, and vice versa.
func (s set) minus(other set) set { return s.subtract(other, false) }

// without removes the members of other with everything below them.
func (s set) without(other set) set { return s.subtract(other, true) }

func (s set) subtract(other set, below bool) set {
	if len(other) == 0 {
		return s
	}
	out := make(set, len(s))
	for e, n := range s {
		if o := other[e]; !o.member || !below {
			out.put(e, node{n.member && !o.member, n.below.subtract(o.below, below)})
		}
	}
	return out
}

func (s set) intersect(other set) set {
	out := set{}
	for e, n := range s {
		if o, ok := other[e]; ok {
			out.put(e, node{n.member && o.member, n.below.intersect(o.below)})
		}
	}
	return out
}

// withParents adds each declared field that has members below it, but not the keys of maps and the items of lists:
// they exist only if they have an owner.
func (s set) withParents(schema *patch.Node) set {
	out := make(set, len(s))
	for e, n := range s {
		child := schema.Item()
		if name, ok := strings.CutPrefix(e, "f:"); ok {
			child = schema.Field(name)
			n.member = n.member || schema.Declared(name)
		}
		n.below = n.below.withParents(child)
		out[e] = n
	}
	return out
}

// paths calls f for each member, in byte order of the elements; f must not keep path.
func (s set) paths(prefix []string, f func(path []string)) {
	for _, e := range obj.Keys(s) {
		path := append(prefix, e)
		if s[e].member {
			f(path)
		}
		s[e].below.paths(path, f)
	}
}

// encode returns s as fieldsV1. Equal sets have the same text.
func (s set) encode() patch.Text { return patch.NewText(string(s.appendJSON(nil, false))) }

// appendJSON writes s with its elements in byte order; member says that the field itself is a member, too.
func (s set) appendJSON(out []byte, member bool) []byte {
	out = append(out, '{')
	if member && len(s) > 0 {
		out = append(out, `".":{},`...) // it sorts before all others, which start with a letter
	}
	for i, e := range obj.Keys(s) {
		if i > 0 {
			out = append(out, ',')
		}
		out = patch.AppendString(out, e)
		out = s[e].below.appendJSON(append(out, ':'), s[e].member)
	}
	return append(out, '}')
}

// decodeSet reads fieldsV1: the text that encode made, or the value that a client sent. Kinds of elements that it does
// not know are skipped, as the API server does.
func decodeSet(fields any) (set, error) {
	text, ok := fields.(patch.Text)
	if !ok {
		object, _ := fields.(map[string]any)
		b, err := patch.Encode(object)
		if err != nil || object == nil {
			return set{}, err
		}
		text = patch.NewText(string(b))
	}
	s, _, _, err := decodeElements([]byte(text.String()), 0)
	return s, err
}

// decodeElements returns the elements in the object at pos, whether that is a member itself, and where it ends.
func decodeElements(text []byte, pos int) (s set, member bool, end int, err error) {
	s = set{}
	end, err = patch.Members(text, pos, func(name string, at int) (int, error) {
		member = member || name == "."
		element, known, err := canonical(name)
		if err != nil || !known {
			return at, err
		}
		below, itself, end, err := decodeElements(text, at)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", name, err)
		}
		s[element] = node{itself || len(below) == 0, below}
		return end, nil
	})
	return s, member, end, err
}

// canonical normalizes an element, so that equal elements are equal strings.
func canonical(element string) (_ string, known bool, _ error) {
	kind, content, ok := strings.Cut(element, ":")
	if !ok {
		return "", false, nil // "." is not an element either
	}
	switch kind {
	case "f", "i":
		return element, true, nil
	case "k", "v":
		v, err := patch.Decode([]byte(content))
		if err != nil {
			return "", false, fmt.Errorf("fieldsV1 %q: %w", element, err)
		}
		return jsonElement(kind, v), true, nil
	}
	return "", false, nil
}

// jsonElement returns an element with a JSON value, which can always be encoded.
func jsonElement(kind string, v any) string {
	b, err := patch.Encode(v)
	if err != nil {
		panic(err)
	}
	return kind + ":" + string(b)
}

// pathString formats a path as the API server does in conflicts: .spec.containers[name="a"].image.
func pathString(path []string) string {
	var b strings.Builder
	for _, e := range path {
		kind, content, _ := strings.Cut(e, ":")
		switch kind {
		case "f":
			b.WriteString("." + content)
		case "v":
			b.WriteString("[=" + content + "]")
		case "i":
			b.WriteString("[" + content + "]")
		case "k":
			v, err := patch.Decode([]byte(content))
			if key, ok := v.(map[string]any); ok && err == nil {
				b.WriteString(patch.KeyString(key))
			}
		}
	}
	return b.String()
}
