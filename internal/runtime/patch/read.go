package patch

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reader reads JSON as in RFC 8259. A string with invalid UTF-8 or half of a surrogate pair is an error, unless
// replace is set.
type reader struct {
	data    []byte
	pos     int
	seen    *seen // nil: strings are made anew
	replace bool  // by U+FFFD, each invalid byte, like encoding/json
}

// seen holds recently read strings, by a hash of three of their bytes and their length: names of fields and short
// values repeat in every object.
type seen [256]string

// maxSeen is the length of the longest string worth a comparison.
const maxSeen = 32

// of returns text as a string.
func (s *seen) of(text []byte) string {
	n := len(text)
	if s == nil || n == 0 || n > maxSeen {
		return string(text)
	}
	at := &s[(int(text[0])*7+int(text[n/2])*31+int(text[n-1])*61+n)%len(s)]
	if *at != string(text) {
		*at = string(text)
	}
	return *at
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// unexpected is the error about the next byte.
func (r *reader) unexpected(where string) error {
	if r.pos >= len(r.data) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("unexpected %q %s, at byte %d", r.data[r.pos], where, r.pos)
}

// word passes over true, false or null.
func (r *reader) word(word string) error {
	for i := range len(word) {
		if r.pos == len(r.data) || r.data[r.pos] != word[i] {
			return r.unexpected("where a value should be")
		}
		r.pos++
	}
	return nil
}

// number reads the only kind of value left: int64 where possible, else float64.
func (r *reader) number() (any, error) {
	from := r.pos
	for r.pos < len(r.data) && strings.IndexByte("+-.0123456789Ee", r.data[r.pos]) >= 0 {
		r.pos++
	}
	if r.pos == from {
		return nil, r.unexpected("where a value should be")
	}
	text := string(r.data[from:r.pos])
	if !json.Valid(r.data[from:r.pos]) {
		return nil, fmt.Errorf("%.40q is no number, at byte %d", text, from)
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %.40q: out of range", text)
	}
	return f, nil
}

// more skips the comma between the values of an object or list, or the closing bracket.
func (r *reader) more(closing byte, first bool) (bool, error) {
	switch c := r.peek(); {
	case c == closing:
		r.pos++
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, r.unexpected("where a comma or the end should be")
	}
	r.pos++
	return true, nil
}

// name reads the name of the next member of an object, and the following colon.
func (r *reader) name(first bool) (name string, ok bool, err error) {
	if ok, err = r.more('}', first); !ok || err != nil {
		return "", false, err
	}
	if r.peek() != '"' {
		return "", false, r.unexpected("where a name should be")
	}
	if name, err = r.text(); err != nil {
		return "", false, err
	}
	if r.peek() != ':' {
		return "", false, r.unexpected("where a colon should be")
	}
	r.pos++
	return name, true, nil
}

// text reads a string, starting at the opening quote.
func (r *reader) text() (string, error) {
	r.pos++
	from, escaped := r.pos, []byte(nil)
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; {
		case c == '"':
			text := r.data[from:r.pos]
			if escaped != nil {
				text = append(escaped, text...)
			}
			switch {
			case utf8.Valid(text):
			case r.replace:
				text = []byte(string([]rune(string(text))))
			default:
				return "", fmt.Errorf("a string that is not UTF-8, before byte %d", r.pos)
			}
			r.pos++
			return r.seen.of(text), nil
		case c == '\\':
			char, n := unescape(r.data[r.pos:])
			if n == 0 && r.replace && hex(r.data[r.pos:]) >= 0 {
				char, n = utf8.RuneError, len(`\ud800`)
			}
			if n == 0 {
				return "", r.unexpected("that escapes no character")
			}
			escaped = utf8.AppendRune(append(escaped, r.data[from:r.pos]...), char)
			from = r.pos + n
			r.pos = from - 1
		case c < ' ':
			return "", r.unexpected("in a string")
		}
	}
	return "", io.ErrUnexpectedEOF
}

// unescape returns the character escaped at the beginning of b and the length of the escape; 0 if there is none.
func unescape(b []byte) (char rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, b[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	switch char = hex(b); {
	case char < 0:
		return 0, 0
	case !utf16.IsSurrogate(char):
		return char, 6
	}
	if char = utf16.DecodeRune(char, hex(b[6:])); char == utf8.RuneError {
		return 0, 0
	}
	return char, 12
}

// hex returns the code at the beginning of b, such as \u12ab; -1 if there is none.
func hex(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
