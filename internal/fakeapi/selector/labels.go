// Package selector parses and matches the label and field selectors of LIST, WATCH and deletecollection, with the API
// server's full grammar and messages. Its functions are pure: no goroutine, no state, no HTTP.
package selector

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
	for _, r := range s {
		if !r.matches(labels) {
			return false
		}
	}
	return true
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
	for {
		switch tok := p.peek(); {
		case tok.kind == tokenEnd:
			return out, nil
		case tok.kind != tokenWord && tok.text != "!":
			return nil, fmt.Errorf("found '%s', expected: !, identifier, or 'end of string'", tok.text)
		}
		r, err := p.requirement()
		if err != nil {
			return nil, fmt.Errorf("unable to parse requirement: %w", err)
		}
		out = append(out, r)
		switch tok := p.next(); {
		case tok.kind == tokenEnd:
			return out, nil
		case tok.text != ",":
			return nil, fmt.Errorf("found '%s', expected: ',' or 'end of string'", tok.text)
		}
		if tok := p.peek(); tok.kind != tokenWord && tok.text != "!" {
			return nil, fmt.Errorf("found '%s', expected: identifier after ','", tok.text)
		}
	}
}

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenSymbol // ! = == != < > ( ) ,
)

type token struct {
	kind tokenKind
	text string
}

const symbols = "=!(),<>"

func scanLabels(s string) []token {
	var out []token
	for i := 0; i < len(s); {
		switch {
		case strings.IndexByte(" \t\r\n", s[i]) >= 0:
			i++
		case strings.IndexByte(symbols, s[i]) >= 0:
			n := 1
			if two := s[i:min(i+2, len(s))]; two == "==" || two == "!=" {
				n = 2
			}
			out = append(out, token{tokenSymbol, s[i : i+n]})
			i += n
		default:
			end := i
			for end < len(s) && strings.IndexByte(symbols+" \t\r\n", s[end]) < 0 {
				end++
			}
			out = append(out, token{tokenWord, s[i:end]})
			i = end
		}
	}
	return append(out, token{kind: tokenEnd})
}

type labelParser struct {
	tokens []token
	at     int
}

func (p *labelParser) peek() token { return p.tokens[min(p.at, len(p.tokens)-1)] }

func (p *labelParser) next() token {
	t := p.peek()
	p.at++
	return t
}

func (p *labelParser) requirement() (requirement, error) {
	key, absent := p.next(), false
	if key.text == "!" {
		key, absent = p.next(), true
	}
	if key.kind != tokenWord {
		return requirement{}, fmt.Errorf("found '%s', expected: identifier", key.text)
	}
	if why := QualifiedName(key.text); why != nil {
		return requirement{}, fmt.Errorf("<nil>: Invalid value: %q: %s", key.text, strings.Join(why, "; "))
	}
	if absent {
		return requirement{key: key.text, op: "!"}, nil
	}
	if t := p.peek(); t.kind == tokenEnd || t.text == "," {
		return requirement{key: key.text, op: "exists"}, nil
	}
	r := requirement{key: key.text}
	var err error
	switch op := p.next(); op.text {
	case "in", "notin":
		r.op = op.text
		r.values, err = p.set()
	case "=", "==":
		r.op = "in"
		r.values, err = p.single()
	case "!=":
		r.op = "notin"
		r.values, err = p.single()
	case ">", "<":
		r.op = map[string]string{">": "gt", "<": "lt"}[op.text]
		r.values, err = p.single()
	default:
		err = fmt.Errorf("found '%s', expected: in, notin, =, ==, !=, gt, lt", op.text)
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
	if t := p.peek(); t.kind == tokenEnd || t.text == "," {
		return []string{""}, nil
	}
	if t := p.next(); t.kind != tokenWord {
		return nil, fmt.Errorf("found '%s', expected: identifier", t.text)
	}
	return []string{p.tokens[p.at-1].text}, nil
}

// set parses `(a, b)`. An empty item is the empty value: `(a,)` matches a and "".
func (p *labelParser) set() ([]string, error) {
	if t := p.next(); t.text != "(" {
		return nil, fmt.Errorf("found '%s' expected: '('", t.text)
	}
	var values []string
	value := ""
	for {
		switch t := p.next(); {
		case t.kind == tokenWord:
			value = t.text
			if t := p.peek(); t.text != "," && t.text != ")" {
				return nil, fmt.Errorf("found '%s', expected: ',' or ')'", t.text)
			}
		case t.text == "," || t.text == ")":
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
			if value = ""; t.text == ")" {
				slices.Sort(values)
				return values, nil
			}
		case len(values) == 0:
			return nil, fmt.Errorf("found '%s', expected: ',', ')' or identifier", t.text)
		default:
			return nil, fmt.Errorf("found '%s', expected: ',', or identifier", t.text)
		}
	}
}
