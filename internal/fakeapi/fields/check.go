package fields

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prune takes the fields that the type does not have out of an object, in place, and returns their paths in order, as Go's strict
// decoder writes them: spec.containers[0].foo. What is of the wrong type is left alone; see TypeError.
func (t *Type) Prune(object map[string]any) []string {
	var unknown []string
	t.prune(object, "", &unknown)
	slices.Sort(unknown)
	return unknown
}

func (t *Type) prune(object map[string]any, path string, unknown *[]string) {
	for name, v := range object {
		at := strings.TrimPrefix(path+"."+name, ".")
		if f, ok := t.Fields[name]; ok {
			f.prune(v, at, unknown)
			continue
		}
		*unknown = append(*unknown, at)
		delete(object, name)
	}
}

func (f *Value) prune(v any, path string, unknown *[]string) {
	switch v := v.(type) {
	case map[string]any:
		if f.Form == Struct {
			f.Type.prune(v, path, unknown)
		}
		if f.Form == Map {
			for name, member := range v {
				f.Elem.prune(member, path+"."+name, unknown)
			}
		}
	case []any:
		if f.Form == List {
			for i, item := range v {
				f.Elem.prune(item, path+"["+strconv.Itoa(i)+"]", unknown)
			}
		}
	}
}

// TypeError returns Go's words for the first value of the wrong type, in the order of the fields' names; "" if there is none.
func (t *Type) TypeError(object map[string]any) string {
	return t.typeError(object, "")
}

func (t *Type) typeError(object map[string]any, path string) string {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if f, ok := t.Fields[name]; ok {
			if text := f.typeError(object[name], t.GoName(), strings.TrimPrefix(path+"."+name, ".")); text != "" {
				return text
			}
		}
	}
	return ""
}

// typeError checks v, which stands at path in a struct of that Go type. Paths have no indexes and no keys of maps: Go's have none.
func (f *Value) typeError(v any, goType, path string) string {
	if v == nil {
		return ""
	}
	if what := f.misfit(v); what != "" {
		return fmt.Sprintf("json: cannot unmarshal %s into Go struct field %s.%s of type %s", what, goType, path, f.goType())
	}
	switch v := v.(type) {
	case string:
		if layout := timeLayouts[f.Form]; layout != "" {
			if _, err := time.Parse(layout, v); err != nil {
				return err.Error()
			}
		}
	case map[string]any:
		if f.Form == Struct {
			return f.Type.typeError(v, path)
		}
		if f.Form == Map {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if text := f.Elem.typeError(v[name], goType, path); text != "" {
					return text
				}
			}
		}
	case []any:
		if f.Form == List {
			for _, item := range v {
				if text := f.Elem.typeError(item, goType, path); text != "" {
					return text
				}
			}
		}
	}
	return ""
}

// timeLayouts are how the server's Go types read times, and microTime how it writes those with microseconds.
var timeLayouts = map[Form]string{Time: time.RFC3339, MicroTime: microTime}

const microTime = "2006-01-02T15:04:05.000000Z07:00"

// misfit names the JSON type of a value that does not fit, as Go's decoder does: of a number that does not fit it shows which.
func (f *Value) misfit(v any) string {
	is := JSONType(v)
	switch f.Form {
	case String, Time, MicroTime, Bytes:
		return unless(is == "string", is)
	case Bool:
		return unless(is == "bool", is)
	case Int32, Int64:
		n, whole := v.(int64)
		fits := whole && (f.Form == Int64 || n >= math.MinInt32 && n <= math.MaxInt32)
		return unless(fits, strings.TrimSpace(is+" "+numberText(v)))
	case Double:
		return unless(is == "number", is)
	case Quantity, IntOrString:
		return unless(is == "string" || is == "number", is)
	case List:
		return unless(is == "array", is)
	case Map, Struct:
		return unless(is == "object", is)
	}
	return ""
}

func unless(ok bool, text string) string {
	if ok {
		return ""
	}
	return text
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

// JSONType names the JSON type of a value in the words of Go's decoder.
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

// goType is the name of the Go type that the real server decodes into.
func (f *Value) goType() string {
	switch f.Form {
	case List:
		return "[]" + f.Elem.goType()
	case Map:
		return "map[string]" + f.Elem.goType()
	case Bytes:
		return "[]uint8"
	case Double:
		return "float64"
	case Quantity:
		return "resource.Quantity"
	case IntOrString:
		return "intstr.IntOrString"
	case Any:
		return "interface {}"
	case Struct:
		return strings.Split(f.Type.Name, ".")[1] + "." + f.Type.GoName()
	}
	return map[Form]string{String: "string", Time: "string", MicroTime: "string", Bool: "bool", Int32: "int32", Int64: "int64"}[f.Form]
}
