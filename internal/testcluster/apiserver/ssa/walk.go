package ssa

import (
	"fmt"

	"skiff/internal/runtime/patch"
)

// absent is the value of a missing field, which differs from null.
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

// itemsOf returns the items of a list with their elements. An item without a key is an error.
func itemsOf(n *patch.Node, v any) ([]item, error) {
	list, _ := v.([]any)
	out := make([]item, 0, len(list))
	for i, v := range list {
		element, err := elementOf(n, v)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
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

// fieldsOf returns the fields of an applied object: what its manager owns by applying it.
func fieldsOf(n *patch.Node, object map[string]any) (set, error) {
	s := set{}
	return s, s.addFields(n, object, nil)
}

// mustFieldsOf is fieldsOf for objects that were checked or stored. Items without a key are left out.
func mustFieldsOf(n *patch.Node, object map[string]any) set {
	s, _ := fieldsOf(n, object)
	return s
}

func (s set) addFields(n *patch.Node, v any, path []string) error {
	switch shapeOf(n, v) {
	case leaf:
		s.insert(path)
	case granularObject:
		for name, v := range v.(map[string]any) {
			at := append(path, "f:"+name)
			if n != nil && n.Closed && !n.Declared(name) {
				return fmt.Errorf("%s: field not declared in schema", pathString(at))
			}
			if err := s.addFields(n.Field(name), v, at); err != nil {
				return err
			}
			if m, ok := v.(map[string]any); v == nil || (ok && len(m) == 0) || !n.Declared(name) {
				s.insert(at)
			}
		}
	case granularList:
		items, err := itemsOf(n, v)
		if err != nil {
			return fmt.Errorf("%s: %w", pathString(path), err)
		}
		seen := map[string]bool{}
		for _, it := range items {
			if seen[it.element] {
				return fmt.Errorf("%s: duplicate entries for key %s", pathString(path),
					pathString([]string{it.element}))
			}
			seen[it.element] = true
			at := append(path, it.element)
			if err := s.addFields(n.Item(), it.value, at); err != nil {
				return err
			}
			s.insert(at)
		}
	}
	return nil
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
