package plan

import (
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// entry is a decoded entry of managedFields.
type entry struct {
	kube.ManagedFields
	fields patch.FieldSet
}

// managersOf returns the managers of the fields of an object.
func managersOf(object kube.Raw) []entry {
	var o struct {
		Metadata struct {
			ManagedFields []kube.ManagedFields `json:"managedFields"`
		} `json:"metadata"`
	}
	if len(object) == 0 || kube.Unmarshal(object, &o) != nil {
		return nil // only the names of managers are lost
	}
	var out []entry
	for _, m := range o.Metadata.ManagedFields {
		if fields, err := patch.ReadFieldSet(m.FieldsV1); err == nil {
			out = append(out, entry{m, fields})
		}
	}
	return out
}

// ownership says who owns which fields of a value.
type ownership struct{ ours, others []patch.FieldSet }

func owners(managers []entry, ours string, handed []patch.FieldSet) ownership {
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
func (o ownership) below(step func(patch.FieldSet) (patch.FieldSet, bool)) ownership {
	return ownership{setsBelow(o.ours, step), setsBelow(o.others, step)}
}

// goes says whether an undeclared value goes: we own the value as such, and no other manager anything inside.
func (o ownership) goes() bool {
	return slices.ContainsFunc(o.ours, patch.FieldSet.Itself) && len(o.others) == 0
}

func setsBelow(sets []patch.FieldSet, step func(patch.FieldSet) (patch.FieldSet, bool)) (out []patch.FieldSet) {
	for _, set := range sets {
		if below, ok := step(set); ok {
			out = append(out, below)
		}
	}
	return out
}

// field is the step to a field.
func field(name string) func(patch.FieldSet) (patch.FieldSet, bool) {
	return func(s patch.FieldSet) (patch.FieldSet, bool) { return s.Field(name) }
}

// taken returns the manager of a value, other than ours and our handover managers.
func taken(managers []entry, ours []string, at *patch.Path) string {
	for _, e := range managers {
		if !slices.Contains(ours, strings.TrimSuffix(e.Manager, apply.Handover)) && e.fields.Owns(at) {
			return e.Manager
		}
	}
	return ""
}
