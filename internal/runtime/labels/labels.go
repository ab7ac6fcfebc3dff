// Package labels has label selectors as the API takes them and as kubectl does: checked, printed, and matched with the
// labels of an object.
//
// Its job is what a user may select by; which objects are looked through is the caller's. The embedded server has its
// own selectors (package apiserver/selector), so that it does not share a mistake of this one. Place on the event
// path: none. Pure functions on the caller's goroutine.
package labels

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"skiff/internal/runtime/kube"
)

// The operators of a requirement.
const (
	opIn        = "In"
	opNotIn     = "NotIn"
	opExists    = "Exists"
	opNotExists = "DoesNotExist"
)

// maxValues bounds the labels and values that a selector names: each event of an object is compared with some of them.
const maxValues = 200

var labelValue = sync.OnceValue(func() *regexp.Regexp { // 60 KB that skiff run may never need
	return regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
})

// validKey says whether s can be the key of a label: a name, with or without a DNS name before it.
func validKey(s string) bool {
	prefix, name, ok := strings.Cut(s, "/")
	if !ok {
		prefix, name = "x", s
	}
	return kube.ValidName(prefix) && name != "" && labelValue().MatchString(name)
}

// Selector is a label selector as the API has it.
type Selector struct {
	MatchLabels      kube.Labels   `json:"matchLabels"`
	MatchExpressions []Requirement `json:"matchExpressions"`
}

// Requirement is one condition on a label.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // In, NotIn, Exists, DoesNotExist
	Values   []string `json:"values"`
}

// Requirements is a selector as it is matched: all of them must hold.
type Requirements []Requirement

// Requirements returns the same in one form, unchecked.
func (s *Selector) Requirements() Requirements {
	all := make(Requirements, 0, len(s.MatchLabels)+len(s.MatchExpressions))
	for _, m := range s.MatchLabels {
		all = append(all, Requirement{Key: m.Key, Operator: opIn, Values: []string{m.Value}})
	}
	return append(all, s.MatchExpressions...)
}

// Check refuses what a server would refuse, and more values than an event of an object should be compared with.
func (s Requirements) Check() error {
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
	return nil
}

// Positive says whether an object is selected only by having a label: not each one that lacks some.
func (s Requirements) Positive() bool { return slices.ContainsFunc(s, Requirement.positive) }

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
		if !labelValue().MatchString(v) {
			return fmt.Errorf("%s: %.100q is not the value of a label", r.Key, v)
		}
	}
	return nil
}

// Match says whether something with these labels is selected.
func (s Requirements) Match(labels kube.Labels) bool {
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
func (s Requirements) String() string {
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

// Terms returns labels of which each selected object has one: the values of the requirement that names the fewest,
// "app=web", or its key if it is Exists. An index by labels finds the objects by them.
func (s Requirements) Terms() (terms []string) {
	var best *Requirement
	for i, r := range s {
		fewer := best == nil || best.Operator == opExists || r.Operator == opIn && len(r.Values) < len(best.Values)
		if r.positive() && fewer {
			best = &s[i]
		}
	}
	switch {
	case best == nil:
		return nil
	case best.Operator == opExists:
		return []string{best.Key}
	}
	for _, v := range best.Values {
		terms = append(terms, best.Key+"="+v)
	}
	return terms
}

// requirementText is one part of a selector in kubectl's form: "key" or "!key", "key=value", "key in (a,b)".
var requirementText = regexp.MustCompile(
	`^\s*(?:(!?)\s*([^\s!=(),]+)|([^\s!=(),]+)\s*(==?|!=)\s*([^\s!=(),]*)|([^\s!=(),]+)\s+(in|notin)\s*\(([^()]*)\))\s*$`)

// Parse reads and checks the form of `kubectl get -l`: a=b, a==b, a!=b, a in (b,c), a notin (b,c), a, !a.
func Parse(text string) (s Selector, err error) {
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
			return s, fmt.Errorf("cannot read %.100q: want key=value, key!=value, key in (a,b), key notin (a,b), "+
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
		if err := r.check(); err != nil {
			return s, err
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s, nil
}

// FormatSet returns labels as one line, "app=web,tier=front": as many of the first as fit into maxBytes.
func FormatSet(set kube.Labels, maxBytes int) string {
	var parts []string
	size := 0
	for _, l := range set {
		if size += len(l.Key) + len(l.Value) + 2; size <= maxBytes {
			parts = append(parts, l.Key+"="+l.Value)
		}
	}
	return strings.Join(parts, ",")
}

// ParseSet reads what FormatSet has written.
func ParseSet(text string) (set kube.Labels) {
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			set = append(set, kube.Label{Key: key, Value: value})
		}
	}
	return set
}
