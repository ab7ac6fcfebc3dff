package patch

import (
	"fmt"
	"strings"
)

// FieldSet is the fields of a value owned by one manager, in the form of fieldsV1 of metadata.managedFields: under the
// name of each field ("f:spec"), item by merge key (`k:{"name":"a"}`) and member of a set ("v:1") stands the FieldSet
// of the value there. An empty FieldSet, or a FieldSet with ".", owns the value itself.
type FieldSet map[string]any

// ReadFieldSet decodes fieldsV1.
func ReadFieldSet(text []byte) (FieldSet, error) {
	v, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read fieldsV1: %w", err)
	}
	set, _ := v.(map[string]any)
	return set, nil
}

// SetOf returns the FieldSet of some fields of a field.
func SetOf(field string, below ...string) FieldSet {
	set := map[string]any{}
	for _, name := range below {
		set["f:"+name] = map[string]any{}
	}
	return FieldSet{"f:" + field: set}
}

// Field returns the FieldSet of a field; false: nothing of the field is owned.
func (s FieldSet) Field(name string) (FieldSet, bool) {
	below, ok := s["f:"+name].(map[string]any)
	return below, ok
}

// Item returns the FieldSet of the item of a list with a merge key.
func (s FieldSet) Item(key map[string]any) (FieldSet, bool) { return s.member("k:", key) }

// Member returns the FieldSet of a member of a set.
func (s FieldSet) Member(value any) (FieldSet, bool) { return s.member("v:", value) }

func (s FieldSet) member(prefix string, is any) (FieldSet, bool) {
	for name, v := range s {
		text, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if have, err := Decode([]byte(text)); err == nil && Equal(have, is) {
			below, ok := v.(map[string]any)
			return below, ok
		}
	}
	return nil, false
}

// Itself says whether the value itself is owned, and not only fields in it.
func (s FieldSet) Itself() bool {
	_, itself := s["."]
	return itself || len(s) == 0
}

// Owns says whether anything at a place is owned, or all of a value around the place.
func (s FieldSet) Owns(at *Path) bool {
	_, owned := s.at(at)
	return owned
}

// at returns the FieldSet of a place; empty where the value around the place is owned whole.
func (s FieldSet) at(p *Path) (below FieldSet, ok bool) {
	if p == nil {
		return s, true
	}
	above, ok := s.at(p.up)
	switch {
	case !ok || p.up != nil && len(above) == 0:
		return above, ok
	case p.isItem:
		return above.Item(p.key)
	}
	return above.Field(p.name)
}

// Unite adds the fields of another FieldSet.
func (s FieldSet) Unite(other FieldSet) {
	for name, v := range other {
		below, _ := v.(map[string]any)
		if have, ok := s[name].(map[string]any); ok {
			FieldSet(have).Unite(below)
		} else {
			s[name] = v
		}
	}
}
