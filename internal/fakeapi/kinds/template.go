package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"skiff/internal/fakeapi/obj"
)

// template is a text with values in it, such as "{status.readyReplicas|0}/{spec.replicas|0}". The form of a value is
// {filter:path|instead}; instead is for a missing or empty value: a text, or a path that starts with an equals sign.
type template []part

type part struct {
	text    string // as it is, if there is no path
	filter  string
	path    *path
	instead string
	literal any // instead as a number or a boolean, if it is one
	other   *path
}

func parseTemplate(text string) (template, error) {
	var out template
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
			return nil, fmt.Errorf("no closing brace: %q", text)
		}
		var p part
		where, instead, _ := strings.Cut(inside, "|")
		if other, ok := strings.CutPrefix(instead, "="); ok {
			at := parsePath(other)
			p.other = &at
		} else if p.instead = instead; instead == "true" || instead == "false" {
			p.literal = instead == "true"
		} else if n, err := strconv.ParseInt(instead, 10, 64); err == nil {
			p.literal = n
		}
		if name, rest, ok := strings.Cut(where, ":"); ok {
			if p.filter, where = name, rest; filters()[name] == nil {
				return nil, fmt.Errorf("no filter %q", name)
			}
		}
		at := parsePath(where)
		p.path, text = &at, after
		out = append(out, p)
	}
	return out, nil
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
	if p.path == nil {
		return p.text
	}
	var v any // nil for an empty path
	if len(p.path.steps) > 0 {
		v = s.get(*p.path)
	}
	if p.path.lists() {
		var list []any
		p.path.walk(s.from(*p.path), unknown, func(_ string, item any) { list = append(list, item) })
		if v = list; p.filter == "" {
			v = filters()["join"](list)
		}
	}
	if p.filter != "" {
		v = filters()[p.filter](v)
	}
	if v == nil || v == "" {
		if p.other != nil {
			v = s.get(*p.other)
		} else if v = p.instead; p.literal != nil {
			v = p.literal
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
		"lower":    func(v any) any { return strings.ToLower(shown(v)) },
		"trim":     func(v any) any { return strings.TrimSpace(shown(v)) },
		"selector": func(v any) any { m, _ := v.(Object); return FormatSelector(m) },
		"pairs":    func(v any) any { m, _ := v.(Object); return pairs(m) },
		"modes":    func(v any) any { return shortModes(v) },
		"count": func(v any) any {
			list, _ := v.([]any)
			m, _ := v.(Object)
			return int64(len(list) + len(m))
		},
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
	var out []string
	list, _ := v.([]any)
	for _, item := range list {
		out = append(out, shown(item))
	}
	return out
}

// firstThree lists three items, and how many more there are.
func firstThree(list []string) string {
	if more := len(list) - 3; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:3], ","), more)
	}
	return strings.Join(list, ",")
}

func pairs(m Object) string {
	var out []string
	for _, k := range obj.Keys(m) {
		out = append(out, k+"="+shown(m[k]))
	}
	return strings.Join(out, ",")
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

// cell is one of the texts of a column, for objects that meet a condition.
type cell struct {
	when condition
	show func(o Object, now time.Time) any
}

// parseCell parses the texts of a column, separated by semicolons: the first whose condition holds is printed. @name
// is a function, and age:path the time since a timestamp.
func parseCell(text string) (func(Object, time.Time) any, error) {
	var cells []cell
	for alternative := range strings.SplitSeq(text, "; ") {
		body, condition, _ := strings.Cut(alternative, " if ")
		when, err := parseCondition(strings.Fields(condition))
		if err != nil {
			return nil, err
		}
		show := cellFunctions()[strings.TrimPrefix(body, "@")]
		if strings.HasPrefix(body, "@") && show == nil {
			return nil, fmt.Errorf("no function %s", body)
		} else if show == nil {
			t, err := parseTemplate(body)
			if err != nil {
				return nil, err
			}
			show = func(o Object, _ time.Time) any { return t.value(scope{root: o, o: o}) }
		}
		cells = append(cells, cell{when, show})
	}
	return func(o Object, now time.Time) any {
		for _, c := range cells {
			if c.when.holds(scope{root: o, o: o}) {
				return c.show(o, now)
			}
		}
		return ""
	}, nil
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
