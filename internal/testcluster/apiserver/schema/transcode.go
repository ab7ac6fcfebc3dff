package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
)

// An object is encoded from its JSON as it is stored, in one pass: to decode that first takes fifty times as long, and
// ten times its memory.

// Encoder encodes objects one after the other. It reuses its memory. The zero value is ready.
type Encoder struct {
	Known []Span // values of free JSON, which are not read to find their ends

	json  []byte
	pos   int
	out   []byte
	parts []part // of the open messages
}

// Span is where a value is in the JSON of an object.
type Span struct{ From, To int }

// Append appends the fields of an object of type t, of which json is what package patch wrote.
func (e *Encoder) Append(out []byte, t *Type, json []byte) ([]byte, error) {
	e.json, e.pos, e.out, e.parts = json, 0, out, e.parts[:0]
	err := e.message(t.layout())
	return e.out, err
}

// message encodes the object that is next, without a tag.
func (e *Encoder) message(m *layout) error {
	start, base := len(e.out), len(e.parts)
	e.parts = slices.Grow(e.parts, len(m.named))[:base+len(m.named)]
	clear(e.parts[base:])
	for e.pos++; ; {
		name, ok, err := e.name()
		if err != nil {
			return err
		} else if !ok {
			break
		}
		f, known := m.named[string(name)]
		if !known || e.next() == 'n' {
			e.skip()
			continue
		}
		from := len(e.out)
		if err := e.value(f.Value, f.number); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(e.out) > from {
			e.parts[base+f.part] = part{from, len(e.out)}
		}
	}
	made := len(e.out)
	e.out = m.append(e.out, e.parts[base:])
	e.out = e.out[:start+copy(e.out[start:], e.out[made:])]
	e.parts = e.parts[:base]
	return nil
}

// value encodes the value that is next, under a number.
func (e *Encoder) value(f *Value, number uint64) (err error) {
	c := e.next()
	switch {
	case c == 'n':
		e.skip()
		e.out = appendBytes(e.out, number, nil)
	case f.Form == Any && f.Type == nil: // free JSON
		from := e.pos
		if i := slices.IndexFunc(e.Known, func(s Span) bool { return s.From == from }); i >= 0 {
			e.pos = e.Known[i].To
		} else {
			e.skip()
		}
		e.out = openMessage(e.out, number)
		at := len(e.out)
		e.out = closeMessage(appendBytes(e.out, 1, e.json[from:e.pos]), at)
	case f.Form == Struct && c == '{':
		e.out = openMessage(e.out, number)
		at := len(e.out)
		err = e.message(f.Type.layout())
		e.out = closeMessage(e.out, at)
	case f.Form == List && c == '[':
		e.pos++
		for err == nil && e.more() {
			err = e.value(f.Elem, number)
		}
	case f.Form == Map && c == '{':
		err = e.members(f.Elem, number)
	case c == '"':
		var text []byte
		if text, err = e.text(); err == nil {
			err = e.ofText(f, number, text)
		}
	default:
		from := e.pos
		e.skip()
		err = e.ofWord(f, number, string(e.json[from:e.pos]))
	}
	return err
}

