package schema

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
)

// answers are the types that only answers have.
const answers = `
v1 Status meta.v1.Status
v1 ListMeta meta.v1.ListMeta

meta.v1.ListMeta
  string resourceVersion=2 continue=3
  int64 remainingItemCount*=4
meta.v1.Status
  meta.v1.ListMeta metadata=1
  string status=2 message=3 reason=4
  meta.v1.StatusDetails details*=5
  int32 code=6
meta.v1.StatusDetails
  string name=1 group=2 kind=3 uid=6
  []meta.v1.StatusCause causes=4
  int32 retryAfterSeconds=5
meta.v1.StatusCause
  string reason=1 message=2 field=3
`

// Encode encodes an object as DecodeProtobuf reads it: the fields of t, in the envelope of a kind.
func (t *Type) Encode(apiVersion, kind string, object map[string]any) ([]byte, error) {
	raw, err := t.numbers.encode(t, object)
	return inEnvelope(apiVersion, kind, raw), err
}

// EncodeList encodes a list of objects of type t.
func (t *Type) EncodeList(apiVersion, listKind string, meta map[string]any, items []map[string]any) ([]byte, error) {
	l := For("v1", "ListMeta")
	head, err := l.numbers.encode(l, meta)
	if err != nil {
		return nil, err
	}
	raw := appendBytes(nil, 1, head)
	for _, item := range items {
		body, err := t.numbers.encode(t, item)
		if err != nil {
			return nil, err
		}
		raw = appendBytes(raw, 2, body)
	}
	return inEnvelope(apiVersion, listKind, raw), nil
}

// EncodeEvent encodes a frame of a watch around an object that Encode has made: four bytes of length, then the type
// and a struct with the object.
func EncodeEvent(eventType string, object []byte) []byte {
	event := appendBytes(appendBytes(nil, 1, []byte(eventType)), 2, appendBytes(nil, 1, object))
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func inEnvelope(apiVersion, kind string, raw []byte) []byte {
	typeMeta := appendBytes(appendBytes(nil, 1, []byte(apiVersion)), 2, []byte(kind))
	out := appendBytes(appendBytes(slices.Clone(magic), 1, typeMeta), 2, raw)
	return appendBytes(appendBytes(out, 3, nil), 4, nil)
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

// encode encodes the fields of an object in the order of their numbers. As Go's types do, it sends zero values of
// fields that are not pointers. t is nil for a struct that JSON has inline.
func (n numbers) encode(t *Type, object map[string]any) (out []byte, err error) {
	for _, number := range slices.Sorted(maps.Keys(n)) {
		f := n[number]
		if f.inline != nil {
			inner, err := f.inline.encode(nil, object)
			if err != nil {
				return nil, err
			}
			if len(inner) > 0 {
				out = appendBytes(out, number, inner)
			}
			continue
		}
		v, ok := object[f.name]
		if !ok && t != nil && !t.Fields[f.name].Pointer {
			v = f.unset()
		}
		if v == nil && (f.Form != Time || !ok) {
			continue
		}
		if out, err = f.encode(out, number, v); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return out, nil
}

// unset is the value of a field that is not a pointer and that JSON does not have; nil where nothing is sent.
func (f *Value) unset() any {
	switch f.Form {
	case String, Bool, Int32, Int64, Struct:
		return f.zeroOf()
	}
	return nil
}

// encode encodes one value under a number.
func (f *Value) encode(out []byte, number uint64, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return appendBytes(out, number, nil), nil
	case bool:
		if f.Form == Bool {
			return appendVarint(out, number, map[bool]uint64{true: 1}[v]), nil
		}
	case int64:
		if f.Form == Int32 || f.Form == Int64 {
			return appendVarint(out, number, uint64(v)), nil
		}
	case float64:
		if f.Form == Double {
			return binary.LittleEndian.AppendUint64(appendTag(out, number, fixed64), math.Float64bits(v)), nil
		}
	case string:
		if f.Form == String {
			return appendBytes(out, number, []byte(v)), nil
		}
	case []any:
		if f.Form == List {
			var err error
			for i := 0; i < len(v) && err == nil; i++ {
				out, err = f.Elem.encode(out, number, v[i])
			}
			return out, err
		}
	case map[string]any:
		switch f.Form {
		case Map:
			return f.encodeMap(out, number, v)
		case Struct:
			inner, err := f.Type.numbers.encode(f.Type, v)
			return appendBytes(out, number, inner), err
		}
	}
	inner, err := f.encodeSpecial(v)
	return appendBytes(out, number, inner), err
}

func (f *Value) encodeMap(out []byte, number uint64, members map[string]any) ([]byte, error) {
	for _, key := range slices.Sorted(maps.Keys(members)) {
		member, err := f.Elem.encode(appendBytes(nil, 1, []byte(key)), 2, members[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out = appendBytes(out, number, member)
	}
	return out, nil
}

// encodeSpecial encodes the types that have another form in JSON.
func (f *Value) encodeSpecial(v any) ([]byte, error) {
	text, isText := v.(string)
	switch {
	case f.Form == Bytes && isText:
		return base64.StdEncoding.DecodeString(text)
	case (f.Form == Time || f.Form == MicroTime) && isText:
		at, err := time.Parse(time.RFC3339, text)
		out := appendVarint(nil, 1, uint64(at.Unix()))
		return appendVarint(out, 2, uint64(at.Nanosecond())), err
	case f.Form == Quantity && isText:
		return appendBytes(nil, 1, []byte(text)), nil
	case f.Form == IntOrString && isText:
		return appendBytes(appendVarint(appendVarint(nil, 1, 1), 2, 0), 3, []byte(text)), nil
	case f.Form == IntOrString:
		if n, ok := v.(int64); ok {
			return appendBytes(appendVarint(appendVarint(nil, 1, 0), 2, uint64(n)), 3, nil), nil
		}
	case f.Form == Any && f.Type == nil:
		body, err := patch.Encode(v)
		return appendBytes(nil, 1, body), err
	}
	return nil, fmt.Errorf("%T cannot be encoded as %s", v, f.Word)
}

// The wire types that Kubernetes' messages have.
const (
	varint          = 0
	fixed64         = 1
	lengthDelimited = 2
	fixed32         = 5
)

func (f *Value) wireType() int {
	switch f.Form {
	case Bool, Int32, Int64:
		return varint
	case Double:
		return fixed64
	}
	return lengthDelimited
}

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
