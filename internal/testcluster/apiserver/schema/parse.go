package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// level is the place of a schema in the tree, on which the API server's messages depend.
type level int

const (
	atRoot level = iota
	atItems
	atField
	nested      // below allOf, anyOf, oneOf or not: only value validation is allowed there
	alternative // an alternative of an int-or-string, the one place below anyOf that names a type
)

// Parse reads an openAPIV3Schema and checks that it is structural. path is where it stands in its definition; for the
// API server that is spec.validation.openAPIV3Schema if all versions share the schema, and if not,
// spec.versions[0].schema.openAPIV3Schema and so on. The schema is of use only if there are no causes.
func Parse(v any, path string) (*Schema, []Cause) {
	p := &parser{}
	s := p.schema(v, path, atRoot)
	if len(p.causes) == 0 {
		p.defaults(s, path)
	}
	slices.SortFunc(p.causes, func(a, b Cause) int { return strings.Compare(a.Field+a.Message, b.Field+b.Message) })
	return s, p.causes
}

type parser struct{ found }

func (p *parser) schema(v any, path string, at level) *Schema {
	m, ok := v.(map[string]any)
	if !ok {
		p.invalid(path, v, "must be an object")
		return &Schema{}
	}
	f := fields{m, path} // whose types the definition was checked for
	text := func(name string) string { return obj.String(m, name) }
	is := func(name string) bool { return obj.Bool(m, name) }
	s := &Schema{typ: text("type"), format: text("format"), nullable: is("nullable"),
		intOrString:      is("x-kubernetes-int-or-string"),
		preserveUnknown:  is("x-kubernetes-preserve-unknown-fields"),
		embeddedResource: is("x-kubernetes-embedded-resource"),
		listType:         text("x-kubernetes-list-type"), listMapKeys: obj.Texts(m, "x-kubernetes-list-map-keys"),
		mapType:  text("x-kubernetes-map-type"),
		required: obj.Texts(m, "required"), enum: obj.Slice(m, "enum"),
		minimum: f.number("minimum"), maximum: f.number("maximum"), multipleOf: f.number("multipleOf"),
		exclusiveMin: is("exclusiveMinimum"), exclusiveMax: is("exclusiveMaximum"),
		minLength: f.integer("minLength"), maxLength: f.integer("maxLength"),
		minItems: f.integer("minItems"), maxItems: f.integer("maxItems"),
		minProperties: f.integer("minProperties"), maxProperties: f.integer("maxProperties"),
	}
	s.defaultValue, s.hasDefault = m["default"]
	slices.Sort(s.listMapKeys)
	if text := text("pattern"); text != "" {
		var err error
		s.patternLength = instructions(text)
		if s.pattern, err = regexp.Compile(text); err != nil {
			p.invalid(path+".pattern", text, "must be a valid regular expression, but isn't: %v", err)
		}
	}
	p.below(s, f, at)
	s.embeds = s.embeddedResource || s.items != nil && s.items.embeds || s.additional != nil && s.additional.embeds
	for _, sub := range s.properties {
		s.embeds = s.embeds || sub.embeds
	}
	p.combinators(s, f)
	p.forbidden(s, f, at)
	p.lists(s, f)
	if at < nested {
		p.structural(s, f, at)
	}
	return s
}

// below parses the schemas of fields and items.
func (p *parser) below(s *Schema, f fields, at level) {
	fieldLevel, itemLevel := atField, atItems
	if at >= nested {
		fieldLevel, itemLevel = nested, nested
	}
	if properties, ok := f.m["properties"].(map[string]any); ok {
		s.properties = make(map[string]*Schema, len(properties))
		for name, v := range properties {
			s.properties[name] = p.schema(v, fmt.Sprintf("%s.properties[%s]", f.path, name), fieldLevel)
		}
	}
	switch v := f.m["additionalProperties"].(type) {
	case nil:
	case bool:
		s.anyFields = v
	default:
		if at < nested { // elsewhere it is forbidden
			s.additional = p.schema(v, f.path+".additionalProperties", fieldLevel)
		}
	}
	if v, ok := f.m["items"]; ok {
		s.items = p.schema(v, f.path+".items", itemLevel)
	}
}

// intOrStringTypes is the anyOf that lists the types of an int-or-string.
var intOrStringTypes = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}

func (p *parser) combinators(s *Schema, f fields) {
	for name, to := range map[string]*[]*Schema{"allOf": &s.allOf, "anyOf": &s.anyOf, "oneOf": &s.oneOf} {
		at := nested
		if name == "anyOf" && patch.Equal(f.m[name], intOrStringTypes) {
			at = alternative
		}
		for i, v := range obj.Slice(f.m, name) {
			*to = append(*to, p.schema(v, fmt.Sprintf("%s.%s[%d]", f.path, name, i), at))
		}
	}
	if v, ok := f.m["not"]; ok {
		s.not = p.schema(v, f.path+".not", nested)
	}
}

// fields are those of one schema.
type fields struct {
	m    map[string]any
	path string
}

func (f fields) integer(name string) *int64 {
	if n, ok := obj.Int(f.m, name); ok {
		return &n
	}
	return nil
}

func (f fields) number(name string) *float64 {
	switch n := f.m[name].(type) {
	case int64:
		v := float64(n)
		return &v
	case float64:
		return &n
	}
	return nil
}
