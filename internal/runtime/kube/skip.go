package kube

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
)

// skip passes over the next value.
func (s *scanner) skip() error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	switch c {
	case '"':
		s.pos++
		return s.skipString()
	case '{', '[':
		return s.skipNested()
	}
	return s.skipScalar()
}

// skipString passes over the rest of a string.
func (s *scanner) skipString() error {
	for {
		next, done := stringEnd(s.buf[:s.end], s.pos)
		s.pos = next
		if done {
			return nil
		}
		if err := s.fill(); err != nil {
			return err
		}
	}
}

// stringEnd searches b[i:], the rest of a string, for the closing quote, and returns the index behind; or, if b ends
// first, the index to go on from, which is a backslash at the end of b. Eight bytes are examined at a time: most
// strings are longer, and too short for a call of bytes.IndexByte.
func stringEnd(b []byte, i int) (next int, done bool) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for {
		for ; i+8 <= len(b); i += 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, escape := w^ones*'"', w^ones*'\\' // zero in the bytes that are one
			// The lowest top bit set here is at the first zero byte (Hacker's Delight, 6-1).
			if found := ((quote-ones)&^quote | (escape-ones)&^escape) & tops; found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' {
			i++
		}
		switch {
		case i == len(b):
			return i, false
		case b[i] == '"':
			return i + 1, true
		case i+1 == len(b):
			return i, false
		}
		i += 2
	}
}

// skipNested passes over an object or array, of which the opening bracket is next. Most bytes of a list go
// through here.
func (s *scanner) skipNested() error {
	depth := len(s.open)
	buf, i := s.buf[:s.end], s.pos
	for {
		if i == len(buf) {
			s.pos = i
			if err := s.fill(); err != nil {
				return err
			}
			buf, i = s.buf[:s.end], s.pos
		}
		c := buf[i]
		i++
		var err error
		switch c {
		case '"':
			var done bool
			if i, done = stringEnd(buf, i); !done {
				s.pos = i
				err = s.skipString()
				buf, i = s.buf[:s.end], s.pos
			}
		case '{', '[':
			s.push(c)
		case '}', ']':
			if err = s.pop(c); len(s.open) == depth {
				s.pos = i
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// skipScalar passes over a number, true, false, null, or an invalid value, up to the next delimiter.
func (s *scanner) skipScalar() error {
	for n := 0; ; n++ {
		if s.pos == s.end {
			if err := s.fill(); n > 0 && len(s.open) == 0 && s.err == io.EOF {
				return nil // the text ends with the value
			} else if err != nil {
				return err
			}
		}
		switch c := s.buf[s.pos]; c {
		case ' ', '\n', '\t', '\r', ',', ':', '{', '}', '[', ']', '"':
			if n == 0 {
				return fmt.Errorf("unexpected %q in JSON, want a value", c)
			}
			return nil
		}
		s.pos++
	}
}
