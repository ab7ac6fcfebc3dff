package schema

import (
	"fmt"
	"strings"

	"skiff/internal/patch"
)

// nowhere is the field of a cause without a field.
const nowhere = "<nil>"

func required(field, detail string) Cause {
	return Cause{"FieldValueRequired", withDetail("Required value", detail), field}
}

func invalid(field string, value any, detail string) Cause {
	return Cause{"FieldValueInvalid", withDetail("Invalid value: "+show(value), detail), field}
}

func typeInvalid(field string, value any, want string) Cause {
	return Cause{"FieldValueTypeInvalid", fmt.Sprintf("Invalid value: %s: %s in body must be of type %s: %s",
		show(value), field, want, show(value)), field}
}

func duplicate(field string, value any) Cause {
	return Cause{"FieldValueDuplicate", "Duplicate value: " + show(value), field}
}

func forbidden(field, detail string) Cause {
	return Cause{"FieldValueForbidden", withDetail("Forbidden", detail), field}
}

func tooMany(field string, actual, limit int64) Cause {
	items := "items"
	if limit == 1 {
		items = "item"
	}
	text := fmt.Sprintf("Too many: %d: must have at most %d %s", actual, limit, items)
	return Cause{"FieldValueTooMany", text, field}
}

func tooLong(field string, limit int64) Cause {
	return Cause{"FieldValueTooLong", fmt.Sprintf("Too long: may not be more than %d bytes", limit), field}
}

// notSupported quotes all supported values, even numbers.
func notSupported(field string, value any, supported ...any) Cause {
	quoted := make([]string, 0, len(supported))
	for _, v := range supported {
		text, ok := v.(string)
		if !ok {
			text = show(v)
		}
		quoted = append(quoted, fmt.Sprintf("%q", text))
	}
	return Cause{"FieldValueNotSupported", fmt.Sprintf("Unsupported value: %s: supported values: %s", show(value),
		strings.Join(quoted, ", ")), field}
}

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + detail
}

// show formats a value as the API server does in causes: as JSON, and numbers as Go prints them.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case map[string]any, []any, nil:
		b, err := patch.Encode(v)
		if err != nil {
			return fmt.Sprintf("%v", v)
		}
		return string(b)
	}
	return fmt.Sprintf("%v", v)
}
