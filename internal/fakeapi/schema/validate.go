package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"skiff/internal/fakeapi/cause"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// Validate returns the errors in an object that was pruned and defaulted, in the API server's words and by the order
// of the field names. If no alternative of an anyOf or oneOf matches, it returns the causes of the first; the API
// server returns those of the closest. What is wrong with values that are as in old, nil for none, is no error.
func (s *Schema) Validate(object, old map[string]any) []Cause {
	if old == nil {
		return s.validate(object, "")
	}
	was := any(old)
	causes := s.value(object, "", &was)
	if len(s.listTypes(old, "")) == 0 {
		causes = append(causes, s.listTypes(object, "")...)
	}
	return causes
}

func (s *Schema) validate(v any, path string) []Cause {
	return append(s.value(v, path, nil), s.listTypes(v, path)...)
}

// value checks v against everything except list types, which do not apply inside allOf, anyOf, oneOf and not. was is
// what v was before, nil if nothing tells.
func (s *Schema) value(v any, path string, was *any) []Cause {
	causes := s.check(v, path, was)
	if was != nil && len(causes) > 0 && patch.Equal(*was, v) {
		return nil
	}
	return causes
}

func (s *Schema) check(v any, path string, was *any) []Cause {
	causes := s.checkType(v, path)
	if v != nil {
		causes = append(causes, s.checkCombinators(v, path, was)...)
	}
	switch v := v.(type) {
	case string:
		causes = append(causes, s.checkString(v, path)...)
	case int64, float64:
		causes = append(causes, s.checkNumber(v, path)...)
	case []any:
		causes = append(causes, s.checkList(v, path, was)...)
	}
	if len(s.enum) > 0 && !(v == nil && s.nullable) && !slices.ContainsFunc(s.enum,
		func(e any) bool { return patch.Equal(e, v) }) {
		causes = append(causes, cause.NotSupported(path, v, s.enum...))
	}
	if object, ok := v.(map[string]any); ok {
		causes = append(causes, s.checkObject(object, path, was)...)
	}
	return causes
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

func (s *Schema) checkType(v any, path string) []Cause {
	want := s.typ
	if s.intOrString {
		want = "integer,string"
	}
	typ, format := jsonType(v)
	if want == "" || (typ == "null" && s.nullable) {
		return nil
	}
	f, isFloat := v.(float64)
	fits := slices.Contains(strings.Split(want, ","), typ) || (want == "number" && typ == "integer") ||
		(want == "integer" && isFloat && f == float64(int64(f)))
	switch {
	case fits:
		return nil
	case s.format != "" && (typ == "string" || typ == "array") && want != "number" && want != "integer":
		return nil // left to the format
	case s.format != "" && typ != "string" && typ != "array" && typ != "null":
		return []Cause{cause.WrongType(path, format, s.format)}
	}
	return []Cause{cause.WrongType(path, typ, want)}
}

func (s *Schema) checkString(v, path string) []Cause {
	n := int64(utf8.RuneCountInString(v))
	var causes []Cause
	switch {
	case s.maxLength != nil && n > *s.maxLength:
		causes = append(causes, cause.TooLong(path, *s.maxLength))
	case s.minLength != nil && n < *s.minLength:
		causes = append(causes, cause.Invalid(path, v, fmt.Sprintf("%s in body should be at least %d chars long", path,
			*s.minLength)))
	case s.pattern != nil && !s.pattern.MatchString(v):
		causes = append(causes, cause.Invalid(path, v, fmt.Sprintf("%s in body should match '%s'", path, s.pattern)))
	}
	if check := formats[s.format]; check != nil && !check(v) {
		causes = append(causes, cause.WrongType(path, v, s.format))
	}
	return causes
}

func (s *Schema) checkList(list []any, path string, was *any) []Cause {
	var causes []Cause
	if s.items != nil {
		for i, v := range list {
			causes = append(causes, s.items.value(v, fmt.Sprintf("%s[%d]", path, i), s.item(was, v))...)
		}
	}
	n := int64(len(list))
	if s.minItems != nil && n < *s.minItems {
		causes = append(causes, cause.Invalid(path, n, fmt.Sprintf("%s in body should have at least %d items", path,
			*s.minItems)))
	}
	if s.maxItems != nil && n > *s.maxItems {
		causes = append(causes, cause.TooMany(path, n, *s.maxItems))
	}
	return causes
}

func (s *Schema) checkObject(object map[string]any, path string, was *any) []Cause {
	var causes []Cause
	n := int64(len(object))
	if s.minProperties != nil && n < *s.minProperties {
		causes = append(causes, cause.Invalid(path, n, fmt.Sprintf("%s in body should have at least %d properties",
			path, *s.minProperties)))
	}
	if s.maxProperties != nil && n > *s.maxProperties {
		causes = append(causes, cause.TooMany(path, n, *s.maxProperties))
	}
	for _, name := range obj.Keys(object) {
		if sub := s.field(name); sub != nil {
			causes = append(causes, sub.value(object[name], join(path, name), member(was, name))...)
		}
	}
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			causes = append(causes, cause.Required(join(path, name), ""))
		}
	}
	if s.embeddedResource {
		causes = append(causes, checkEmbedded(object, path)...)
	}
	return causes
}

