package offline

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// maxShown is how much of a value goes into an error.
const maxShown = 100

// checker checks values against schemas.
type checker struct {
	all  discovery.Schemas // to which references lead
	from string            // who has the schemas, for errors
	// whole is set for definitions of the user: their values and required fields count, too. A cluster has defaults
	// and other writers for fields that a child leaves out or leaves empty.
	whole  bool
	secret bool // no value is shown
}

// CheckStatus refuses a status with wrong types or values. A definition in -f decides; without one any status passes.
func (t *Trial) CheckStatus(hook wire.Hook, answer *wire.Answer) error {
	r := t.options.Parent.Resource
	s := t.schemas[r.APIVersion()+" "+r.Kind]
	if s == nil || answer.Status == nil {
		return nil
	}
	c := checker{from: "the definition", whole: true}
	if err := c.check(s.Properties["status"], "status", answer.Status); err != nil {
		return fmt.Errorf("answer of the %s hook: %w", hook, err)
	}
	return nil
}

// Serve takes a cluster's schemas for an apiVersion.
func (t *Trial) Serve(apiVersion string, all discovery.Schemas) { t.served[apiVersion] = all }

// Undefined returns the kinds of children without a definition in -f.
func (t *Trial) Undefined(answer *wire.Answer) (out []kube.Resource) {
	for _, c := range answer.Children {
		r := t.options.Children[c.Kind]
		if t.schemas[r.APIVersion()+" "+r.Kind] == nil && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// CheckChildren refuses a child with values of wrong types. The definition in -f decides, else the schemas taken by
// Serve; other kinds pass. Enums and required fields count in the spec of a definition only, and its defaults
// stand in for required fields.
func (t *Trial) CheckChildren(hook wire.Hook, answer *wire.Answer) error {
	for _, declared := range answer.Children {
		r := t.options.Children[declared.Kind]
		var err error
		if s := t.schemas[r.APIVersion()+" "+r.Kind]; s != nil {
			c := checker{from: "the definition", whole: true}
			err = c.check(s.Properties["spec"], declared.Path+".spec", declared.Body["spec"])
		} else {
			all := t.served[r.APIVersion()]
			c := checker{all: all, from: "the cluster", secret: r.Group == "" && r.Kind == "Secret"}
			err = c.check(all.Kind(r), declared.Path, declared.Body)
		}
		if err != nil {
			return fmt.Errorf("answer of the %s hook: %s %s: %w", hook, r.Kind, declared.Key, err)
		}
	}
	return nil
}

// check refuses a value of another type than the schema wants.
func (c *checker) check(s *discovery.Schema, path string, v any) error {
	s = c.all.Resolve(s)
	if s == nil || v == nil { // null means absent
		return nil
	}
	if types := c.typesOf(s); len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return is(t, v) }) {
		return fmt.Errorf("%s: %s wants %s, the answer has %s", path, c.from, strings.Join(types, " or "), c.shown(v))
	}
	if _, text := v.(string); c.whole && text && len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %s wants one of %v, the answer has %s", path, c.from, s.Enum, c.shown(v))
	}
	switch v := v.(type) {
	case map[string]any:
		return c.object(s, path, v)
	case []any:
		for i, item := range v {
			if err := c.check(s.Items, fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}

// object checks the members of an object.
func (c *checker) object(s *discovery.Schema, path string, v map[string]any) error {
	for _, name := range s.Required {
		if field := s.Properties[name]; c.whole && v[name] == nil && (field == nil || field.Default == nil) {
			return fmt.Errorf("%s.%s: is missing, and %s requires it", path, name, c.from)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		of := s.Properties[name]
		if of == nil {
			of = s.Values.Schema
		}
		if err := c.check(of, patch.Join(path, kube.Printable(name, maxShown)), v[name]); err != nil {
			return err
		}
	}
	return nil
}

// typesOf returns the types allowed by a schema, none for any.
func (c *checker) typesOf(s *discovery.Schema) (types []string) {
	switch {
	case s.IntOrString:
		return []string{"integer", "string"}
	case s.Type != "":
		return []string{s.Type}
	}
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		if one == nil || one.Type == "" {
			return nil
		}
		types = append(types, one.Type)
	}
	return types
}

// is says whether a value has a type.
func is(t string, v any) bool {
	switch v := v.(type) {
	case string:
		return t == "string"
	case bool:
		return t == "boolean"
	case map[string]any:
		return t == "object"
	case []any:
		return t == "array"
	case float64:
		return t == "number" || t == "integer" && v == math.Trunc(v)
	}
	return t == "integer" || t == "number"
}

// shown is the text of a value in an error.
func (c *checker) shown(v any) string {
	switch v := v.(type) {
	case string:
		if c.secret {
			return "a string"
		}
		return `the string "` + kube.Printable(v, maxShown) + `"`
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	if c.secret {
		return "a number or a boolean"
	}
	return fmt.Sprint(v)
}
