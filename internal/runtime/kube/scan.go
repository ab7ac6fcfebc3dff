package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"
)

// maxDepth bounds the nesting of declared values, counted from the object: the deepest Kubernetes type, a pod in a
// template in a template, has 20 levels, a schema in a definition of custom resources a few more. Undeclared values
// may be nested to any depth: skipping takes a byte for each level.
const maxDepth = 100

// scanner takes JSON values off a stream, independent of how the bytes arrive, and looks at each byte once: an
// undeclared value is skipped while being read, and never in memory as a whole.
//
// Skipping finds the end of a value: strings and brackets are followed, the grammar between is not, and so `{"a" "b"}`
// or a number `1.2.3` pass if undeclared. Declared values are checked in full.
//
// Any error of a method except a *misfit is the end of the stream.
type scanner struct {
	input
	name []byte // the last name read by member, in quotes; good until the next call
	open []byte // the open brackets, outermost first
	base int    // the open brackets at the start of the present frame
	deep int    // depth of the last skipped value, below base

	want expected
	kind string // kind of the present object
	top  int    // number of open brackets among the members of the object; 0: outside
	// skimmed: the metadata was decoded and the reader wants no more of the object.
	skimmed bool
	headed  bool // the metadata is complete

	digester *digester // nil: no digest was declared so far
	hashed   int       // bytes of the present object read for digests alone
}

func newScanner(r io.Reader) *scanner { return &scanner{input: newInput(r)} }

// begin waits for the next frame, an event or a list item, and resets the size cap. io.EOF: no more frames.
func (s *scanner) begin() error {
	s.frame, s.kept, s.beyond = s.offset(), 0, 0
	s.base = len(s.open)
	if s.shrink(cap(s.open) > firstBuffer) {
		s.open = append(make([]byte, 0, 16), s.open...)
	}
	_, err := s.peek()
	if err != nil && s.err == io.EOF {
		return io.EOF
	}
	return err
}

// peek passes over white space and returns the first byte of what follows.
func (s *scanner) peek() (byte, error) {
	for {
		for ; s.pos < s.end; s.pos++ {
			switch c := s.buf[s.pos]; c {
			case ' ', '\n', '\t', '\r':
			default:
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// push notes an opened bracket, pop a closed one.
func (s *scanner) push(c byte) {
	s.open = append(s.open, c)
	if depth := len(s.open) - s.base; depth > s.deep {
		s.deep = depth
		s.large = s.large || depth > firstBuffer
	}
}

func (s *scanner) pop(c byte) error {
	last := len(s.open) - 1
	if last < 0 || s.open[last]+2 != c { // in ASCII, ] and } are two behind [ and {
		return fmt.Errorf("unexpected %q in JSON", c)
	}
	s.open = s.open[:last]
	return nil
}

// value returns the next value in one piece, good until the next call. A value nested too deep, or too long to be
// kept, is a misfit.
func (s *scanner) value() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	s.start, s.deep = s.pos, 0
	from := s.offset()
	err := s.skip()
	n, room := int(s.offset()-from), 0
	if n <= shortValue {
		room = nameRoom
	}
	if !s.admits(n, room) || s.start < 0 {
		s.start = -1
		return nil, cmp.Or(err, errLarge())
	}
	v := s.buf[s.start:s.pos]
	s.start = -1
	if err == nil && s.deep > maxDepth {
		err = errDeep()
	}
	return v, err
}

// enter passes over the bracket c, which opens an object or array. ok is false, and the value skipped, if there is
// another value: with a misfit, unless null.
func (s *scanner) enter(c byte) (ok bool, err error) {
	first, err := s.peek()
	if err != nil {
		return false, err
	}
	if first == c && len(s.open)-s.base >= maxDepth {
		return false, cmp.Or(s.skip(), errDeep())
	}
	if first == c {
		s.pos++
		s.push(c)
		return true, nil
	}
	v, err := s.value()
	if err == nil && string(v) != "null" {
		err = wrongKind(c, v)
	}
	return false, err
}

// more passes over the separator before the next value of an object or array, or over the bracket c at the end.
func (s *scanner) more(c byte, first bool) (bool, error) {
	next, err := s.peek()
	switch {
	case err != nil:
		return false, err
	case next == c:
		s.pos++
		return false, s.pop(c)
	case first:
		return true, nil
	case next != ',':
		return false, fmt.Errorf("unexpected %q in JSON, want a comma or %q", next, c)
	}
	s.pos++
	return true, nil
}

// member moves to the next member of an object and returns the name, good until the next call. ok is false behind the
// last member. With ok, an error is a misfit: the name is no text, and the value is next.
func (s *scanner) member(first bool) (name []byte, ok bool, err error) {
	if ok, err = s.more('}', first); !ok || err != nil {
		return nil, false, err
	}
	c, err := s.peek()
	if err != nil || c != '"' {
		return nil, false, cmp.Or(err, fmt.Errorf("unexpected %q in JSON, want a name", c))
	}
	s.start = s.pos
	from := s.offset()
	s.pos++
	if err = s.skipString(); err != nil {
		return nil, false, err
	}
	n := int(s.offset() - from)
	if c, err = s.peek(); err != nil || c != ':' {
		return nil, false, cmp.Or(err, fmt.Errorf("unexpected %q in JSON, want a colon", c))
	}
	s.pos++
	if s.start < 0 {
		s.name = nil
		s.beyond += n
		return nil, true, errLarge()
	}
	s.name = s.buf[s.start : s.start+n]
	name, err = unquote(s.name)
	s.start = -1
	if err == nil && s.top == len(s.open) && string(name) == "kind" {
		return s.noteKind()
	}
	return name, true, err
}

// noteKind peeks at the next value, of the member "kind", if the value is a text.
func (s *scanner) noteKind() (name []byte, ok bool, err error) {
	c, err := s.peek()
	if err == nil && c == '"' {
		var text []byte
		if text, err = s.value(); err != nil {
			return nil, false, broken("kind", err)
		}
		kind, _ := unquote(text) // the reader of the value has the error
		s.kind = interned.of(kind)
		s.pos -= len(text)
		s.kept -= len(text)
	}
	s.name = kindName // the bytes may have moved
	return kindName[1 : len(kindName)-1], err == nil, err
}

var kindName = []byte(`"kind"`)

// unquote returns the content of a string, or a misfit. Invalid UTF-8 becomes U+FFFD.
func unquote(v []byte) ([]byte, error) {
	body := v[1 : len(v)-1]
	for _, c := range body {
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			var text string
			if err := json.Unmarshal(v, &text); err != nil {
				return nil, &misfit{err: err}
			}
			return []byte(text), nil
		}
	}
	return body, nil
}

// enterInto is enter for a value decoded into v; null makes v zero.
func (s *scanner) enterInto(c byte, v reflect.Value) (ok bool, err error) {
	if ok, err = s.enter(c); !ok && err == nil {
		v.SetZero()
	}
	return ok, err
}

// enterObject is enter for an object.
func (s *scanner) enterObject() error {
	ok, err := s.enter('{')
	if ok || err != nil {
		return err
	}
	return wrongKind('{', []byte("null"))
}
