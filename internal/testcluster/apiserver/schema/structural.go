package schema

import (
	"fmt"
	"slices"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// structural checks the rules of the API server's NonStructuralSchema condition, and those for its extensions, with
// the API server's messages.
func (p *parser) structural(s *Schema, f fields, at level) {
	path := f.path
	switch {
	case s.embeddedResource && s.typ != "object":
		p.requiredOr(path+".type", s.typ, "must be object if x-kubernetes-embedded-resource is true")
	case s.typ == "" && !s.intOrString && !s.preserveUnknown:
		p.add(obj.Required(path+".type", map[level]string{atRoot: "must not be empty at the root",
			atItems: "must not be empty for specified array items",
			atField: "must not be empty for specified object fields"}[at]))
	case at == atRoot && s.typ != "" && s.typ != "object":
		p.invalid(path+".type", s.typ, "must be object at the root")
	}
	if s.typ == "array" && s.items == nil {
		p.add(obj.Required(path+".items", "must be specified"))
	}
	if at == atRoot && (s.additional != nil || s.anyFields) {
		p.add(obj.Forbidden(path+".additionalProperties", "must not be used at the root"))
	}
	if f.m["additionalProperties"] != nil && len(s.properties) > 0 {
		p.add(obj.Forbidden(path+".additionalProperties",
			"additionalProperties and properties are mutual exclusive"))
	}
	types := []string{"array", "boolean", "integer", "number", "object", "string"}
	if s.typ != "" && !slices.Contains(types, s.typ) {
		p.add(obj.NotSupported(path+".type", s.typ, types...))
	}
	for _, name := range []string{"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"} {
		if s.intOrString && f.m[name] == true {
			p.invalid(path+"."+name, true, "must be false if x-kubernetes-int-or-string is true")
		}
	}
	if s.embeddedResource && !s.preserveUnknown && len(s.properties) == 0 {
		p.add(obj.Required(path+".properties",
			"must not be empty if x-kubernetes-embedded-resource is true without "+
				"x-kubernetes-preserve-unknown-fields"))
	}
	if at == atRoot {
		p.rootMetadata(s, path)
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if sub := s.properties[name]; sub != nil && sub.typ != "string" && (at == atRoot || s.embeddedResource) {
			p.invalid(fmt.Sprintf("%s.properties[%s].type", path, name), sub.typ, "must be string")
		}
	}
}

// rootMetadata checks that a schema restricts only the name, and no other field of metadata.
func (p *parser) rootMetadata(s *Schema, path string) {
	meta := s.properties["metadata"]
	if meta == nil {
		return
	}
	if meta.typ != "object" {
		p.invalid(path+".properties[metadata].type", meta.typ, "must be object")
	}
	for name := range meta.properties {
		if name != "name" && name != "generateName" {
			p.add(obj.Forbidden(path+".properties[metadata]",
				"must not specify anything other than name and generateName, but metadata is implicitly specified"))
			return
		}
	}
}

// lists checks x-kubernetes-list-type, x-kubernetes-list-map-keys and x-kubernetes-map-type.
func (p *parser) lists(s *Schema, f fields) {
	switch at := f.path + ".x-kubernetes-list-type"; s.listType {
	case "", "atomic":
	case "set":
		p.itemsOfSet(s, f)
	case "map":
		p.itemsOfMap(s, f.path)
	default:
		p.add(obj.NotSupported(at, s.listType, "atomic", "set", "map"))
	}
	p.typeFor(s, f, "x-kubernetes-list-type", s.listType, "array")
	if s.mapType != "" && s.mapType != "atomic" && s.mapType != "granular" {
		p.add(obj.NotSupported(f.path+".x-kubernetes-map-type", s.mapType, "atomic", "granular"))
	}
	p.typeFor(s, f, "x-kubernetes-map-type", s.mapType, "object")
	if len(s.listMapKeys) > 0 && s.listType != "map" {
		p.requiredOr(f.path+".x-kubernetes-list-type", s.listType,
			"must be map if x-kubernetes-list-map-keys is non-empty")
	}
}

func (p *parser) typeFor(s *Schema, f fields, extension, value, typ string) {
	if value != "" && s.typ != typ {
		p.requiredOr(f.path+".type", s.typ, fmt.Sprintf("must be %s if %s is specified", typ, extension))
	}
}

// requiredOr reports a missing value as required, and another as invalid.
func (p *parser) requiredOr(path, value, text string) {
	if value == "" {
		p.add(obj.Required(path, text))
	} else {
		p.invalid(path, value, "%s", text)
	}
}

func (p *parser) itemsOfSet(s *Schema, f fields) {
	refuse := func(field string) {
		p.invalid(f.path+".items."+field, obj.Get(f.m, "items", field),
			"must be atomic as item of a list with x-kubernetes-list-type=set")
	}
	switch {
	case s.items == nil:
	case s.items.typ == "object" && s.items.mapType != "atomic":
		refuse("x-kubernetes-map-type")
	case s.items.typ == "array" && s.items.listType != "" && s.items.listType != "atomic":
		refuse("x-kubernetes-list-type")
	}
}

func (p *parser) itemsOfMap(s *Schema, path string) {
	keysAt := path + ".x-kubernetes-list-map-keys"
	if len(s.listMapKeys) == 0 {
		p.add(obj.Required(keysAt, "must not be empty if x-kubernetes-list-type is map"))
	}
	if s.items == nil {
		return
	}
	if s.items.typ != "object" {
		p.requiredOr(path+".items.type", s.items.typ, "must be object if parent array's x-kubernetes-list-type is map")
	}
	for _, name := range s.listMapKeys {
		k := s.items.properties[name]
		switch at := fmt.Sprintf("%s.items.properties[%s]", path, name); {
		case k == nil:
			p.invalid(keysAt, obj.Anys(s.listMapKeys), "entries must all be names of item properties")
		case !slices.Contains([]string{"boolean", "integer", "number", "string"}, k.typ):
			p.invalid(at+".type", k.typ, "must be a scalar type if parent array's x-kubernetes-list-type is map")
		case !k.hasDefault && !slices.Contains(s.items.required, name):
			p.add(obj.Required(at+".default",
				"this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
	}
}

// forbidden checks for fields that a structural schema cannot have, and for those that are not allowed below allOf,
// anyOf, oneOf and not.
func (p *parser) forbidden(s *Schema, f fields, at level) {
	if f.m["$ref"] != nil {
		p.add(obj.Forbidden(f.path+".$ref", "$ref is not supported"))
	}
	if f.m["uniqueItems"] == true {
		p.add(obj.Forbidden(f.path+".uniqueItems",
			"uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	if rules, ok := f.m["x-kubernetes-validations"]; ok && !patch.Equal(rules, []any{}) {
		p.add(obj.Forbidden(f.path+".x-kubernetes-validations",
			"rules in CEL would have no effect: this build of skiff-dev does not evaluate CEL, the released one "+
				"does (make skiff-dev)"))
	}
	if at < nested {
		return
	}
	if s.typ != "" && at != alternative {
		p.add(obj.Forbidden(f.path+".type", "must be empty to be structural"))
	}
	for name, v := range f.m {
		must := ""
		switch name {
		case "additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type":
			must = "undefined"
		case "title", "description", "x-kubernetes-list-map-keys":
			must = "empty"
		case "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource",
			"x-kubernetes-int-or-string":
			if v == true {
				must = "false"
			}
		}
		if v != nil && must != "" {
			p.add(obj.Forbidden(f.path+"."+name, "must be "+must+" to be structural"))
		}
	}
}

// defaults checks that each default is valid and has only fields that the schema has.
func (p *parser) defaults(s *Schema, path string) {
	if s == nil {
		return
	}
	if s.defaultValue != nil {
		at := path + ".default"
		var unknown unknownFields
		pruned := s.pruned(s.defaultValue, "", &unknown)
		if len(unknown.schema)+len(unknown.metadata) > 0 {
			p.invalid(at, s.defaultValue, "must not have unknown fields")
		}
		left := maxDefaults
		for _, c := range s.validate(s.fill(pruned, &left), nil) {
			switch {
			case c.Field == "":
				c.Field = at
			case c.Field != nowhere:
				c.Field = at + "." + c.Field
			}
			p.add(c)
		}
	}
	for name, sub := range s.properties {
		p.defaults(sub, fmt.Sprintf("%s.properties[%s]", path, name))
	}
	p.defaults(s.items, path+".items")
	p.defaults(s.additional, path+".additionalProperties")
}
