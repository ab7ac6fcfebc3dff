package obj

import (
	"fmt"
	"strconv"
	"strings"

	"skiff/internal/runtime/patch"
)

// Cause is one invalid field, as in details.causes of a Status.
type Cause struct{ Reason, Message, Field string }

// Required is a missing field. detail may be empty.
func Required(field, detail string) Cause {
	return Cause{Reason: "FieldValueRequired", Message: because("Required value", detail), Field: field}
}

// Invalid is a value that breaks a rule.
func Invalid(field string, value any, detail string) Cause {
	return Cause{Reason: "FieldValueInvalid", Message: because("Invalid value: "+Show(value), detail), Field: field}
}

// InvalidAll returns a cause for each rule that a value breaks.
func InvalidAll(field string, value any, details []string) []Cause {
	return Each(details, func(d string) Cause { return Invalid(field, value, d) })
}

// PortRange is the rule for port numbers.
const PortRange = "must be between 1 and 65535, inclusive"

// TooLong is a value of more than limit bytes.
func TooLong(field string, limit int64) Cause {
	return Cause{Reason: "FieldValueTooLong", Message: fmt.Sprintf("Too long: may not be more than %d bytes", limit),
		Field: field}
}

// Forbidden is a field that may not be set or changed.
func Forbidden(field, detail string) Cause {
	return Cause{Reason: "FieldValueForbidden", Message: because("Forbidden", detail), Field: field}
}

// WrongType is a value that is not of the type or in the format that a schema wants.
func WrongType(field string, value any, want string) Cause {
	return Cause{Reason: "FieldValueTypeInvalid", Field: field,
		Message: fmt.Sprintf("Invalid value: %s: %s in body must be of type %s: %[1]s", Show(value), field, want)}
}

// NotFound is a reference to something that is not there.
func NotFound(field string, value any) Cause {
	return Cause{Reason: "FieldValueNotFound", Message: "Not found: " + Show(value), Field: field}
}

// Duplicate is a value that occurs twice in a list.
func Duplicate(field string, value any) Cause {
	return Cause{Reason: "FieldValueDuplicate", Message: "Duplicate value: " + Show(value), Field: field}
}

// NotSupported is a value that is not one of the allowed values. All are quoted, even numbers.
func NotSupported[T any](field string, value any, allowed ...T) Cause {
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		text, isText := any(a).(string)
		if !isText {
			text = Show(a)
		}
		quoted[i] = strconv.Quote(text)
	}
	return Cause{Reason: "FieldValueNotSupported", Field: field,
		Message: "Unsupported value: " + Show(value) + ": supported values: " + strings.Join(quoted, ", ")}
}

// TooMany is a list with more items than allowed.
func TooMany(field string, have, limit int64) Cause {
	items := "items"
	if limit == 1 {
		items = "item"
	}
	return Cause{Reason: "FieldValueTooMany", Field: field,
		Message: fmt.Sprintf("Too many: %d: must have at most %d %s", have, limit, items)}
}

// Aggregate joins what is wrong as apimachinery's errors.NewAggregate does: each text once, in brackets if there are
// several.
func Aggregate(texts []string) string {
	var once []string
	said := map[string]bool{}
	for _, text := range texts {
		if !said[text] {
			once, said[text] = append(once, text), true
		}
	}
	if len(once) > 1 {
		return "[" + strings.Join(once, ", ") + "]"
	}
	return strings.Join(once, "")
}

func because(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}

// Show formats a value as the server does in messages: strings quoted, objects and lists as JSON.
func Show(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case map[string]any, []any:
		if b, err := patch.Encode(v); err == nil {
			return string(b)
		}
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

// maxAnnotations is the limit of the total size of an object's annotations.
const maxAnnotations = 256 << 10

// MetadataCauses validates what metadata at a path has besides the name (apimachinery's ValidateObjectMeta).
func MetadataCauses(path string, meta map[string]any) (out []Cause) {
	for _, key := range Keys(Map(meta, "labels")) {
		out = append(out, InvalidAll(path+".labels", key, QualifiedName(key))...)
		if v := String(meta, "labels", key); LabelValue(v) != "" {
			out = append(out, Invalid(path+".labels", v, LabelValue(v)))
		}
	}
	total := 0
	for _, key := range Keys(Map(meta, "annotations")) {
		out = append(out, InvalidAll(path+".annotations", key, QualifiedName(key))...)
		total += len(key) + len(String(meta, "annotations", key))
	}
	if total > maxAnnotations {
		out = append(out, TooLong(path+".annotations", maxAnnotations))
	}
	out = append(out, ownerCauses(path+".ownerReferences", meta)...)
	for _, f := range Texts(meta, "finalizers") {
		out = append(out, InvalidAll(path+".finalizers", f, QualifiedName(f))...)
	}
	return out
}

func ownerCauses(field string, meta map[string]any) (out []Cause) {
	var controllers []string
	for _, ref := range Maps(meta, "ownerReferences") {
		for _, f := range []string{"apiVersion", "kind", "name", "uid"} {
			if String(ref, f) == "" {
				why := "must not be empty"
				if f == "apiVersion" {
					why = "version must not be empty"
				}
				out = append(out, Invalid(field+"."+f, "", why))
			}
		}
		version := String(ref, "apiVersion")
		if strings.Count(version, "/") > 1 {
			out = append(out, Invalid(field+".apiVersion", version, "version must not be empty"))
		}
		if version == "v1" && String(ref, "kind") == "Event" {
			out = append(out, Invalid(field, ref, "/v1, Kind=Event is disallowed from being an owner"))
		}
		if Bool(ref, "controller") {
			controllers = append(controllers, String(ref, "kind")+"/"+String(ref, "name"))
		}
	}
	for i := 1; i < len(controllers); i++ {
		out = append(out, Invalid(field, Slice(meta, "ownerReferences"), "Only one reference can have "+
			"Controller set to true. Found \"true\" in references for "+controllers[0]+" and "+controllers[i]))
	}
	return out
}
