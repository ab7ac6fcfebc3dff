package schema

import (
	"fmt"
	"slices"

	"skiff/internal/runtime/patch"
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
	*left -= valuesIn(s.defaultValue)
	return patch.Copy(s.defaultValue)
}

// Prune returns object without the fields that the schema does not have, and their paths, which include unknown fields
// of metadata.
func (s *Schema) Prune(object map[string]any) (map[string]any, []string) {
	root, unknown := *s, []string(nil)
	root.embeddedResource = true
	out, _ := root.pruned(object, "", &unknown).(map[string]any)
	slices.Sort(unknown)
	return out, unknown
}

// pruned returns a copy of v.
func (s *Schema) pruned(v any, path string, unknown *[]string) any {
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
				*unknown = append(*unknown, at)
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

// metadataFields are the fields of ObjectMeta.
var metadataFields = []string{"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp",
	"finalizers", "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences",
	"resourceVersion", "selfLink", "uid"}

func prunedMetadata(v any, path string, unknown *[]string) any {
	meta, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(meta))
	for name, field := range meta {
		if slices.Contains(metadataFields, name) {
			out[name] = patch.Copy(field)
		} else {
			*unknown = append(*unknown, join(path, name))
		}
	}
	return out
}
