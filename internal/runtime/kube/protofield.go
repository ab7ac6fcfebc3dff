package kube

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The wire types of protobuf. Kubernetes' messages have no groups; they are skipped where they are not declared.
const (
	wireVarint     = 0
	wireFixed64    = 1
	wireBytes      = 2
	wireGroup      = 3
	wireEndOfGroup = 4
	wireFixed32    = 5
)

// protoField is one field of a message.
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

// nextField returns the first field of a message and what is behind it. It takes no memory, whatever length a field
// announces.
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
	case wireGroup:
		m, err = skipGroup(m, f.number, 0)
	default:
		err = fmt.Errorf("a field of the protobuf message has the wire type %d", f.wire)
	}
	return f, m, err
}

// uvarint is binary.Uvarint with a short way for the numbers of one byte, which most are.
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

// skipGroup passes over the fields of a group up to its end.
func skipGroup(m []byte, number uint64, depth int) ([]byte, error) {
	if depth == maxDepth {
		return nil, fmt.Errorf("groups of the protobuf message are nested more than %d deep", maxDepth)
	}
	for {
		tag, behind, err := uvarint(m)
		switch {
		case err != nil:
			return nil, err
		case tag&7 == wireEndOfGroup && tag>>3 == number:
			return behind, nil
		case tag&7 == wireGroup:
			m, err = skipGroup(behind, tag>>3, depth+1)
		default:
			_, m, err = nextField(m)
		}
		if err != nil {
			return nil, err
		}
	}
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
