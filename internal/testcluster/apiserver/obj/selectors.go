package obj

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Labels is a parsed label selector; the zero value matches everything.
type Labels []requirement

type requirement struct {
	key, op string // op: in, notin, exists, !, gt, lt; = and == are in, != is notin
	values  []string
}

// Matches reports whether the selector matches these labels.
func (s Labels) Matches(labels map[string]string) bool {
	return !slices.ContainsFunc(s, func(r requirement) bool { return !r.matches(labels) })
}

func (r requirement) matches(labels map[string]string) bool {
	v, ok := labels[r.key]
	switch r.op {
	case "in":
		return ok && slices.Contains(r.values, v)
	case "notin":
		return !ok || !slices.Contains(r.values, v)
	case "exists":
		return ok
	case "!":
		return !ok
	}
	n, err := strconv.ParseInt(v, 10, 64)
	limit, _ := strconv.ParseInt(r.values[0], 10, 64) // checked by the parser
	if !ok || err != nil {
		return false
	}
	return r.op == "gt" && n > limit || r.op == "lt" && n < limit
}

// ParseLabels parses a selector such as `app=web,tier in (a,b),!old,generation>3`.
func ParseLabels(s string) (Labels, error) {
	p := &labelParser{tokens: scanLabels(s)}
	var out Labels
	if tok := p.peek(); tok != "" && !isWord(tok) && tok != "!" {
		return nil, fmt.Errorf("found '%s', expected: !, identifier, or 'end of string'", tok)
	}
	for p.peek() != "" {
		r, err := p.requirement()
		if err != nil {
			return nil, fmt.Errorf("unable to parse requirement: %w", err)
		}
		out = append(out, r)
		switch tok := p.next(); tok {
		case "":
			return out, nil
		case ",":
		default:
			return nil, fmt.Errorf("found '%s', expected: ',' or 'end of string'", tok)
		}
		if tok := p.peek(); !isWord(tok) && tok != "!" {
			return nil, fmt.Errorf("found '%s', expected: identifier after ','", tok)
		}
	}
	return out, nil
}

// symbols are the characters of the tokens that are no words: ! = == != < > ( ) ,
const symbols = "=!(),<>"

func isWord(token string) bool { return token != "" && strings.IndexByte(symbols, token[0]) < 0 }

func scanLabels(s string) (tokens []string) {
	for s = strings.TrimLeft(s, " \t\r\n"); s != ""; s = strings.TrimLeft(s, " \t\r\n") {
		size := 1
		switch {
		case strings.HasPrefix(s, "==") || strings.HasPrefix(s, "!="):
			size = 2
		case isWord(s):
			if size = strings.IndexAny(s, symbols+" \t\r\n"); size < 0 {
				size = len(s)
			}
		}
		tokens, s = append(tokens, s[:size]), s[size:]
	}
	return tokens
}

// labelParser reads tokens; "" is the end.
type labelParser struct{ tokens []string }

func (p *labelParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *labelParser) next() string {
	t := p.peek()
	p.tokens = p.tokens[min(1, len(p.tokens)):]
	return t
}

func (p *labelParser) requirement() (requirement, error) {
	key, absent := p.next(), false
	if key == "!" {
		key, absent = p.next(), true
	}
	if !isWord(key) {
		return requirement{}, fmt.Errorf("found '%s', expected: identifier", key)
	}
	if why := QualifiedName(key); why != nil {
		return requirement{}, fmt.Errorf("<nil>: Invalid value: %q: %s", key, strings.Join(why, "; "))
	}
	if absent {
		return requirement{key: key, op: "!"}, nil
	}
	if t := p.peek(); t == "" || t == "," {
		return requirement{key: key, op: "exists"}, nil
	}
	r := requirement{key: key}
	var err error
	switch op := p.next(); op {
	case "in", "notin":
		r.op = op
		r.values, err = p.set()
	case "=", "==", "!=", ">", "<":
		r.op = map[string]string{"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}[op]
		r.values, err = p.single()
	default:
		err = fmt.Errorf("found '%s', expected: in, notin, =, ==, !=, gt, lt", op)
	}
	if err != nil {
		return requirement{}, err
	}
	return r, r.check()
}

func (r requirement) check() error {
	for i, v := range r.values {
		if r.op == "gt" || r.op == "lt" {
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				return fmt.Errorf(
					"values[%d]: Invalid value: %q: for 'Gt', 'Lt' operators, the value must be an integer", i, v)
			}
		}
		if why := LabelValue(v); why != "" {
			return fmt.Errorf("values[%d][%s]: Invalid value: %q: %s", i, r.key, v, why)
		}
	}
	return nil
}

func (p *labelParser) single() ([]string, error) {
	if t := p.peek(); t == "" || t == "," {
		return []string{""}, nil
	}
	t := p.next()
	if !isWord(t) {
		return nil, fmt.Errorf("found '%s', expected: identifier", t)
	}
	return []string{t}, nil
}

// set parses `(a, b)`. An empty item is the empty value: `(a,)` matches a and "".
func (p *labelParser) set() ([]string, error) {
	if t := p.next(); t != "(" {
		return nil, fmt.Errorf("found '%s' expected: '('", t)
	}
	var values []string
	value := ""
	for {
		switch t := p.next(); {
		case isWord(t):
			value = t
			if t := p.peek(); t != "," && t != ")" {
				return nil, fmt.Errorf("found '%s', expected: ',' or ')'", t)
			}
		case t == "," || t == ")":
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
			if value = ""; t == ")" {
				slices.Sort(values)
				return values, nil
			}
		case len(values) == 0:
			return nil, fmt.Errorf("found '%s', expected: ',', ')' or identifier", t)
		default:
			return nil, fmt.Errorf("found '%s', expected: ',', or identifier", t)
		}
	}
}

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
func (s Fields) Names() []string { return Each(s, func(t term) string { return t.field }) }

// Matches reports whether the selector matches an object; value returns a field of it, "" if it has none.
func (s Fields) Matches(value func(field string) string) bool {
	return !slices.ContainsFunc(s, func(t term) bool { return (value(t.field) == t.value) == t.not })
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
