package kube

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The wire types of protobuf. Kubernetes' messages have no groups (3 and 4).
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// protoField is a field of a message.
type protoField struct {
	number uint64
	wire   byte
	value  uint64 // of a varint
	bytes  []byte // of a string, of bytes, of a message
}

var (
	errCut    = errors.New("the protobuf message ends within a field")
	errVarint = errors.New("a number in the protobuf message has more than 64 bits")
)

// nextField returns the first field of a message and the rest. The announced length of a field allocates nothing.
func nextField(m []byte) (f protoField, rest []byte, err error) {
	tag, m, err := uvarint(m)
	if err != nil {
		return f, nil, err
	}
	f.number, f.wire = tag>>3, byte(tag&7)
	if f.number == 0 {
		return f, nil, errors.New("a field of the protobuf message has the number 0")
	}
	switch f.wire {
	case wireVarint:
		f.value, m, err = uvarint(m)
	case wireBytes:
		var n uint64
		n, m, err = uvarint(m)
		if err == nil && n > uint64(len(m)) {
			err = errCut
		}
		if err == nil {
			f.bytes, m = m[:n:n], m[n:]
		}
	case wireFixed64:
		m, err = cut(m, 8)
	case wireFixed32:
		m, err = cut(m, 4)
	default:
		err = fmt.Errorf("a field of the protobuf message has the wire type %d", f.wire)
	}
	return f, m, err
}

// uvarint is binary.Uvarint with a short path for the most common numbers, of one byte.
func uvarint(m []byte) (uint64, []byte, error) {
	if len(m) > 0 && m[0] < 0x80 {
		return uint64(m[0]), m[1:], nil
	}
	v, n := binary.Uvarint(m)
	switch {
	case n > 0:
		return v, m[n:], nil
	case n < 0:
		return 0, nil, errVarint
	}
	return 0, nil, errCut
}

func cut(m []byte, n int) ([]byte, error) {
	if len(m) < n {
		return nil, errCut
	}
	return m[n:], nil
}

// count returns how many fields of a number are in a message.
func count(m []byte, number uint64) (n int) {
	for len(m) > 0 {
		f, rest, err := nextField(m)
		if err != nil {
			return n
		}
		if m = rest; f.number == number {
			n++
		}
	}
	return n
}

func (p *protoReader) uvarint() (uint64, error) {
	for {
		v, n := binary.Uvarint(p.buf[p.pos:p.end])
		switch {
		case n > 0:
			p.pos += n
			return v, nil
		case n < 0:
			return 0, errVarint
		}
		if err := p.fill(); err != nil {
			return 0, err
		}
	}
}

// pair returns fields 1 and 2 of a message without other fields.
func (f protoField) pair(wire1, wire2 byte) (first, second protoField, err error) {
	for m := f.bytes; len(m) > 0; {
		var part protoField
		if part, m, err = nextField(m); err != nil {
			return first, second, &misfit{err: err}
		}
		switch part.number {
		case 1:
			first, err = part, part.is(wire1)
		case 2:
			second, err = part, part.is(wire2)
		}
		if err != nil {
			return first, second, err
		}
	}
	return first, second, nil
}

// is fails for a field of another wire type.
func (f protoField) is(wire byte) error {
	if f.wire != wire {
		return &misfit{err: fmt.Errorf("the field has the wire type %d, want %d", f.wire, wire)}
	}
	return nil
}
