package schema

import (
	"encoding/base64"
	"slices"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
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
		if f.Form == Bytes { // with line breaks, which count for nothing, or without
			if text, err := base64.StdEncoding.DecodeString(v); err == nil {
				return base64.StdEncoding.EncodeToString(text)
			}
		}
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
func (f *Value) zeroOf() any { return forms[f.Form].zero.Value() }

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
		switch {
		case of.Name == "core.v1.PodSpec" && field == "":
			dropVolumes(in)
		case field == "restartPolicy" && in[field] == "Always": // that of a sidecar, which has no gate
		case field == "stopSignal" && len(in) == 1 && !used[of.Name+" "+field]:
			in[field] = nil // what holds nothing else goes, too
		case field == "":
			if life := obj.Map(in, "lifecycle"); len(life) == 1 {
				if signal, there := life["stopSignal"]; there && signal == nil {
					delete(in, "lifecycle")
				}
			}
		case !used[of.Name+" "+field]:
			delete(in, field)
		}
	})
}

// dropVolumes removes from the spec of a pod the volumes whose source was dropped, and their mounts. Others have a
// source, as emptyDir is the default.
func dropVolumes(spec map[string]any) {
	dropped := map[any]bool{}
	keep(spec, "volumes", func(v map[string]any) bool {
		gone := len(v) == 1 && v["name"] != nil
		dropped[v["name"]] = gone
		return !gone
	})
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for _, c := range obj.Maps(spec, list) {
			keep(c, "volumeMounts", func(m map[string]any) bool { return !dropped[m["name"]] })
		}
	}
}

// keep removes the other items of a list.
func keep(in map[string]any, list string, wanted func(item map[string]any) bool) {
	items := slices.DeleteFunc(slices.Clone(obj.Slice(in, list)), func(item any) bool {
		m, ok := item.(map[string]any)
		return ok && !wanted(m)
	})
	if in[list] = items; len(items) == 0 {
		delete(in, list)
	}
}

// off calls found for each field that is off and that an object has, and with "" for each object after its fields.
func (t *Type) off(object map[string]any, found func(of *Type, field string, in map[string]any)) {
	for name, v := range object {
		f, ok := t.Fields[name]
		switch inner := f.Value; {
		case !ok:
		case f.off:
			found(t, name, object)
		default:
			if of := inner.within(); of != nil && of.drops {
				inner.offIn(v, found)
			}
		}
	}
	found(t, "", object)
}

// offIn goes through lists and maps down to objects of a type.
func (f *Value) offIn(v any, found func(of *Type, field string, in map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		if f.Form == Struct {
			f.Type.off(v, found)
			return
		}
		for _, member := range v {
			f.Elem.offIn(member, found)
		}
	case []any:
		for _, item := range v {
			f.Elem.offIn(item, found)
		}
	}
}