func checkEmbedded(object map[string]any, path string) []Cause {
	var causes []Cause
	for _, name := range []string{"apiVersion", "kind"} {
		v, present := object[name]
		text, ok := v.(string)
		switch {
		case text != "":
		case !present || ok:
			causes = append(causes, cause.Required(join(path, name), ""))
		default:
			causes = append(causes, cause.WrongType(join(path, name), first(jsonType(v)), "string"))
		}
		if name == "apiVersion" && strings.Count(text, "/") > 1 {
			causes = append(causes, cause.Invalid(join(path, name), text, "unexpected GroupVersion string: "+text))
		}
	}
	return causes
}

func first(a, _ string) string { return a }

// field is the schema of a field of an object, or nil if there is none.
func (s *Schema) field(name string) *Schema {
	if p, ok := s.properties[name]; ok {
		return p
	}
	return s.additional
}

func (s *Schema) checkCombinators(v any, path string, was *any) []Cause {
	var causes []Cause
	fail := func(text string) {
		causes = append(causes, cause.Invalid(nowhere, "", fmt.Sprintf("%q %s", path, text)))
	}
	if len(s.anyOf) > 0 {
		if valid, failures := alternatives(s.anyOf, v, path, was); valid == 0 {
			fail("must validate at least one schema (anyOf)")
			causes = append(causes, failures...)
		}
	}
	if len(s.oneOf) > 0 {
		valid, failures := alternatives(s.oneOf, v, path, was)
		if valid == 0 {
			fail("must validate one and only one schema (oneOf). Found none valid")
			causes = append(causes, failures...)
		} else if valid > 1 {
			fail(fmt.Sprintf("must validate one and only one schema (oneOf). Found %d valid alternatives", valid))
		}
	}
	valid := 0
	for _, sub := range s.allOf {
		found := sub.value(v, path, was)
		if causes = append(causes, found...); len(found) == 0 {
			valid++
		}
	}
	if valid < len(s.allOf) {
		text := "must validate all the schemas (allOf)"
		if valid == 0 {
			text += ". None validated"
		}
		fail(text)
	}
	if s.not != nil && len(s.not.value(v, path, was)) == 0 {
		fail("must not validate the schema (not)")
	}
	return causes
}

// alternatives counts the schemas that match, and returns the causes of the first one that does not.
func alternatives(list []*Schema, v any, path string, was *any) (valid int, failures []Cause) {
	for _, sub := range list {
		found := sub.value(v, path, was)
		if len(found) == 0 {
			valid++
		} else if failures == nil {
			failures = found
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
