package schema

// spread marks the types that are made of one with fields that are off, until there are no more of them.
func spread(types map[string]*Type) {
	for changed := true; changed; {
		changed = false
		for _, t := range types {
			for _, f := range t.Fields {
				if inner := f.within(); !t.drops && inner != nil && inner.drops {
					t.drops, changed = true, true
				}
			}
		}
	}
}

// within returns the type of the objects that a value is or is made of, nil if there are none.
func (f *Value) within() *Type {
	for f.Elem != nil {
		f = f.Elem
	}
	return f.Type
}

// DropDisabled removes the fields whose feature gates are off from an object, in place, as the strategies of the real
// server do (dropDisabledFields): not those that cur, the object before, uses anywhere. cur may be nil.
func (t *Type) DropDisabled(next, cur map[string]any) {
	if !t.drops {
		return
	}
	used := map[string]bool{}
	t.off(cur, func(of *Type, field string, _ map[string]any) { used[of.Name+" "+field] = true })
	t.off(next, func(of *Type, field string, in map[string]any) {
		if !used[of.Name+" "+field] {
			delete(in, field)
		}
	})
}

// off calls found for each field that is off and that an object has.
func (t *Type) off(object map[string]any, found func(of *Type, field string, in map[string]any)) {
	for name, v := range object {
		f, ok := t.Fields[name]
		switch inner := f.Value; {
		case !ok:
		case f.off:
			found(t, name, object)
		default:
			if of := inner.within(); of != nil && of.drops {
				of.offIn(v, found)
			}
		}
	}
}

// offIn goes through lists and maps down to objects of the type.
func (t *Type) offIn(v any, found func(of *Type, field string, in map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		t.off(v, found)
	case []any:
		for _, item := range v {
			t.offIn(item, found)
		}
	}
}
