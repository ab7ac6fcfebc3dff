package schema

import (
	"time"

	"skiff/internal/runtime/patch"
)

// Drop does, in place, what decoding into Go types and encoding again does: null and the zero value of a field that is
// not a pointer are dropped, and quantities and times are normalized. Fill then adds the values that a Go type always
// shows. Defaults are set in between, because they replace zero values.
func (t *Type) Drop(object map[string]any) {
	for name, v := range object {
		f, ok := t.Fields[name]
		if !ok || name == "managedFields" { // an empty list of managers has a meaning: remove all
			continue
		}
		if v = f.drop(v); v == nil || !f.Pointer && f.isZero(v) {
			delete(object, name)
			continue
		}
		object[name] = v
	}
}

// drop returns v without the values that Drop removes.
func (f *Value) drop(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if f.Form == Struct {
			f.Type.Drop(v)
		}
		if f.Form == Map {
			for name, member := range v {
				if member = f.Elem.drop(member); member == nil {
					member = f.Elem.zeroOf()
				}
				v[name] = member
			}
		}
	case []any:
		if f.Form == List {
			for i := range v {
				v[i] = f.Elem.drop(v[i])
			}
		}
	case string:
		if layout := timeLayouts[f.Form]; layout != "" {
			if at, err := time.Parse(layout, v); err == nil {
				return at.UTC().Format(layout)
			}
		}
	}
	if f.Form == Quantity {
		if text, ok := patch.CanonicalQuantity(v); ok {
			return text
		}
	}
	return v
}

// isZero reports whether Go omits the value of a field with omitempty. Structs are never omitted, and free JSON is not
// examined.
func (f *Value) isZero(v any) bool {
	switch v := v.(type) {
	case string:
		return v == "" && f.Form != Any
	case bool:
		return !v && f.Form != Any
	case int64:
		return v == 0 && f.Form != Any && f.Form != IntOrString
	case float64:
		return v == 0 && f.Form != Any && f.Form != IntOrString
	case []any:
		return len(v) == 0 && f.Form != Any
	case map[string]any:
		return len(v) == 0 && f.Form == Map
	}
	return false
}

// zeroOf returns the zero value in its encoded form.
func (f *Value) zeroOf() any {
	return forms[f.Form].zero.Value()
}

// Fill adds the values that the Go types always show, in place.
func (t *Type) Fill(object map[string]any) {
	for name, f := range t.Fields {
		v, ok := object[name]
		if !ok && !f.Always {
			continue
		}
		if !ok && !f.Pointer {
			v = f.zeroOf()
		}
		object[name] = v
		f.fill(v)
	}
}

func (f *Value) fill(v any) {
	switch v := v.(type) {
	case map[string]any:
		if f.Form == Struct {
			f.Type.Fill(v)
		}
		if f.Form == Map {
			for _, member := range v {
				f.Elem.fill(member)
			}
		}
	case []any:
		if f.Form == List {
			for _, item := range v {
				f.Elem.fill(item)
			}
		}
	}
}
