package kinds

import (
	"fmt"
	"strconv"
	"strings"

	"skiff/internal/kube"
	"skiff/internal/patch"
)

// Cause is one field at fault, in the words of k8s.io/apimachinery/pkg/util/validation/field.
type Cause = kube.StatusCause

// Required says that a field is missing. detail may be empty.
func Required(field, detail string) Cause {
	return Cause{Reason: "FieldValueRequired", Message: join("Required value", detail), Field: field}
}

// Invalid says that a value breaks a rule.
func Invalid(field string, value any, detail string) Cause {
	return Cause{Reason: "FieldValueInvalid", Message: join("Invalid value: "+show(value), detail), Field: field}
}

// InvalidAll says of one value which rules it breaks.
func InvalidAll(field string, value any, details []string) []Cause {
	var out []Cause
	for _, d := range details {
		out = append(out, Invalid(field, value, d))
	}
	return out
}

// portRange is what is wrong with the number of a port.
const portRange = "must be between 1 and 65535, inclusive"

// TooLong says that a value has more than that many bytes.
func TooLong(field string, limit int) Cause {
	return Cause{Reason: "FieldValueTooLong", Message: fmt.Sprintf("Too long: may not be more than %d bytes", limit),
		Field: field}
}

// Forbidden says that a field may not be set or changed so.
func Forbidden(field, detail string) Cause {
	return Cause{Reason: "FieldValueForbidden", Message: join("Forbidden", detail), Field: field}
}

// Duplicate says that a value occurs twice in a list.
func Duplicate(field string, value any) Cause {
	return Cause{Reason: "FieldValueDuplicate", Message: "Duplicate value: " + show(value), Field: field}
}

// NotSupported says that a value is not one of the allowed ones.
func NotSupported(field string, value any, allowed ...string) Cause {
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = strconv.Quote(a)
	}
	return Cause{Reason: "FieldValueNotSupported", Field: field,
		Message: "Unsupported value: " + show(value) + ": supported values: " + strings.Join(quoted, ", ")}
}

func join(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}

// show prints a value as the server does in its messages: strings quoted, objects and lists as JSON.
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
