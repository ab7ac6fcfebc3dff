package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

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
