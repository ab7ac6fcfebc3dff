package schema

import (
	"encoding/binary"
	"maps"
	"slices"
)

// layout is a type as it is written: what it has of each field, in the order of their numbers.
type layout struct {
	fields []layoutField
	named  map[string]layoutField // those of structs that JSON has inline, too
}

type layoutField struct {
	*Value
	number uint64
	part   int     // its place among the parts of the message
	zero   []byte  // what is sent for a field that is not set
	inline *layout // a struct that JSON has inline
}

// layout returns the type as it is written.
func (t *Type) layout() *layout {
	t.once.Do(func() {
		t.written = &layout{named: map[string]layoutField{}}
		t.written.add(t.numbers, t, t.written)
	})
	return t.written
}

// add adds fields to m, whose names are those of the whole. t is nil for a struct that JSON has inline.
func (m *layout) add(n numbers, t *Type, whole *layout) {
	for _, number := range slices.Sorted(maps.Keys(n)) {
		f := layoutField{Value: n[number].Value, number: number, part: len(whole.named)}
		if inner := n[number].inline; inner != nil {
			f.inline = &layout{}
			f.inline.add(inner, nil, whole)
		} else {
			if t != nil && !t.Fields[n[number].name].Pointer {
				f.zero = f.unset(number)
			}
			whole.named[n[number].name] = f
		}
		m.fields = append(m.fields, f)
	}
}

// unset is what is sent for a field that is not a pointer and that JSON does not have, as Go's types do.
func (f *Value) unset(number uint64) []byte {
	switch f.Form {
	case String, Time, MicroTime, Any:
		return appendBytes(nil, number, nil)
	case Bool, Int32, Int64:
		return appendVarint(nil, number, 0)
	case Struct:
		m := f.Type.layout()
		return appendBytes(nil, number, m.append(nil, make([]part, len(m.named))))
	}
	return nil
}

// part is where the encoded value of a field is in the output.
type part struct{ from, to int }

// append appends the fields of a message, of which out has the parts.
func (m *layout) append(out []byte, parts []part) []byte {
	for _, f := range m.fields {
		switch {
		case f.inline != nil:
			out = openMessage(out, f.number)
			at := len(out)
			out = closeMessage(f.inline.append(out, parts), at)
		case parts[f.part].to > 0:
			out = append(out, out[parts[f.part].from:parts[f.part].to]...)
		default:
			out = append(out, f.zero...)
		}
	}
	return out
}

// openMessage starts a message of less than 128 bytes, which follow.
func openMessage(out []byte, number uint64) []byte {
	return append(appendTag(out, number, lengthDelimited), 0)
}

// closeMessage ends the message that starts at an index.
func closeMessage(out []byte, at int) []byte {
	n := len(out) - at
	if n < 0x80 {
		out[at-1] = byte(n)
		return out
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Replace(out, at-1, at, length[:binary.PutUvarint(length[:], uint64(n))]...)
}
