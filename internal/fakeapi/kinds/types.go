package kinds

import (
	"strings"

	"skiff/internal/fakeapi/obj"
)

// TypedField is a field of a built-in kind whose JSON type is checked. The server's Go types check all of them; these are the ones
// that people get wrong. The rest is taken as it comes, which is a difference to a real server.
type TypedField struct {
	Path string // dotted
	Type string // "int32", or "string" for a map of strings
}

var (
	stringData   = []TypedField{{"data", "string"}}
	replicaCount = []TypedField{{"spec.replicas", "int32"}}
)

// TypeError returns Go's words for the first checked field of the wrong type, "" if there is none.
func (k *Kind) TypeError(o Object) string {
	for _, f := range k.Types {
		path := strings.Split(f.Path, ".")
		v := obj.Get(o, path...)
		if v == nil {
			continue
		}
		name := k.Kind + "." + f.Path
		if len(path) > 1 {
			name = k.Kind + "Spec." + f.Path
		}
		if f.Type == "string" {
			m, ok := v.(Object)
			if !ok {
				return mistyped(v, name, "map[string]string")
			}
			for _, key := range sortedKeys(m) {
				if _, ok := m[key].(string); !ok && m[key] != nil {
					return mistyped(m[key], name, f.Type)
				}
			}
		} else if _, ok := obj.Int(o, path...); !ok {
			return mistyped(v, name, f.Type)
		}
	}
	return ""
}

func mistyped(v any, name, want string) string {
	return "json: cannot unmarshal " + JSONType(v) + " into Go struct field " + name + " of type " + want
}

// JSONType names the JSON type of a value in the words of Go's decoder.
func JSONType(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case string:
		return "string"
	case Object:
		return "object"
	case []any:
		return "array"
	}
	return "number"
}
