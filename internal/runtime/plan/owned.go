package plan

import (
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// entry is one of managedFields: which fields a manager owns.
type entry struct {
	Manager     string   `json:"manager"`
	Operation   string   `json:"operation"`
	Subresource string   `json:"subresource"`
	FieldsV1    kube.Raw `json:"fieldsV1"`

	fields map[string]any // FieldsV1
}

// managersOf returns the managers of the fields of an object.
func managersOf(object kube.Raw) []entry {
	var o struct {
		Metadata struct {
			ManagedFields []entry `json:"managedFields"`
		} `json:"metadata"`
	}
	if len(object) == 0 || kube.Unmarshal(object, &o) != nil {
		return nil // the names of managers are lost, and nothing else
	}
	var out []entry
	for _, e := range o.Metadata.ManagedFields {
		fields, err := patch.Decode(e.FieldsV1)
		if e.fields, _ = fields.(map[string]any); err == nil {
			out = append(out, e)
		}
	}
	return out
}

// ownership is who owns what is below a value: sets of fields, as FieldsV1 has them.
type ownership struct{ ours, others []map[string]any }

func owners(managers []entry, ours string, handed []map[string]any) ownership {
	o := ownership{others: handed}
	for _, e := range managers {
		if e.Manager == ours && e.Subresource == "" {
			o.ours = append(o.ours, e.fields)
		} else {
			o.others = append(o.others, e.fields)
		}
	}
	return o
}

// below returns the ownership of a field or an item.
func (o ownership) below(is func(name string) bool) ownership {
	return ownership{setsBelow(o.ours, is), setsBelow(o.others, is)}
}

// goes says whether a value goes that is no longer declared: we own it as such, and others nothing in it.
func (o ownership) goes() bool {
	for _, set := range o.ours {
		if _, itself := set["."]; itself || len(set) == 0 {
			return len(o.others) == 0
		}
	}
	return false
}

func setsBelow(sets []map[string]any, is func(string) bool) (out []map[string]any) {
	for _, set := range sets {
		for name, v := range set {
			if below, ok := v.(map[string]any); ok && is(name) {
				out = append(out, below)
			}
		}
	}
	return out
}

// field is what a set of fields calls a field.
func field(name string) func(string) bool { return func(s string) bool { return s == "f:"+name } }

// member is what it calls an item of a list: by its merge key after k:, by its value after v:.
func member(prefix string, is any) func(string) bool {
	return func(s string) bool {
		text, ok := strings.CutPrefix(s, prefix)
		v, err := patch.Decode([]byte(text))
		return ok && err == nil && patch.Equal(v, is)
	}
}

// setsAt returns the sets of fields below a place. An atomic value is owned as a whole: its set is empty.
func setsAt(sets []map[string]any, at *place) []map[string]any {
	if at == nil {
		return sets
	}
	is := field(at.name)
	if at.item != nil {
		is = member("k:", at.key())
	}
	var out []map[string]any
	for _, above := range setsAt(sets, at.up) {
		if at.up != nil && len(above) == 0 {
			out = append(out, above)
		}
		out = append(out, setsBelow([]map[string]any{above}, is)...)
	}
	return out
}

// taken returns which of the managers, other than ours and those that we hand fields over to, owns a value.
func taken(managers []entry, ours []string, at *place) string {
	for _, e := range managers {
		if !slices.Contains(ours, strings.TrimSuffix(e.Manager, handover)) &&
			len(setsAt([]map[string]any{e.fields}, at)) > 0 {
			return e.Manager
		}
	}
	return ""
}
