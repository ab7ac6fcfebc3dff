package kinds

import (
	"fmt"
	"strconv"
	"strings"

	"skiff/internal/kube"
	"skiff/internal/patch"
)

// Cause is one invalid field, in the words of k8s.io/apimachinery/pkg/util/validation/field.
type Cause = kube.StatusCause

// Required is a missing field. detail may be empty.
func Required(field, detail string) Cause {
	return Cause{Reason: "FieldValueRequired", Message: because("Required value", detail), Field: field}
}

// Invalid is a value that breaks a rule.
func Invalid(field string, value any, detail string) Cause {
	return Cause{Reason: "FieldValueInvalid", Message: because("Invalid value: "+show(value), detail), Field: field}
}

// InvalidAll returns a cause for each rule that a value breaks.
func InvalidAll(field string, value any, details []string) []Cause {
	var out []Cause
	for _, d := range details {
		out = append(out, Invalid(field, value, d))
	}
	return out
}

// portRange is the rule for port numbers.
const portRange = "must be between 1 and 65535, inclusive"

// TooLong is a value of more than limit bytes.
func TooLong(field string, limit int) Cause {
	return Cause{Reason: "FieldValueTooLong", Message: fmt.Sprintf("Too long: may not be more than %d bytes", limit),
		Field: field}
}

// Forbidden is a field that may not be set or changed.
func Forbidden(field, detail string) Cause {
	return Cause{Reason: "FieldValueForbidden", Message: because("Forbidden", detail), Field: field}
}

// NotFound is a reference to something that is not there.
func NotFound(field string, value any) Cause {
	return Cause{Reason: "FieldValueNotFound", Message: "Not found: " + show(value), Field: field}
}

// Duplicate is a value that occurs twice in a list.
func Duplicate(field string, value any) Cause {
	return Cause{Reason: "FieldValueDuplicate", Message: "Duplicate value: " + show(value), Field: field}
}

// NotSupported is a value that is not one of the allowed values.
func NotSupported(field string, value any, allowed ...string) Cause {
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = strconv.Quote(a)
	}
	return Cause{Reason: "FieldValueNotSupported", Field: field,
		Message: "Unsupported value: " + show(value) + ": supported values: " + strings.Join(quoted, ", ")}
}

// tooMany is a list with more items than allowed.
func tooMany(field string, have, limit int) Cause {
	return Cause{Reason: "FieldValueTooMany", Field: field,
		Message: fmt.Sprintf("Too many: %d: must have at most %d items", have, limit)}
}

func because(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}

// show formats a value as the server does in messages: strings quoted, objects and lists as JSON.
func show(v any) string {
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
