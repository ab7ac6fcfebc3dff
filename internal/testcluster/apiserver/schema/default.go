package schema

import (
	"fmt"
	"slices"
	"sync"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Default returns object with the defaults of its schema. A null that is not allowed is replaced by the default, or
// dropped if there is none. The API server does this to objects that it receives and to objects that it reads from its
// store.
func (s *Schema) Default(object map[string]any) map[string]any {
	left := maxDefaults
	out, _ := s.fill(patch.Copy(object), &left).(map[string]any)
	return out
}

// fill changes its argument. It copies defaults while there are values left.
func (s *Schema) fill(v any, left *int) any {
	if s == nil {
		return v
	}
	if v == nil && !s.nullable && s.defaultValue != nil {
		v = s.ownDefault(left)
	}
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.properties {
			if _, ok := v[name]; !ok && sub.defaultValue != nil && *left > 0 {
				v[name] = sub.ownDefault(left)
			}
		}
		for name, field := range v {
			sub := s.field(name)
			if sub != nil && field == nil && !sub.nullable && sub.defaultValue == nil {
				delete(v, name)
			} else {
				v[name] = sub.fill(field, left)
			}
		}
	case []any:
		for i := range v {
			v[i] = s.items.fill(v[i], left)
		}
	}
	return v
}

func (s *Schema) ownDefault(left *int) any {
	*left -= obj.Size(s.defaultValue)
	return patch.Copy(s.defaultValue)
}

// Prune returns object without the fields that the schema does not have, and their paths, which include unknown fields
// of metadata.
func (s *Schema) Prune(object map[string]any) (map[string]any, []string) {
	root, unknown := *s, unknownFields{}
	root.embeddedResource = true
	out, _ := root.pruned(object, "", &unknown).(map[string]any)
	return out, slices.Concat(slices.Sorted(slices.Values(unknown.schema)),
		slices.Sorted(slices.Values(unknown.metadata)))
}

// unknownFields are the paths of what a schema does not have, and those in the metadata of objects.
type unknownFields struct{ schema, metadata []string }

// pruned returns a copy of v.
func (s *Schema) pruned(v any, path string, unknown *unknownFields) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			at := join(path, name)
			switch sub := s.field(name); {
			case s.embeddedResource && name == "metadata":
				out[name] = prunedMetadata(field, at, unknown)
			case s.embeddedResource && (name == "apiVersion" || name == "kind"):
				out[name] = field
			case sub != nil:
				out[name] = sub.pruned(field, at, unknown)
			case s.preserveUnknown || s.anyFields:
				out[name] = patch.Copy(field)
			default:
				unknown.schema = append(unknown.schema, at)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			if s.items == nil {
				out[i] = patch.Copy(item)
			} else {
				out[i] = s.items.pruned(item, fmt.Sprintf("%s[%d]", path, i), unknown)
			}
		}
		return out
	}
	return v
}

// ObjectMeta returns the type of metadata, which all kinds share.
var ObjectMeta = sync.OnceValue(func() *Type { return For("v1", "ConfigMap").Fields["metadata"].Type })

// prunedMetadata returns the metadata of an object as Go's type of it has it.
func prunedMetadata(v any, path string, unknown *unknownFields) any {
	meta, ok := v.(map[string]any)
	if v != nil && !ok {
		return v
	}
	meta, _ = patch.Copy(meta).(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	for _, name := range ObjectMeta().Prune(meta) {
		unknown.metadata = append(unknown.metadata, join(path, name))
	}
	ObjectMeta().Drop(meta)
	return meta
}

// MetadataError says what is wrong with the types in the metadata of objects within an object, "" if nothing is.
func (s *Schema) MetadataError(v any, path string) string {
	if s == nil || !s.embeds {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range obj.Keys(v) {
			text, at := "", join(path, name)
			if path == "" || !s.embeddedResource || name != "metadata" {
				text = s.field(name).MetadataError(v[name], at)
			} else if why := typeErrorOfMetadata(v[name]); why != "" {
				text = at + ": " + obj.Invalid(at, v[name], why).Message
			}
			if text != "" {
				return text
			}
		}
	case []any:
		for i, item := range v {
			if text := s.items.MetadataError(item, fmt.Sprintf("%s[%d]", path, i)); text != "" {
				return text
			}
		}
	}
	return ""
}

func typeErrorOfMetadata(v any) string {
	meta, ok := v.(map[string]any)
	if v != nil && !ok {
		return "json: cannot unmarshal " + JSONType(v) + " into Go value of type v1.ObjectMeta"
	}
	return ObjectMeta().TypeError(meta)
}
