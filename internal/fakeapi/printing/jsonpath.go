package printing

import (
	"fmt"
	"strconv"
	"strings"

	"skiff/internal/patch"
)

// parsePath parses the subset of JSONPath that printer columns use: .a.b, ['a.b'], [0], [*] and [?(@.type=="Ready")].
// A path that it cannot parse finds nothing.
func parsePath(path string) func(map[string]any) any {
	steps, ok := pathSteps(path)
	return func(o map[string]any) any {
		if !ok {
			return nil
		}
		values := []any{o}
		for _, s := range steps {
			var next []any
			for _, v := range values {
				next = append(next, s(v)...)
			}
			values = next
		}
		if len(values) == 0 {
			return nil
		}
		return values[0]
	}
}

type step func(any) []any

func pathSteps(path string) (steps []step, ok bool) {
	for path != "" {
		switch path[0] {
		case '.':
			end := strings.IndexAny(path[1:], ".[")
			if end < 0 {
				end = len(path) - 1
			}
			if name := path[1 : 1+end]; name != "" {
				steps = append(steps, member(name))
			}
			path = path[1+end:]
		case '[':
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return nil, false
			}
			s := bracket(path[1:end])
			if s == nil {
				return nil, false
			}
			steps = append(steps, s)
			path = path[end+1:]
		default:
			return nil, false
		}
	}
	return steps, true
}

func member(name string) step {
	return func(v any) []any {
		m, _ := v.(map[string]any)
		if found, ok := m[name]; ok {
			return []any{found}
		}
		return nil
	}
}

// bracket parses the content of [].
func bracket(s string) step {
	if n, err := strconv.Atoi(s); err == nil {
		return func(v any) []any {
			l, _ := v.([]any)
			i := n
			if i < 0 {
				i += len(l)
			}
			if i < 0 || i >= len(l) {
				return nil
			}
			return []any{l[i]}
		}
	}
	switch {
	case s == "*":
		return func(v any) []any {
			l, _ := v.([]any)
			return l
		}
	case len(s) > 2 && (s[0] == '\'' || s[0] == '"'):
		return member(strings.ReplaceAll(s[1:len(s)-1], `\.`, "."))
	case strings.HasPrefix(s, "?(@.") && strings.HasSuffix(s, ")"):
		return filter(s[len("?(@.") : len(s)-1])
	}
	return nil
}

// filter keeps the items of a list whose field equals a literal.
func filter(s string) step {
	field, literal, ok := strings.Cut(s, "==")
	if !ok {
		return nil
	}
	literal = strings.Trim(strings.TrimSpace(literal), `"'`)
	path := strings.Split(strings.TrimSpace(field), ".")
	return func(v any) []any {
		l, _ := v.([]any)
		var out []any
		for _, item := range l {
			at := item
			for _, p := range path {
				m, _ := at.(map[string]any)
				at = m[p]
			}
			if fmt.Sprint(at) == literal {
				out = append(out, item)
			}
		}
		return out
	}
}

// printed formats a value for a column of type string: objects and lists as JSON.
func printed(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return v
	case map[string]any, []any:
		b, err := patch.Encode(v)
		if err != nil {
			return nil
		}
		return string(b)
	}
	return fmt.Sprint(v)
}
