package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Validate returns the errors in an object that was pruned and defaulted, in the API server's words and by the order
// of the field names. If no alternative of an anyOf or oneOf matches, it returns the causes of the first; the API
// server returns those of the closest. What is wrong with values that are as in old, nil for none, is no error.
func (s *Schema) Validate(object, old map[string]any) []Cause {
	if old == nil {
		return s.validate(object, nil)
	}
	was := any(old)
	return s.validate(object, &was)
}

func (s *Schema) validate(v any, was *any) []Cause {
	left := maxWork
	f, before := found{work: &left}, found{work: &left}
	s.value(&f, v, "", was)
	if was != nil {
		s.listTypes(&before, *was, "")
	}
	if len(before.causes) == 0 {
		s.listTypes(&f, v, "")
	}
	if left < 0 {
		return append(f.causes, obj.Forbidden(nowhere, "the object takes too long to validate: give it fewer "+
			"values, or its definition simpler patterns and enums"))
	}
	return f.causes
}

// value checks v against everything except list types, which do not apply inside allOf, anyOf, oneOf and not. was is
// what v was before, nil if that is not known.
func (s *Schema) value(f *found, v any, path string, was *any) {
	if !f.spend(50 + len(path) + len(s.enum)) {
		return
	}
	before := len(f.causes)
	s.checkType(f, v, path)
	if v != nil {
		s.checkCombinators(f, v, path, was)
	}
	switch v := v.(type) {
	case string:
		s.checkString(f, v, path)
	case int64, float64:
		s.checkNumber(f, v, path)
	case []any:
		s.checkList(f, v, path, was)
	}
	if len(s.enum) > 0 && !(v == nil && s.nullable) && !slices.ContainsFunc(s.enum,
		func(e any) bool { return patch.Equal(e, v) }) {
		f.add(obj.NotSupported(path, v, s.enum...))
	}
	if object, ok := v.(map[string]any); ok {
		s.checkObject(f, object, path, was)
	}
	if was != nil && len(f.causes) > before && patch.Equal(*was, v) {
		f.causes = f.causes[:before]
	}
}

// jsonType is the API server's name for the type of a value, and its name for the format.
func jsonType(v any) (typ, format string) {
	switch v.(type) {
	case nil:
		return "null", ""
	case bool:
		return "boolean", ""
	case string:
		return "string", ""
	case int64:
		return "integer", "int64"
	case float64:
		return "number", "float64"
	case []any:
		return "array", ""
	}
	return "object", ""
}

func (s *Schema) checkType(causes *found, v any, path string) {
	want := s.typ
	if s.intOrString {
		want = "integer,string"
	}
	typ, format := jsonType(v)
	if want == "" || (typ == "null" && s.nullable) {
		return
	}
	f, isFloat := v.(float64)
	fits := slices.Contains(strings.Split(want, ","), typ) || (want == "number" && typ == "integer") ||
		(want == "integer" && isFloat && f == float64(int64(f)))
	switch {
	case fits:
	case s.format != "" && (typ == "string" || typ == "array") && want != "number" && want != "integer":
		// left to the format
	case s.format != "" && typ != "string" && typ != "array" && typ != "null":
		causes.add(obj.WrongType(path, format, s.format))
	default:
		causes.add(obj.WrongType(path, typ, want))
	}
}

func (s *Schema) checkString(f *found, v, path string) {
	if !f.spend(len(v)) {
		return
	}
	n := int64(utf8.RuneCountInString(v))
	switch {
	case s.maxLength != nil && n > *s.maxLength:
		f.add(obj.TooLong(path, *s.maxLength))
	case s.minLength != nil && n < *s.minLength:
		f.invalid(path, v, "%s in body should be at least %d chars long", path, *s.minLength)
	case s.pattern != nil && f.spend(len(v)*s.patternLength) && !s.pattern.MatchString(v):
		f.invalid(path, v, "%s in body should match '%s'", path, s.pattern)
	}
	if check := formats[s.format]; check != nil && !check(v) {
		f.add(obj.WrongType(path, v, s.format))
	}
}

