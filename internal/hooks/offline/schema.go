package offline

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
)

// schema is what of a definition's openAPIV3Schema an answer is checked against: types and their values.
type schema struct {
	Type        string             `json:"type"`
	Properties  map[string]*schema `json:"properties"`
	Items       *schema            `json:"items"`
	Enum        []any              `json:"enum"`
	Required    []string           `json:"required"`
	Default     any                `json:"default"`
	IntOrString bool               `json:"x-kubernetes-int-or-string"`
}

// maxShown is how much of a value goes into an error.
const maxShown = 100

// CheckStatus refuses a status with wrong types or values. A definition in -f decides; without one any status passes.
func (t *Trial) CheckStatus(hook wire.Hook, answer *wire.Answer) error {
	r := t.options.Parent.Resource
	s := t.schemas[r.APIVersion()+" "+r.Kind]
	if s == nil || answer.Status == nil {
		return nil
	}
	if err := s.Properties["status"].check("status", answer.Status); err != nil {
		return fmt.Errorf("answer of the %s hook: %w", hook, err)
	}
	return nil
}

// CheckChildren refuses a child whose spec has wrong types or values. Definitions in -f decide; kinds without a
// definition pass. Defaults of a definition stand in for required fields.
func (t *Trial) CheckChildren(hook wire.Hook, children []apply.Child) error {
	list := "children"
	if !t.spec.IsComposite() {
		list = "attachments"
	}
	for i, c := range children {
		s := t.schemas[fmt.Sprint(c.Body["apiVersion"], " ", c.Body["kind"])]
		if s == nil {
			continue
		}
		at := fmt.Sprintf("%s[%d].spec", list, i)
		if err := s.Properties["spec"].check(at, c.Body["spec"]); err != nil {
			return fmt.Errorf("answer of the %s hook: %w", hook, err)
		}
	}
	return nil
}

// check refuses a value of another type than the definition wants.
func (s *schema) check(path string, v any) error {
	switch {
	case s == nil || v == nil: // null means absent
		return nil
	case s.IntOrString:
		s = &schema{Type: "integer or string"}
	}
	if !s.is(v) {
		return fmt.Errorf("%s: the definition wants %s, the answer has %s", path, s.Type, shown(v))
	}
	if _, text := v.(string); text && len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: the definition wants one of %v, the answer has %s", path, s.Enum, shown(v))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if field := s.Properties[name]; v[name] == nil && (field == nil || field.Default == nil) {
				return fmt.Errorf("%s.%s: is missing, and the definition requires it", path, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := s.Properties[name].check(path+"."+kube.Printable(name, maxShown), v[name]); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := s.Items.check(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}

// is says whether a value has the type.
func (s *schema) is(v any) bool {
	switch v := v.(type) {
	case string:
		return s.Type == "" || s.Type == "string" || s.Type == "integer or string"
	case bool:
		return s.Type == "" || s.Type == "boolean"
	case map[string]any:
		return s.Type == "" || s.Type == "object"
	case []any:
		return s.Type == "" || s.Type == "array"
	case float64:
		if v != math.Trunc(v) {
			return s.Type == "" || s.Type == "number"
		}
	}
	return slices.Contains([]string{"", "integer", "number", "integer or string"}, s.Type)
}

// shown is a value as it stands in an error.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return `the string "` + kube.Printable(v, maxShown) + `"`
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}
