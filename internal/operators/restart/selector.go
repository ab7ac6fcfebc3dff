package restart

import (
	"errors"
	"fmt"
	"regexp"
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

// maxValues bounds the labels and values that a selector names: each event of a pod is compared with some of them.
const maxValues = 200

var (
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`) // RFC 1123
)

const maxName = 253 // bytes of an object's name

func validName(s string) bool { return len(s) <= maxName && objectName.MatchString(s) }

// validKey says whether s can be the key of a label: a name, with or without a DNS name before it.
func validKey(s string) bool {
	prefix, name, ok := strings.Cut(s, "/")
	if !ok {
		prefix, name = "x", s
	}
	return validName(prefix) && name != "" && labelValue.MatchString(name)
}

// selector is a label selector as it is matched: all requirements must hold.
type selector []Requirement

// selector returns the same in one form, unchecked.
func (l *LabelSelector) selector() selector {
	s := make(selector, 0, len(l.MatchLabels)+len(l.MatchExpressions))
	for _, m := range l.MatchLabels {
		s = append(s, Requirement{Key: m.Key, Operator: opIn, Values: []string{m.Value}})
	}
	return append(s, l.MatchExpressions...)
}

// check refuses what a server would refuse, and a selector that could match every pod of a namespace: at least one
// requirement has to be one that a pod only meets by having a label.
func (s selector) check() error {
	if len(s) == 0 {
		return errors.New("must not be empty: it would match every pod")
	}
	size := 0
	for _, r := range s {
		if err := r.check(); err != nil {
			return err
		}
		size += max(1, len(r.Values))
	}
	if size > maxValues {
		return fmt.Errorf("names %d values, at most %d are allowed", size, maxValues)
	}
	if !slices.ContainsFunc(s, Requirement.positive) {
		return errors.New("would match every pod without certain labels: " +
			"require at least one label, by matchLabels, In or Exists")
	}
	return nil
}

func (r Requirement) positive() bool { return r.Operator == opIn || r.Operator == opExists }

func (r Requirement) check() error {
	switch {
	case !validKey(r.Key):
		return fmt.Errorf("%.100q is not the key of a label", r.Key)
	case r.Operator == opIn || r.Operator == opNotIn:
		if len(r.Values) == 0 {
			return fmt.Errorf("%s: %s needs at least one value", r.Key, r.Operator)
		}
	case r.Operator == opExists || r.Operator == opNotExists:
		if len(r.Values) > 0 {
			return fmt.Errorf("%s: %s takes no values", r.Key, r.Operator)
		}
	default:
		return fmt.Errorf("%s: operator: must be In, NotIn, Exists or DoesNotExist, is %.100q", r.Key, r.Operator)
	}
	for _, v := range r.Values {
		if !labelValue.MatchString(v) {
			return fmt.Errorf("%s: %.100q is not the value of a label", r.Key, v)
		}
	}
	return nil
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

// requirementText is one part of a selector in kubectl's form: "key" or "!key", "key=value", "key in (a,b)".
var requirementText = regexp.MustCompile(
	`^\s*(?:(!?)\s*([^\s!=(),]+)|([^\s!=(),]+)\s*(==?|!=)\s*([^\s!=(),]*)|([^\s!=(),]+)\s+(in|notin)\s*\(([^()]*)\))\s*$`)

// ParseSelector reads the form of `kubectl get -l`: a=b, a==b, a!=b, a in (b,c), a notin (b,c), a, !a.
func ParseSelector(text string) (l LabelSelector, err error) {
	depth := 0
	lines := strings.Map(func(c rune) rune { // one requirement a line: commas within parentheses stay
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			return '\n'
		}
		return c
	}, text)
	for part := range strings.SplitSeq(lines, "\n") {
		if text == "" {
			break
		}
		m := requirementText.FindStringSubmatch(part)
		if m == nil {
			return l, fmt.Errorf("cannot read %.100q: want key=value, key!=value, key in (a,b), key notin (a,b), "+
				"key or !key", part)
		}
		r := Requirement{Key: m[2] + m[3] + m[6]}
		r.Operator = map[string]string{"": opExists, "!": opNotExists, "=": opIn, "==": opIn, "!=": opNotIn,
			"in": opIn, "notin": opNotIn}[m[1]+m[4]+m[7]]
		if m[4] != "" {
			r.Values = []string{m[5]}
		}
		if m[7] != "" {
			for v := range strings.SplitSeq(m[8], ",") {
				r.Values = append(r.Values, strings.TrimSpace(v))
			}
		}
		l.MatchExpressions = append(l.MatchExpressions, r)
	}
	return l, nil
}
