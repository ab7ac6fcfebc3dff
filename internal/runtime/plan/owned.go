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

// managersOf returns the managers of the fields of an object, but for those of subresources.
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
		if e.fields, _ = fields.(map[string]any); err == nil && e.Subresource == "" {
			out = append(out, e)
		}
	}
	return out
}

// owns says whether a manager owns the value at a place.
func (e *entry) owns(at *place) bool {
	found, _ := e.find(at)
	return found
}

// find returns the fields that a manager owns below a place; whole says that it owns all there is.
func (e *entry) find(at *place) (found bool, below map[string]any) {
	if at == nil {
		return true, e.fields
	}
	found, in := e.find(at.up)
	if !found || at.up != nil && len(in) == 0 { // an atomic value is owned as a whole
		return found, nil
	}
	if at.item == nil {
		field, ok := in["f:"+at.name].(map[string]any)
		return ok, field
	}
	key := at.key()
	for name, v := range in {
		text, ok := strings.CutPrefix(name, "k:")
		if !ok || key == nil {
			continue
		}
		if k, err := patch.Decode([]byte(text)); err == nil && patch.Equal(k, key) {
			field, ok := v.(map[string]any)
			return ok, field
		}
	}
	return false, nil
}

// taken returns which of the managers, other than ours and those that we hand fields over to, owns a value.
func taken(managers []entry, ours []string, at *place) string {
	for _, e := range managers {
		if !slices.Contains(ours, strings.TrimSuffix(e.Manager, handover)) && e.owns(at) {
			return e.Manager
		}
	}
	return ""
}