// members encodes an object whose names are data, each member as a message of its own.
func (e *Encoder) members(f *Value, number uint64) error {
	for e.pos++; ; {
		name, ok, err := e.name()
		if err != nil || !ok {
			return err
		}
		e.out = openMessage(e.out, number)
		at := len(e.out)
		e.out = appendBytes(e.out, 1, name)
		if f.Form == List { // is in a message, as a member cannot be repeated
			e.out = openMessage(e.out, 2)
			list := len(e.out)
			err = e.value(f, 1)
			e.out = closeMessage(e.out, list)
		} else {
			err = e.value(f, 2)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		e.out = closeMessage(e.out, at)
	}
}

// ofText encodes a string of JSON.
func (e *Encoder) ofText(f *Value, number uint64, text []byte) (err error) {
	if f.Form == String {
		e.out = appendBytes(e.out, number, text)
		return nil
	}
	e.out = openMessage(e.out, number)
	at := len(e.out)
	switch f.Form {
	case Bytes:
		e.out, err = base64.StdEncoding.AppendDecode(e.out, text)
	case Time, MicroTime:
		var t time.Time
		t, err = time.Parse(time.RFC3339, string(text))
		e.out = appendVarint(appendVarint(e.out, 1, uint64(t.Unix())), 2, uint64(t.Nanosecond()))
	case Quantity:
		e.out = appendBytes(e.out, 1, text)
	case IntOrString:
		e.out = appendBytes(appendVarint(appendVarint(e.out, 1, 1), 2, 0), 3, text)
	default:
		err = fmt.Errorf("a string cannot be encoded as %s", f.Word)
	}
	e.out = closeMessage(e.out, at)
	return err
}

// ofWord encodes a number, true or false of JSON.
func (e *Encoder) ofWord(f *Value, number uint64, word string) error {
	switch f.Form {
	case Bool:
		if word == "true" || word == "false" {
			e.out = appendVarint(e.out, number, uint64(len("false")-len(word)))
			return nil
		}
	case Int32, Int64, IntOrString:
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			break
		}
		if f.Form != IntOrString {
			e.out = appendVarint(e.out, number, uint64(n))
			return nil
		}
		e.out = openMessage(e.out, number)
		at := len(e.out)
		e.out = closeMessage(appendBytes(appendVarint(appendVarint(e.out, 1, 0), 2, uint64(n)), 3, nil), at)
		return nil
	case Double:
		v, err := strconv.ParseFloat(word, 64)
		e.out = binary.LittleEndian.AppendUint64(appendTag(e.out, number, fixed64), math.Float64bits(v))
		return err
	}
	return fmt.Errorf("%.20s cannot be encoded as %s", word, f.Word)
}

// next returns the first byte of what is next, 0 at the end. There is no white space in what package patch wrote.
func (e *Encoder) next() byte {
	if e.pos < len(e.json) {
		return e.json[e.pos]
	}
	return 0
}

// more passes over the comma before an item or member, or over the bracket behind the last, and reports which.
func (e *Encoder) more() bool {
	c := e.next()
	if c == ',' || c == ']' || c == '}' {
		e.pos++
	}
	return c != ']' && c != '}' && c != 0
}

// name reads the name of the next member and the colon behind it.
func (e *Encoder) name() (name []byte, ok bool, err error) {
	if !e.more() {
		return nil, false, nil
	}
	name, err = e.text()
	e.pos = min(e.pos+1, len(e.json))
	return name, true, err
}

// text reads a string, which is next.
func (e *Encoder) text() ([]byte, error) {
	from := e.pos
	escaped := e.skipText()
	if quoted := e.json[from:e.pos]; escaped || len(quoted) < len(`""`) {
		v, err := patch.Decode(quoted)
		text, _ := v.(string)
		return []byte(text), err
	}
	return e.json[from+1 : e.pos-1], nil
}

func (e *Encoder) skip() {
	for depth := 0; e.pos < len(e.json); {
		switch e.json[e.pos] {
		case '"':
			e.skipText()
		case '{', '[':
			depth++
			e.pos++
			continue
		case '}', ']':
			depth--
			e.pos++
		default: // a word, or what is between values
			for e.pos++; e.pos < len(e.json) && strings.IndexByte(`"{}[],`, e.json[e.pos]) < 0; {
				e.pos++
			}
		}
		if depth <= 0 {
			return
		}
	}
}

// skipText passes over a string, and reports whether it has escaped characters.
func (e *Encoder) skipText() (escaped bool) {
	for e.pos++; ; escaped = true {
		end := bytes.IndexByte(e.json[e.pos:], '"')
		if end < 0 {
			e.pos = len(e.json)
			return escaped
		}
		backslash := bytes.IndexByte(e.json[e.pos:e.pos+end], '\\')
		if backslash < 0 {
			e.pos += end + 1
			return escaped
		}
		e.pos = min(e.pos+backslash+2, len(e.json))
	}
}
