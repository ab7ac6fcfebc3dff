package ssa

import "skiff/internal/runtime/patch"

// merge merges an applied value into a live one.
func merge(n *patch.Node, live, applied any) any {
	if applied == absent {
		return live
	}
	shape := shapeOf(n, applied)
	if applied == nil {
		shape = shapeOf(n, live)
	}
	switch {
	case shape == leaf || (isEmpty(live) && isEmpty(applied)):
		return applied
	case shape == granularList:
		return mergeItems(n, live, applied)
	}
	a, _ := live.(map[string]any)
	b, _ := applied.(map[string]any)
	out := make(map[string]any, len(a)+len(b))
	for name, v := range a {
		out[name] = merge(n.Field(name), v, field(b, name))
	}
	for name, v := range b {
		if _, ok := a[name]; !ok {
			out[name] = merge(n.Field(name), absent, v)
		}
	}
	return out
}

// mergeItems merges two lists: items of both are in the applied order, and items of one list keep their place among
// them. Duplicates in a live list stay, unless their key is applied.
func mergeItems(n *patch.Node, live, applied any) any {
	list, _ := live.([]any)
	_, groups := byElement(n, live)
	add, _ := itemsOf(n, applied) // fieldsOf would have returned the error before
	isApplied, done := map[string]bool{}, map[string]bool{}
	for _, it := range add {
		isApplied[it.element] = true
	}
	out := make([]any, 0, len(list)+len(add))
	emit := func() {
		it := add[0]
		add = add[1:]
		old := absent
		if g := groups[it.element]; len(g) == 1 {
			old = g[0]
		}
		out = append(out, merge(n.Item(), old, it.value))
		done[it.element] = true
	}
	// nextShared returns the first item of both lists, in the applied order, that is not in the result yet.
	nextShared := func() string {
		for _, it := range add {
			if len(groups[it.element]) > 0 {
				return it.element
			}
		}
		return ""
	}
	for _, v := range list {
		e, err := elementOf(n, v)
		switch {
		case err != nil || !isApplied[e]:
			out = append(out, v)
		case !done[e] && e == nextShared():
			for !done[e] {
				emit()
			}
		}
	}
	for len(add) > 0 {
		emit()
	}
	return out
}

// remove returns object without the fields of s, and without the parents that become empty.
func remove(n *patch.Node, object map[string]any, s set) map[string]any {
	v, _ := removeFrom(n, object, s).(map[string]any)
	return v
}

func removeFrom(n *patch.Node, v any, s set) any {
	switch shapeOf(n, v) {
	case granularObject:
		m := v.(map[string]any)
		out := make(map[string]any, len(m))
		for name, v := range m {
			e := s["f:"+name]
			if e.member {
				continue
			}
			if !e.below.empty() {
				if v = removeFrom(n.Field(name), v, e.below); v == nil {
					continue
				}
			}
			out[name] = v
		}
		if len(out) == 0 && len(m) > 0 {
			return nil
		}
		return out
	case granularList:
		list := v.([]any)
		out := make([]any, 0, len(list))
		for _, v := range list {
			el, err := elementOf(n, v)
			e := s[el]
			if err == nil && e.member {
				continue
			}
			if err == nil && !e.below.empty() {
				v = removeFrom(n.Item(), v, e.below)
			}
			out = append(out, v)
		}
		if len(out) == 0 && len(list) > 0 {
			return nil
		}
		return out
	}
	return v
}
