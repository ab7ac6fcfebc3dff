package restart

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/kube"
)

// The operators of a requirement.
const (
	opIn        = "In"
	opNotIn     = "NotIn"
	opExists    = "Exists"
	opNotExists = "DoesNotExist"
)

// selector is a label selector as it is matched: all requirements must hold.
type selector []Requirement

// newSelector checks a LabelSelector. One that could match every pod of a namespace is refused: it needs at least one
// requirement that a pod only meets by having a label.
func newSelector(l LabelSelector) (selector, error) {
	var s selector
	for _, m := range l.MatchLabels {
		s = append(s, Requirement{Key: m.Key, Operator: opIn, Values: []string{m.Value}})
	}
	for i, r := range l.MatchExpressions {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("matchExpressions[%d]: %w", i, err)
		}
		s = append(s, r)
	}
	return s, s.check()
}

func (r Requirement) check() error {
	switch {
	case r.Key == "":
		return errors.New("key: must not be empty")
	case r.Operator == opIn || r.Operator == opNotIn:
		if len(r.Values) == 0 {
			return fmt.Errorf("values: %s needs at least one", r.Operator)
		}
	case r.Operator == opExists || r.Operator == opNotExists:
		if len(r.Values) > 0 {
			return fmt.Errorf("values: %s takes none", r.Operator)
		}
	default:
		return fmt.Errorf("operator: must be In, NotIn, Exists or DoesNotExist, is %q", r.Operator)
	}
	return nil
}

func (s selector) check() error {
	if len(s) == 0 {
		return errors.New("must not be empty: it would match every pod")
	}
	for _, r := range s {
		if r.Operator == opIn || r.Operator == opExists {
			return nil
		}
	}
	return errors.New("would match every pod without certain labels: require at least one label, by matchLabels, In or Exists")
}

// matches says whether something with these labels is selected.
func (s selector) matches(labels kube.Labels) bool {
	for _, r := range s {
		v, ok := labels.Get(r.Key)
		if in := ok && slices.Contains(r.Values, v); r.Operator == opIn && !in || r.Operator == opNotIn && in ||
			r.Operator == opExists && !ok || r.Operator == opNotExists && ok {
			return false
		}
	}
	return true
}

// String returns the selector in the form of `kubectl get -l`.
func (s selector) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		switch {
		case r.Operator == opIn && len(r.Values) == 1:
			parts[i] = r.Key + "=" + r.Values[0]
		case r.Operator == opNotIn && len(r.Values) == 1:
			parts[i] = r.Key + "!=" + r.Values[0]
		case r.Operator == opIn:
			parts[i] = r.Key + " in (" + strings.Join(r.Values, ",") + ")"
		case r.Operator == opNotIn:
			parts[i] = r.Key + " notin (" + strings.Join(r.Values, ",") + ")"
		case r.Operator == opExists:
			parts[i] = r.Key
		default:
			parts[i] = "!" + r.Key
		}
	}
	return strings.Join(parts, ",")
}

// parseSelector reads the form of `kubectl get -l`: a=b, a==b, a!=b, a in (b,c), a notin (b,c), a, !a.
func parseSelector(text string) (selector, error) {
	var s selector
	for _, part := range splitSelector(text) {
		r, err := parseRequirement(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		s = append(s, r)
	}
	return s, s.check()
}

// splitSelector splits at commas that are not within parentheses.
func splitSelector(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var parts []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

func parseRequirement(part string) (Requirement, error) {
	bad := func() (Requirement, error) {
		return Requirement{}, fmt.Errorf("cannot read %q: want key=value, key!=value, key in (a,b), key notin (a,b), key or !key", part)
	}
	for _, op := range []struct{ sign, operator string }{{"!=", opNotIn}, {"==", opIn}, {"=", opIn}} {
		if key, value, ok := strings.Cut(part, op.sign); ok {
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			if !word(key) || value != "" && !word(value) {
				return bad()
			}
			return Requirement{Key: key, Operator: op.operator, Values: []string{value}}, nil
		}
	}
	if head, list, ok := strings.Cut(part, "("); ok {
		words := strings.Fields(head)
		list, closed := strings.CutSuffix(list, ")")
		if !closed || len(words) != 2 || words[1] != "in" && words[1] != "notin" {
			return bad()
		}
		r := Requirement{Key: words[0], Operator: map[string]string{"in": opIn, "notin": opNotIn}[words[1]]}
		for v := range strings.SplitSeq(list, ",") {
			if v = strings.TrimSpace(v); v != "" && !word(v) {
				return bad()
			}
			r.Values = append(r.Values, v)
		}
		return r, nil
	}
	key, absent := strings.CutPrefix(part, "!")
	if key = strings.TrimSpace(key); !word(key) {
		return bad()
	}
	if absent {
		return Requirement{Key: key, Operator: opNotExists}, nil
	}
	return Requirement{Key: key, Operator: opExists}, nil
}

// word says whether s can be a key or a value. The server knows the finer rules.
func word(s string) bool { return s != "" && !strings.ContainsAny(s, " \t\n!=(),") }
