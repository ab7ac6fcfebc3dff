package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
)

// template is a text with values in it, such as "{status.readyReplicas|0}/{spec.replicas|0}". The form of a value is
// {filter:path|instead}; instead is for a missing or empty value: a text, or a path that starts with an equals sign.
// {text if condition} is a text for some objects only.
type template []part

type part struct {
	text    string // as it is, if there is no path
	when    condition
	filter  string
	path    *path
	instead any // a text, a number or a boolean
	other   *path
}

func parseTemplate(text string) (out template) {
	for text != "" {
		before, rest, found := strings.Cut(text, "{")
		if before != "" {
			out = append(out, part{text: before})
		}
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			mistake("no closing brace: %q", text)
		}
		out, text = append(out, parsePart(inside)), after
	}
	return out
}

// parsePart parses what is in braces.
func parsePart(text string) (p part) {
	if some, condition, ok := strings.Cut(text, " if "); ok {
		return part{text: some, when: parseCondition(strings.Fields(condition))}
	}
	where, instead, _ := strings.Cut(text, "|")
	if other, ok := strings.CutPrefix(instead, "="); ok {
		at := parsePath(other)
		p.other = &at
	} else if p.instead = instead; instead == "true" || instead == "false" {
		p.instead = instead == "true"
	} else if n, err := strconv.ParseInt(instead, 10, 64); err == nil {
		p.instead = n
	}
	if name, rest, ok := strings.Cut(where, ":"); ok && name != "old" {
		if p.filter, where = name, rest; filters()[name] == nil {
			mistake("no filter %q", name)
		}
	}
	at := parsePath(where)
	p.path = &at
	return p
}

// value returns what a template makes of an object: text, or the value itself where the template is nothing else.
func (t template) value(s scope) any {
	if len(t) == 1 {
		return t[0].value(s)
	}
	var b strings.Builder
	for _, p := range t {
		b.WriteString(shown(p.value(s)))
	}
	return b.String()
}

func (p part) value(s scope) any {
	switch {
	case p.path == nil && p.when.holds(s):
		return p.text
	case p.path == nil:
		return ""
	case p.path.lists():
		var list []any
		p.path.walk(s.from(*p.path), unknown, func(_ string, item any) { list = append(list, item) })
		return p.joined(s, list)
	case len(p.path.steps) > 0:
		return p.filtered(s, s.get(*p.path))
	}
	return p.filtered(s, nil)
}

// joined returns what a part makes of a list: it is joined by commas, if the part has no other filter.
func (p part) joined(s scope, list []any) any {
	p.filter = cmp.Or(p.filter, "join")
	return p.filtered(s, list)
}

func (p part) filtered(s scope, v any) any {
	if p.filter != "" {
		v = filters()[p.filter](v)
	}
	if v == nil || v == "" {
		if v = p.instead; p.other != nil {
			v = s.get(*p.other)
		}
	}
	if v == nil {
		return ""
	}
	return v
}

// filters are what a template can make of a value.
var filters = sync.OnceValue(func() map[string]func(any) any {
	return map[string]func(any) any{
		"join":  func(v any) any { return strings.Join(texts(v), ",") },
		"comma": func(v any) any { return strings.Join(texts(v), ", ") },
		"three": func(v any) any {
			return firstThree(slices.DeleteFunc(texts(v), func(s string) bool { return s == "" }))
		},
		"text":     func(v any) any { return shown(v) },
		"group":    func(v any) any { group, _, _ := strings.Cut(shown(v), "/"); return group },
		"lower":    func(v any) any { return strings.ToLower(shown(v)) },
		"trim":     func(v any) any { return strings.TrimSpace(shown(v)) },
		"selector": func(v any) any { m, _ := v.(Object); return FormatSelector(m) },
		"pairs":    func(v any) any { m, _ := v.(Object); return pairs(m) },
		"modes":    func(v any) any { return shortModes(v) },
		"count":    func(v any) any { return int64(length(v)) },
		"title": func(v any) any { // as the real table printer formats a boolean
			if v == true {
				return "True"
			}
			return "False"
		},
	}
})

// texts returns the items of a list as texts, "" for a missing one.
func texts(v any) []string {
	list, _ := v.([]any)
	return obj.Each(list, shown)
}

// firstThree lists three items, and how many more there are.
func firstThree(list []string) string {
	if more := len(list) - 3; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:3], ","), more)
	}
	return strings.Join(list, ",")
}

func pairs(m Object) string {
	return strings.Join(obj.Each(obj.Keys(m), func(k string) string { return k + "=" + shown(m[k]) }), ",")
}

func shortModes(v any) string {
	var out []string
	modes := texts(v)
	for _, m := range [][2]string{{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"},
		{"ReadWriteOncePod", "RWOP"}} {
		if slices.Contains(modes, m[0]) {
			out = append(out, m[1])
		}
	}
	return strings.Join(out, ",")
}

// cell formats an object for a column. A part of an object has its own, within that of the object.
type cell func(s scope, now time.Time) any

// parseCell parses a column: texts separated by semicolons, the first of which whose condition holds is printed, or
// each, a path as in braces, and such texts for each object there. @name is a function.
func parseCell(text string) cell {
	if rest, ok := strings.CutPrefix(text, "each "); ok {
		return parseEach(rest)
	}
	var conditions []condition
	var cells []cell
	for alternative := range strings.SplitSeq(text, "; ") {
		body, condition := cutCondition(alternative)
		conditions = append(conditions, parseCondition(strings.Fields(condition)))
		if name, ok := strings.CutPrefix(body, "@"); ok {
			show := named(cellFunctions(), name)
			cells = append(cells, func(s scope, now time.Time) any { return show(s.root, now) })
		} else {
			t := parseTemplate(body)
			cells = append(cells, func(s scope, _ time.Time) any { return t.value(s) })
		}
	}
	return func(s scope, now time.Time) any {
		for i, when := range conditions {
			if when.holds(s) {
				return cells[i](s, now)
			}
		}
		return ""
	}
}

// cutCondition cuts a text in front of an if that is not in braces.
func cutCondition(text string) (body, condition string) {
	depth := 0
	for i, c := range text {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], " if "):
			return text[:i], text[i+len(" if "):]
		}
	}
	return text, ""
}

func parseEach(text string) cell {
	head, body, _ := strings.Cut(text, " ")
	list, item := parsePart(head), parseCell(body)
	return func(s scope, now time.Time) any {
		var out []any
		s.each(*list.path, func(part scope) {
			if part.o != nil {
				out = append(out, item(part, now))
			}
		})
		return list.joined(s, out)
	}
}

// since is the column of the time since a timestamp, the first one that is set.
func since(fields ...string) func(Object, time.Time) any {
	return func(o Object, now time.Time) any {
		at := ""
		for _, f := range fields {
			at = cmp.Or(at, obj.String(o, strings.Split(f, ".")...))
		}
		return Since(at, now)
	}
}
