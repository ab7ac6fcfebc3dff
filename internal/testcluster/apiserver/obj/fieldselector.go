package obj

import (
	"fmt"
	"strings"
)

// Fields is a parsed field selector; the zero value matches everything.
type Fields []term

type term struct {
	field, value string
	not          bool
}

// ParseFields parses a selector such as `metadata.name=web,status.phase!=Running`. Values may escape \, and \=.
func ParseFields(s string) (Fields, error) {
	var out Fields
	for _, part := range splitTerms(s) {
		if part == "" {
			continue
		}
		field, raw, found := strings.Cut(part, "=")
		if !found {
			return nil, fmt.Errorf("invalid selector: '%s'; can't understand '%s'", s, part)
		}
		field, not := strings.CutSuffix(field, "!")
		if !not {
			raw = strings.TrimPrefix(raw, "=")
		}
		v, err := unescape(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, term{field, v, not})
	}
	return out, nil
}

// Name returns the selector of the object with a name.
func Name(name string) Fields { return Fields{{field: "metadata.name", value: name}} }

// splitTerms splits at commas that are not escaped.
func splitTerms(s string) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ',':
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && strings.IndexByte(`\,=`, s[i+1]) >= 0:
			i++
			b.WriteByte(s[i])
		case c == '\\':
			return "", fmt.Errorf("invalid field selector: invalid escape sequence: %s", s[i:min(i+2, len(s))])
		case c == '=':
			return "", fmt.Errorf("invalid field selector: unescaped character in value: %v", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// Names returns the fields the selector asks for, in order.
func (s Fields) Names() []string {
	var out []string
	for _, t := range s {
		out = append(out, t.field)
	}
	return out
}

// Matches reports whether the selector matches an object; value returns a field of it, "" if it has none.
func (s Fields) Matches(value func(field string) string) bool {
	for _, t := range s {
		if (value(t.field) == t.value) == t.not {
			return false
		}
	}
	return true
}

// Exact returns the value that the selector requires for a field, if it requires one.
func (s Fields) Exact(field string) (string, bool) {
	for _, t := range s {
		if t.field == field && !t.not {
			return t.value, true
		}
	}
	return "", false
}
