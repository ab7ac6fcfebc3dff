package ssa

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// absentType is the type of the value of a missing field, which differs from null.
type absentType struct{}

var absent any = absentType{}

func field(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent
}

// shape is how a value is owned: as a leaf, or by its parts.
type shape int

const (
	leaf shape = iota
	granularObject
	granularList
)

// shapeOf goes by the value first and by the schema second, because a stored object may not match the schema.
func shapeOf(n *patch.Node, v any) shape {
	switch v.(type) {
	case map[string]any:
		if !n.IsAtomicObject() {
			return granularObject
		}
	case []any:
		if n.ListType() != patch.ListAtomic {
			return granularList
		}
	}
	return leaf
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil, absentType:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// item is an item of a list with keys or of a set, with its element of a path.
type item struct {
	element string
	value   any
}

// itemsOf returns the items of a list with their elements. An item without a key is an error: it ends the list.
func itemsOf(n *patch.Node, v any) ([]item, error) {
	list, _ := v.([]any)
	out := make([]item, 0, len(list))
	for i, v := range list {
		element, err := elementOf(n, v)
		if err != nil {
			return out, fmt.Errorf("element %d: %w", i, err)
		}
		out = append(out, item{element, v})
	}
	return out, nil
}

func elementOf(n *patch.Node, v any) (string, error) {
	if n.ListType() == patch.ListMap {
		if key := n.ItemKey(v); key != nil {
			return jsonElement("k", key), nil
		}
		if _, ok := v.(map[string]any); !ok {
			return "", fmt.Errorf("associative list with keys may not have non-map elements")
		}
		return "", fmt.Errorf("associative list with keys has an element that omits all key fields %q (and doesn't "+
			"have default values for any key fields)", n.Keys)
	}
	switch v.(type) {
	case map[string]any:
		return "", fmt.Errorf("associative list without keys has an element that's a map type")
	case []any:
		return "", fmt.Errorf("not supported: associative list with lists as elements")
	case nil:
		return "", fmt.Errorf("associative list without keys has an element that's an explicit null")
	}
	return jsonElement("v", v), nil
}

// byElement groups the items of a stored list, which may have duplicates. Items without a key have no owner.
func byElement(n *patch.Node, v any) (order []string, groups map[string][]any) {
	groups = map[string][]any{}
	list, _ := v.([]any)
	for _, v := range list {
		e, err := elementOf(n, v)
		if err != nil {
			continue
		}
		if _, ok := groups[e]; !ok {
			order = append(order, e)
		}
		groups[e] = append(groups[e], v)
	}
	return order, groups
}

// fieldsOf returns the fields of an applied object: what its manager owns by applying it. The error says what is wrong
// in it.
func fieldsOf(n *patch.Node, object map[string]any) (set, error) {
	f := fieldFinder{set: set{}, names: maps.Keys[map[string]any]}
	f.add(n, object, nil)
	if len(f.problems) < 2 { // only for several problems the order of names matters
		return f.set, errors.Join(f.problems...)
	}
	f = fieldFinder{set: set{}, names: func(m map[string]any) iter.Seq[string] { return slices.Values(obj.Keys(m)) }}
	f.add(n, object, nil)
	text := "errors:"
	for _, p := range f.problems {
		text += "\n  " + p.Error()
	}
	return f.set, errors.New(text)
}

// mustFieldsOf is fieldsOf for objects that were checked or stored. Items without a key are left out.
func mustFieldsOf(n *patch.Node, object map[string]any) set {
	f := fieldFinder{set: set{}, names: maps.Keys[map[string]any]}
	f.add(n, object, nil)
	return f.set
}

// maxProblems is how many fields an error names, as many as one of strict decoding.
const maxProblems = 100

// fieldFinder collects the fields of an object, and what is wrong with it. names returns the names of fields.
type fieldFinder struct {
	set
	problems []error
	names    func(map[string]any) iter.Seq[string]
}

func (f *fieldFinder) problem(path []string, format string, args ...any) {
	if len(f.problems) < maxProblems {
		f.problems = append(f.problems, fmt.Errorf("%s: "+format, append([]any{pathString(path)}, args...)...))
	}
}

func (f *fieldFinder) add(n *patch.Node, v any, path []string) {
	switch shapeOf(n, v) {
	case leaf:
		f.insert(path)
	case granularObject:
		object := v.(map[string]any)
		for name := range f.names(object) {
			at := append(path, "f:"+name)
			if n != nil && n.Closed && !n.Declared(name) {
				f.problem(at, "field not declared in schema")
				continue
			}
			v := object[name]
			f.add(n.Field(name), v, at)
			if m, ok := v.(map[string]any); v == nil || (ok && len(m) == 0) || !n.Declared(name) {
				f.insert(at)
			}
		}
	case granularList:
		items, err := itemsOf(n, v)
		seen := map[string]bool{}
		for _, it := range items {
			if seen[it.element] {
				f.problem(path, "duplicate entries for key %s", pathString([]string{it.element}))
			}
			seen[it.element] = true
			at := append(path, it.element)
			f.add(n.Item(), it.value, at)
			f.insert(at)
		}
		if err != nil {
			f.problem(path, "%w", err)
		}
	}
}

// difference has the fields that are new or have another value in the second of two objects, and those that it lacks.
type difference struct{ changed, removed set }

func (d difference) without(s set) difference {
	return difference{d.changed.without(s), d.removed.without(s)}
}

// keep returns the fields of s that are the same in both objects.
func (d difference) keep(s set) set { return s.minus(d.changed).minus(d.removed) }

func compareObjects(n *patch.Node, old, new map[string]any) difference {
	d := difference{set{}, set{}}
	d.compare(n, old, new, nil)
	return d
}

func (d difference) compare(n *patch.Node, old, new any, path []string) {
	before, after := shapeOf(n, old), shapeOf(n, new)
	switch {
	case new == absent || new == nil:
		after = before
	case old == absent || old == nil:
		before = after
	}
	if before != after { // the type changed, so that everything below was removed, too
		d.compareAs(before, n, old, new, path)
	}
	d.compareAs(after, n, old, new, path)
}

func (d difference) compareAs(shape shape, n *patch.Node, old, new any, path []string) {
	switch {
	case shape == leaf || (isEmpty(old) && isEmpty(new)):
		if new == absent {
			d.removed.insert(path)
		} else if old == absent || !patch.Equal(old, new) {
			d.changed.insert(path)
		}
		return
	case shape == granularObject:
		d.compareFields(n, old, new, path)
	default:
		d.compareItems(n, old, new, path)
	}
	if old == absent {
		d.changed.insert(path)
	} else if new == absent {
		d.removed.insert(path)
	}
}

func (d difference) compareFields(n *patch.Node, old, new any, path []string) {
	a, _ := old.(map[string]any)
	b, _ := new.(map[string]any)
	for name, v := range a {
		d.compare(n.Field(name), v, field(b, name), append(path, "f:"+name))
	}
	for name, v := range b {
		if _, ok := a[name]; !ok {
			d.compare(n.Field(name), absent, v, append(path, "f:"+name))
		}
	}
}

func (d difference) compareItems(n *patch.Node, old, new any, path []string) {
	if patch.Equal(old, new) {
		return
	}
	order, a := byElement(n, old)
	added, b := byElement(n, new)
	for _, e := range added {
		if a[e] == nil {
			order = append(order, e)
		}
	}
	for _, e := range order {
		at := append(path, e)
		if len(a[e]) > 1 || len(b[e]) > 1 { // duplicates have one owner together
			d.compare(nil, orAbsent(a[e]), orAbsent(b[e]), at)
			continue
		}
		d.compare(n.Item(), first(a[e]), first(b[e]), at)
	}
}

func orAbsent(list []any) any {
	if list == nil {
		return absent
	}
	return list
}

func first(list []any) any {
	if len(list) == 0 {
		return absent
	}
	return list[0]
}
