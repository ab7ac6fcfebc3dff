package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Encode encodes an object as DecodeProtobuf reads it, from the JSON that package patch wrote: the fields of t, in the
// envelope of a kind.
func (t *Type) Encode(apiVersion, kind string, json []byte) ([]byte, error) {
	fields, err := new(Encoder).Append(nil, t, json)
	return InEnvelope(apiVersion, kind, fields), err
}

// InEnvelope returns an object of a kind, whose fields an Encoder has made.
func InEnvelope(apiVersion, kind string, fields []byte) []byte {
	out := append(appendEnvelope(nil, apiVersion, kind, len(fields)), fields...)
	return append(out, EndOfEnvelope...)
}

// EndOfEnvelope follows the fields: two fields that say how they are encoded, which is empty for protobuf.
const EndOfEnvelope = "\x1a\x00\x22\x00"

// appendEnvelope appends what is before the fields, which take so many bytes.
func appendEnvelope(out []byte, apiVersion, kind string, size int) []byte {
	typeMeta := appendBytes(appendBytes(nil, 1, []byte(apiVersion)), 2, []byte(kind))
	out = appendBytes(append(out, magic...), 1, typeMeta)
	return binary.AppendUvarint(appendTag(out, 2, lengthDelimited), uint64(size))
}

// AppendList appends what is before the items of a list, which take so many bytes with what AppendItem puts before
// each; EndOfEnvelope follows them. meta is JSON that package patch wrote.
func AppendList(out []byte, apiVersion, listKind string, meta []byte, size int) ([]byte, error) {
	head, err := new(Encoder).Append(nil, For("v1", "ListMeta"), meta)
	head = appendBytes(nil, 1, head)
	return append(appendEnvelope(out, apiVersion, listKind, len(head)+size), head...), err
}

// AppendItem appends what is before an item of a list that takes so many bytes.
func AppendItem(out []byte, size int) []byte {
	return binary.AppendUvarint(appendTag(out, 2, lengthDelimited), uint64(size))
}

// EncodeEvent encodes a frame of a watch around an object that Encode has made: four bytes of length, then the type
// and a struct with the object.
func EncodeEvent(eventType string, object []byte) []byte {
	event := appendBytes(appendBytes(nil, 1, []byte(eventType)), 2, appendBytes(nil, 1, object))
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func appendTag(out []byte, number uint64, wire int) []byte {
	return binary.AppendUvarint(out, number<<3|uint64(wire))
}

func appendBytes(out []byte, number uint64, b []byte) []byte {
	out = binary.AppendUvarint(appendTag(out, number, lengthDelimited), uint64(len(b)))
	return append(out, b...)
}

func appendVarint(out []byte, number, value uint64) []byte {
	return binary.AppendUvarint(appendTag(out, number, varint), value)
}

// The wire types that Kubernetes' messages have.
const (
	varint          = 0
	fixed64         = 1
	lengthDelimited = 2
	fixed32         = 5
)

// token is one value on the wire.
type token struct {
	wire   int
	number uint64 // of a varint, the bits of a fixed64
	data   []byte
	sent   bool
}

func (t token) is(wire int) error {
	if t.wire != wire {
		return fmt.Errorf("proto: wrong wireType = %d", t.wire)
	}
	return nil
}

var errTruncated = errors.New("unexpected EOF")

// nextToken decodes the number of a field and its value.
func nextToken(b []byte) (field uint64, t token, rest []byte, err error) {
	tag, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, token{}, nil, errTruncated
	}
	b = b[size:]
	t = token{wire: int(tag & 7), sent: true}
	if tag>>3 == 0 {
		return 0, token{}, nil, fmt.Errorf("proto: illegal tag 0 (wire type %d)", t.wire)
	}
	switch t.wire {
	case varint:
		if t.number, size = binary.Uvarint(b); size <= 0 {
			return 0, token{}, nil, errTruncated
		}
		return tag >> 3, t, b[size:], nil
	case lengthDelimited:
		length, size := binary.Uvarint(b)
		if size <= 0 || length > uint64(len(b)-size) {
			return 0, token{}, nil, errTruncated
		}
		b = b[size:]
		t.data = b[:length]
		return tag >> 3, t, b[length:], nil
	case fixed64, fixed32:
		width := map[int]int{fixed64: 8, fixed32: 4}[t.wire]
		if len(b) < width {
			return 0, token{}, nil, errTruncated
		}
		if t.wire == fixed64 {
			t.number = binary.LittleEndian.Uint64(b)
		}
		return tag >> 3, t, b[width:], nil
	}
	return 0, token{}, nil, fmt.Errorf("proto: illegal wireType %d", t.wire)
}

// smallMessage decodes the first three fields of a message; messages of a fixed form have no more.
func smallMessage(message []byte) (out [4]token, err error) {
	for len(message) > 0 {
		number, t, rest, err := nextToken(message)
		if err != nil {
			return out, err
		}
		if message = rest; number < uint64(len(out)) {
			out[number] = t
		}
	}
	return out, nil
}

// text returns a string that JSON can represent.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// layout is a type as it is written: what it has of each field, in the order of their numbers.
type layout struct {
	fields []*layoutField
	named  map[string]*layoutField // those of structs that JSON has inline, too
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
		t.written = &layout{named: map[string]*layoutField{}}
		t.written.add(t.numbers, t, t.written)
	})
	return t.written
}

// add adds fields to m, whose names are those of the whole. t is nil for a struct that JSON has inline.
func (m *layout) add(n numbers, t *Type, whole *layout) {
	for _, number := range slices.Sorted(maps.Keys(n)) {
		f := &layoutField{Value: n[number].Value, number: number, part: len(whole.named)}
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
