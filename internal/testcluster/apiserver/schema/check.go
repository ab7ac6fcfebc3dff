package schema

import (
	"encoding/base64"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prune removes the fields that the type does not have from an object, in place, and returns their paths in order, in
// the form of Go's strict decoder: spec.containers[0].foo. It ignores values of the wrong type; see TypeError.
func (t *Type) Prune(object map[string]any) []string {
	unknown := t.prune(object, nil)
	slices.Sort(unknown)
	return unknown
}

// prune appends to unknown. It builds paths from the inside out, because only unknown fields need one.
func (t *Type) prune(object map[string]any, unknown []string) []string {
	for name, v := range object {
		f, ok := t.Fields[name]
		if !ok {
			unknown = append(unknown, name)
			delete(object, name)
			continue
		}
		before := len(unknown)
		unknown = f.prune(v, unknown)
		under(name, unknown[before:])
	}
	return unknown
}

func (f *Value) prune(v any, unknown []string) []string {
	switch v := v.(type) {
	case map[string]any:
		if f.Form == Struct {
			return f.Type.prune(v, unknown)
		}
		if f.Form == Map {
			for name, member := range v {
				before := len(unknown)
				unknown = f.Elem.prune(member, unknown)
				under(name, unknown[before:])
			}
		}
	case []any:
		if f.Form == List {
			for i, item := range v {
				before := len(unknown)
				unknown = f.Elem.prune(item, unknown)
				if len(unknown) > before {
					under("["+strconv.Itoa(i)+"]", unknown[before:])
				}
			}
		}
	}
	return unknown
}

func under(parent string, paths []string) {
	for i, p := range paths {
		if !strings.HasPrefix(p, "[") {
			p = "." + p
		}
		paths[i] = parent + p
	}
}

// TypeError returns the message of Go's decoder for the first value of the wrong type, by the order of the field
// names; "" if there is none.
func (t *Type) TypeError(object map[string]any) string {
	if t.mismatch(object, maps.Keys[map[string]any]) == nil { // without an error the order does not matter
		return ""
	}
	m := t.mismatch(object, func(object map[string]any) iter.Seq[string] {
		return slices.Values(slices.Sorted(maps.Keys(object)))
	})
	if m.text != "" {
		return m.text
	}
	return fmt.Sprintf("json: cannot unmarshal %s into Go struct field %s.%s of type %s", m.what,
		m.owner, m.path, m.goType)
}

// mismatch is a value of the wrong type.
type mismatch struct {
	what   string // it is
	owner  string // the Go struct that it is in
	path   string // without indexes and keys of maps, as in Go's messages
	goType string // that is wanted
	text   string // instead of all that
}

// mismatch returns the first value of the wrong type; names returns the names of an object's fields.
func (t *Type) mismatch(object map[string]any, names func(map[string]any) iter.Seq[string]) *mismatch {
	for name := range names(object) {
		f, ok := t.Fields[name]
		if !ok {
			continue
		}
		if m := f.check(object[name], names); m != nil {
			m.path = strings.TrimSuffix(name+"."+m.path, ".")
			if m.owner == "" {
				m.owner = t.GoName()
			}
			return m
		}
	}
	return nil
}

func (f *Value) check(v any, names func(map[string]any) iter.Seq[string]) *mismatch {
	if v == nil {
		return nil
	}
	if f.Form == IntOrString && JSONType(v) == "number" {
		if what := (&Value{Form: Int32}).mismatch(v); what != "" {
			return &mismatch{text: "json: cannot unmarshal " + what + " into Go value of type int32"}
		}
	}
	if what := f.mismatch(v); what != "" {
		return &mismatch{what: what, goType: f.goType()}
	}
	switch v := v.(type) {
	case string:
		if f.Form == Bytes {
			if _, err := base64.StdEncoding.DecodeString(v); err != nil {
				return &mismatch{text: err.Error()}
			}
		}
		if layout := timeLayouts[f.Form]; layout != "" {
			if _, err := time.Parse(layout, v); err != nil {
				return &mismatch{text: err.Error()}
			}
		}
	case map[string]any:
		if f.Form == Struct {
			return f.Type.mismatch(v, names)
		}
		if f.Form == Any && f.Type != nil { // Go decodes one of several forms on its own
			for _, one := range f.Type.Fields {
				if one.Form != Struct {
					continue
				}
				if text := one.Type.TypeError(v); text != "" {
					return &mismatch{text: text}
				}
			}
		}
		if f.Form == Map {
			for name := range names(v) {
				if m := f.Elem.check(v[name], names); m != nil {
					return m
				}
			}
		}
	case []any:
		if f.Form == List {
			for _, item := range v {
				if m := f.Elem.check(item, names); m != nil {
					return m
				}
			}
		}
	}
	return nil
}

// timeLayouts are the forms of times that the server's Go types accept, and microTime the form in which they write
// microseconds.
var timeLayouts = map[Form]string{Time: time.RFC3339, MicroTime: microTime}

const microTime = "2006-01-02T15:04:05.000000Z07:00"

// mismatch returns the JSON type of a wrong value in the words of Go's decoder, for a number out of range the number.
func (f *Value) mismatch(v any) string {
	is := JSONType(v)
	if f.Form == Int32 || f.Form == Int64 {
		n, whole := v.(int64)
		if whole && (f.Form == Int64 || n >= math.MinInt32 && n <= math.MaxInt32) {
			return ""
		}
		return strings.TrimSpace(is + " " + numberText(v))
	}
	if strings.Contains(forms[f.Form].json, is) || f.Form == Any {
		return ""
	}
	return is
}

func numberText(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// JSONType returns the JSON type of a value in the words of Go's decoder.
func JSONType(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case string:
		return "string"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	}
	return "number"
}

// goType returns the Go type that the real server decodes the value into.
func (f *Value) goType() string {
	name := forms[f.Form].goType
	switch f.Form {
	case List, Map:
		return name + f.Elem.goType()
	case Struct:
		return strings.Split(f.Type.Name, ".")[1] + "." + f.Type.GoName()
	}
	return name
}
