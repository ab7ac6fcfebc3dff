package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// condition is what follows "if" in a line: alternatives (or) of terms that must all hold (and).
type condition [][]term

// term is one comparison, such as `spec.type = NodePort`.
type term struct {
	verb string
	at   path
	any  []path // of changed: one of these is
	arg  string
	text template // arg, of = and !=
	than path     // arg, of verbs with a number, if it is none
}

// unary are the terms that stand before their path, binary those behind it.
var unary = []string{"has", "no", "empty", "some"}
var binary = []string{"=", "!=", "in", "not-in", "<", ">", "<=", "starts", "not-starts", "contains", "longer",
	"shorter"}

// parseCondition parses the words behind an if; nil, which always holds, for none.
func parseCondition(words []string) condition {
	if len(words) == 0 {
		return nil
	}
	out := condition{nil}
	for len(words) > 0 {
		var t term
		last := len(out) - 1
		switch {
		case words[0] == "or":
			out, words = append(out, nil), words[1:]
			continue
		case words[0] == "and":
			words = words[1:]
			continue
		case words[0] == "new" || words[0] == "update":
			t, words = term{verb: words[0]}, words[1:]
		case len(words) > 1 && slices.Contains(unary, words[0]):
			t, words = term{verb: words[0], at: parsePath(words[1])}, words[2:]
		case len(words) > 1 && words[1] == "changed":
			t, words = term{verb: words[1], any: parsePaths(words[0])}, words[2:]
		case len(words) > 2 && slices.Contains(binary, words[1]):
			t = term{verb: words[1], at: parsePath(words[0]), arg: words[2]}
			switch t.verb {
			case "=", "!=":
				t.text = parseTemplate(t.arg)
			case "<", ">", "<=", "longer", "shorter":
				t.than = parsePath(t.arg)
			}
			words = words[3:]
		default:
			mistake("no condition: %q", strings.Join(words, " "))
		}
		out[last] = append(out[last], t)
	}
	if slices.ContainsFunc(out, func(all []term) bool { return all == nil }) {
		mistake("or without a condition on both sides")
	}
	return out
}

func (c condition) holds(s scope) bool {
	return c == nil || slices.ContainsFunc(c, func(all []term) bool {
		return !slices.ContainsFunc(all, func(t term) bool { return !t.holds(s) })
	})
}

func (t term) holds(s scope) bool {
	if t.verb == "new" || t.verb == "update" {
		return (s.stored == nil) == (t.verb == "new")
	}
	v := s.get(t.at)
	switch t.verb {
	case "has", "no":
		return (v != nil) == (t.verb == "has")
	case "empty", "some":
		return isZero(v) == (t.verb == "empty")
	case "changed":
		changed := func(p path) bool { return !patch.Equal(s.get(p), s.was(p)) }
		return s.stored != nil && slices.ContainsFunc(t.any, changed)
	case "=", "!=":
		return (shown(v) == shown(t.text.value(s))) == (t.verb == "=")
	case "in", "not-in":
		return slices.Contains(strings.Split(t.arg, "|"), shown(v)) == (t.verb == "in")
	case "starts", "not-starts":
		return strings.HasPrefix(shown(v), t.arg) == (t.verb == "starts")
	case "contains":
		return slices.Contains(texts(v), t.arg)
	case "longer", "shorter":
		n, err := strconv.Atoi(t.arg)
		if err != nil {
			n = length(s.get(t.than))
		}
		return t.verb == "longer" && length(v) > n || t.verb == "shorter" && length(v) < n
	}
	var than any
	if n, err := strconv.ParseInt(t.arg, 10, 64); err == nil {
		than = n
	} else {
		than = s.get(t.than)
	}
	c, ok := compare(v, than)
	return ok && (t.verb == "<" && c < 0 || t.verb == ">" && c > 0 || t.verb == "<=" && c <= 0)
}

// compare compares numbers or quantities, of which a missing b is 0.
func compare(a, b any) (c int, ok bool) {
	if n, isNumber := integer(a); isNumber {
		m, _ := integer(b)
		return cmp.Compare(n, m), true
	}
	text, isText := a.(string)
	p, err := patch.ParseQuantity(text)
	q, err2 := patch.ParseQuantity(cmp.Or(shown(b), "0"))
	return p.Cmp(q), isText && err == nil && err2 == nil
}

// length returns how many items or members a value has.
func length(v any) int {
	list, _ := v.([]any)
	m, _ := v.(Object)
	return len(list) + len(m)
}

// isZero reports whether a value is missing, empty or 0.
func isZero(v any) bool {
	switch v.(type) {
	case []any, Object:
		return length(v) == 0
	}
	return v == nil || v == "" || v == int64(0)
}

// integer returns a whole number.
func integer(v any) (int64, bool) { return obj.Int(Object{"": v}, "") }

// shown formats a value as text, "" for a missing one.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(v)
}