func (s *Schema) checkList(f *found, list []any, path string, was *any) {
	if s.items != nil {
		old := s.itemsBefore(was)
		for i, v := range list {
			s.items.value(f, v, fmt.Sprintf("%s[%d]", path, i), s.itemBefore(old, v))
		}
	}
	n := int64(len(list))
	if s.minItems != nil && n < *s.minItems {
		f.invalid(path, n, "%s in body should have at least %d items", path, *s.minItems)
	}
	if s.maxItems != nil && n > *s.maxItems {
		f.add(obj.TooMany(path, n, *s.maxItems))
	}
}

func (s *Schema) checkObject(f *found, object map[string]any, path string, was *any) {
	n := int64(len(object))
	if s.minProperties != nil && n < *s.minProperties {
		f.invalid(path, n, "%s in body should have at least %d properties", path, *s.minProperties)
	}
	if s.maxProperties != nil && n > *s.maxProperties {
		f.add(obj.TooMany(path, n, *s.maxProperties))
	}
	for _, name := range obj.Keys(object) {
		if sub := s.field(name); sub != nil {
			sub.value(f, object[name], join(path, name), member(was, name))
		}
	}
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			f.add(obj.Required(join(path, name), ""))
		}
	}
	if s.embeddedResource {
		checkEmbedded(f, object, path)
	}
}

func checkEmbedded(f *found, object map[string]any, path string) {
	for _, name := range []string{"apiVersion", "kind"} {
		v, present := object[name]
		text, ok := v.(string)
		if present && !ok {
			typ, _ := jsonType(v)
			f.add(obj.WrongType(join(path, name), typ, "string"))
		} else if text == "" {
			f.add(obj.Required(join(path, name), ""))
		}
		if name == "apiVersion" && strings.Count(text, "/") > 1 {
			f.invalid(join(path, name), text, "unexpected GroupVersion string: %s", text)
		}
		if why := obj.Label1035(strings.ToLower(text)); name == "kind" && text != "" && why != "" {
			f.invalid(join(path, name), text, "may have mixed case, but should otherwise match: %s", why)
		}
	}
	meta, at := obj.Map(object, "metadata"), join(path, "metadata")
	for _, name := range []string{"generateName", "name"} {
		for _, why := range obj.PathSegment(obj.String(meta, name)) {
			f.invalid(join(at, name), meta[name], "%s", why)
		}
	}
	f.add(obj.MetadataCauses(at, meta)...)
}

// field is the schema of a field of an object, or nil if there is none.
func (s *Schema) field(name string) *Schema {
	if p, ok := s.properties[name]; ok {
		return p
	}
	return s.additional
}

func (s *Schema) checkCombinators(f *found, v any, path string, was *any) {
	fail := func(text string) { f.invalid(nowhere, "", "%q %s", path, text) }
	if len(s.anyOf) > 0 {
		if valid, failures := alternatives(f, s.anyOf, v, path, was); valid == 0 {
			fail("must validate at least one schema (anyOf)")
			f.add(failures...)
		}
	}
	if len(s.oneOf) > 0 {
		valid, failures := alternatives(f, s.oneOf, v, path, was)
		if valid == 0 {
			fail("must validate one and only one schema (oneOf). Found none valid")
			f.add(failures...)
		} else if valid > 1 {
			fail(fmt.Sprintf("must validate one and only one schema (oneOf). Found %d valid alternatives", valid))
		}
	}
	valid := 0
	for _, sub := range s.allOf {
		before := len(f.causes)
		if sub.value(f, v, path, was); len(f.causes) == before {
			valid++
		}
	}
	if valid == 0 && len(s.allOf) > 0 {
		fail("must validate all the schemas (allOf). None validated")
	} else if valid < len(s.allOf) {
		fail("must validate all the schemas (allOf)")
	}
	if s.not != nil {
		if valid, _ := alternatives(f, []*Schema{s.not}, v, path, was); valid > 0 {
			fail("must not validate the schema (not)")
		}
	}
}

// alternatives counts the schemas that match, and returns the causes of the first one that does not.
func alternatives(to *found, list []*Schema, v any, path string, was *any) (valid int, failures []Cause) {
	for _, sub := range list {
		f := found{work: to.work}
		if sub.value(&f, v, path, was); len(f.causes) == 0 {
			valid++
		} else if failures == nil {
			failures = f.causes
		}
	}
	return valid, failures
}

func join(path, name string) string {
	name = patch.Short(name)
	if path == "" {
		return name
	}
	return path + "." + name
}
