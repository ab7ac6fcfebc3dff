package labels

import (
	"fmt"
	"regexp"
	"strings"
)

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
