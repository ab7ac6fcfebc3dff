package schema

import (
	"fmt"
	"skiff/internal/testcluster/apiserver/obj"
)

// listTypes checks that no two items of a set are equal, and no two items of a list-type map have the same keys.
func (s *Schema) listTypes(f *found, v any, path string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range obj.Keys(v) {
			if sub := s.properties[name]; sub != nil {
				sub.listTypes(f, v[name], join(path, name))
			} else if s.additional != nil {
				s.additional.listTypes(f, v[name], fmt.Sprintf("%s[%s]", path, name))
			}
		}
	case []any:
		seen := map[string]int{}
		for i, item := range v {
			at := fmt.Sprintf("%s[%d]", path, i)
			if identity, ok := s.identity(item); ok {
				text := obj.Show(identity)
				if seen[text]++; seen[text] == 2 { // once for each value, however often it comes
					f.add(obj.Duplicate(at, identity))
				}
			}
			if s.items != nil {
				s.items.listTypes(f, item, at)
			}
		}
	}
}

func (s *Schema) identity(item any) (any, bool) {
	switch s.listType {
	case "set":
		return item, true
	case "map":
		m, ok := item.(map[string]any)
		key := map[string]any{}
		for _, name := range s.listMapKeys {
			if v, ok := m[name]; ok {
				key[name] = v
			}
		}
		return key, ok
	}
	return nil, false
}

// member returns what a field was.
func member(was *any, name string) *any {
	if was == nil {
		return nil
	}
	object, _ := (*was).(map[string]any)
	if v, ok := object[name]; ok {
		return &v
	}
	return nil
}

// itemsBefore returns what the items of a list were, by their keys: only those of lists with keys are told apart.
func (s *Schema) itemsBefore(was *any) map[string]*any {
	if was == nil || s.listType != "map" {
		return nil
	}
	list, _ := (*was).([]any)
	out := make(map[string]*any, len(list))
	for i := len(list) - 1; i >= 0; i-- { // the first of equal ones
		if key, ok := s.identity(list[i]); ok {
			out[obj.Show(key)] = &list[i]
		}
	}
	return out
}

func (s *Schema) itemBefore(old map[string]*any, item any) *any {
	if old == nil {
		return nil
	}
	key, _ := s.identity(item)
	return old[obj.Show(key)]
}
