package kube

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// The errors of values say nothing of their content.
var (
	errNotText   = errors.New("not a valid JSON string")
	errNotBase64 = errors.New("not valid base64")
	errNotNull   = errors.New("not valid JSON")
)

// digestValue hashes the next value, a string or null, without ever having the value in one piece.
func digestValue(s *scanner, encoded bool) (Digest, error) {
	c, err := s.peek()
	if err != nil {
		return Digest{}, err
	}
	if s.digester == nil {
		s.digester = &digester{}
	}
	d, from, valid := s.digester, s.offset(), true
	d.begin(encoded)
	switch c {
	case '"':
		s.pos++
		valid, err = digestString(s, d)
	case 'n':
		var text []byte
		if text, err = s.value(); err == nil && string(text) != "null" {
			err = &misfit{err: errNotNull}
		}
	default:
		err = cmp.Or(s.skip(), wrongKind('"', []byte{c}))
	}
	s.hashed += int(s.offset() - from)
	sum, inBase64 := d.end()
	switch {
	case err != nil:
		return Digest{}, err
	case !valid:
		return Digest{}, &misfit{err: errNotText}
	case !inBase64:
		return Digest{}, &misfit{err: errNotBase64}
	}
	return sum, nil
}

// digestString hashes the rest of a string behind the opening quote. valid is false, and the string skipped, for a
// string that JSON does not allow.
func digestString(s *scanner, d *digester) (valid bool, err error) {
	for {
		n := plainText(s.buf[s.pos:s.end])
		d.add(s.buf[s.pos : s.pos+n])
		s.pos += n
		if err := ahead(s, 1); err != nil {
			return false, err
		}
		switch c := s.buf[s.pos]; {
		case c == '"':
			s.pos++
			return true, nil
		case c < ' ':
			return false, s.skipString()
		case c == '\\':
			r, valid, err := escaped(s)
			if err != nil {
				return false, err
			} else if !valid {
				return false, s.skipString()
			}
			d.addRune(r)
		case c >= utf8.RuneSelf:
			for n := 2; !utf8.FullRune(s.buf[s.pos:s.end]); n++ {
				if err := ahead(s, n); err != nil {
					return false, err
				}
			}
			r, n := utf8.DecodeRune(s.buf[s.pos:s.end])
			d.addRune(r)
			s.pos += n
		}
	}
}

// plainText returns how many bytes of b are ahead of the first that ends a string, begins an escape, or is not
// printable ASCII, eight at a time like stringEnd.
func plainText(b []byte) (i int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, escape := w^ones*'"', w^ones*'\\'
		found := (quote-ones)&^quote | (escape-ones)&^escape | (w-ones*' ')&^w | w
		if found &= tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// ahead has n bytes in the buffer.
func ahead(s *scanner, n int) error {
	for s.end-s.pos < n {
		if err := s.fill(); err != nil {
			return err
		}
	}
	return nil
}

// escapes are the characters that follow a backslash, and their meanings.
var escapes = [utf8.RuneSelf]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r',
	't': '\t'}

// escaped reads an escape, as encoding/json does: half of a surrogate pair is U+FFFD. An invalid escape is still to
// come.
func escaped(s *scanner) (r rune, valid bool, err error) {
	if err := ahead(s, 2); err != nil {
		return 0, false, err
	}
	c := s.buf[s.pos+1]
	if c == 'u' {
		return escapedUnit(s)
	}
	if c >= utf8.RuneSelf || escapes[c] == 0 {
		return 0, false, nil
	}
	s.pos += 2
	return escapes[c], true, nil
}

// escapedUnit reads \uXXXX, or two for a surrogate pair.
func escapedUnit(s *scanner) (r rune, valid bool, err error) {
	r, valid, err = unit(s)
	if err != nil || !valid {
		return 0, false, err
	}
	s.pos += len(`\uXXXX`)
	if !utf16.IsSurrogate(r) {
		return r, true, nil
	}
	if err := ahead(s, 1); err != nil || s.buf[s.pos] != '\\' {
		return utf8.RuneError, true, err
	}
	if err := ahead(s, 2); err != nil || s.buf[s.pos+1] != 'u' {
		return utf8.RuneError, true, err
	}
	low, valid, err := unit(s)
	if r = utf16.DecodeRune(r, low); err == nil && valid && r != utf8.RuneError {
		s.pos += len(`\uXXXX`)
		return r, true, nil
	}
	return utf8.RuneError, true, err
}

// unit returns the number of the next \uXXXX, without passing over it.
func unit(s *scanner) (r rune, valid bool, err error) {
	for i := range 4 {
		if err := ahead(s, i+3); err != nil {
			return 0, false, err
		}
		c := s.buf[s.pos+i+2]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|' ' >= 'a' && c|' ' <= 'f':
			c = c | ' ' - 'a' + 10
		default:
			return 0, false, nil
		}
		r = r<<4 | rune(c)
	}
	return r, true, nil
}

// addText adds text of which more is to come, unless last, and returns how many bytes: not an incomplete character at
// the end. As in JSON, invalid UTF-8 becomes U+FFFD.
func addText(d *digester, b []byte, last bool) (n int) {
	for n < len(b) {
		from := n
		for n < len(b) && b[n] < utf8.RuneSelf {
			n++
		}
		if d.add(b[from:n]); n == len(b) || !last && !utf8.FullRune(b[n:]) {
			break
		}
		r, size := utf8.DecodeRune(b[n:])
		d.addRune(r)
		n += size
	}
	return n
}
