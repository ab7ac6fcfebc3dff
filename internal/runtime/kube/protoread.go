package kube

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
)

// Each body and each object in protobuf is the magic, then a runtime.Unknown: field 1 a TypeMeta, whose field 2 is the
// kind, field 2 the object, field 3 the encoding, which no server uses.
const (
	protoMagic   = "k8s\x00"
	unknownType  = 1
	unknownRaw   = 2
	unknownCoded = 3
)

var (
	errNoMagic = errors.New("the answer is marked as protobuf and does not begin as Kubernetes' does")
	errCoded   = errors.New("the protobuf is encoded once more, which was not asked for")
)

// openEnvelope returns content and kind of an envelope read as a whole.
func openEnvelope(b []byte) (kind string, raw []byte, err error) {
	if len(b) < len(protoMagic) || string(b[:len(protoMagic)]) != protoMagic {
		return "", nil, errNoMagic
	}
	for m := b[len(protoMagic):]; len(m) > 0; {
		var f protoField
		if f, m, err = nextField(m); err != nil {
			return "", nil, err
		}
		switch {
		case f.number == unknownType:
			kind, err = kindOf(f.bytes)
		case f.number == unknownRaw && f.wire == wireBytes:
			raw = f.bytes
		case f.number == unknownCoded && len(f.bytes) > 0:
			err = errCoded
		}
		if err != nil {
			return "", nil, err
		}
	}
	return kind, raw, nil
}

// kindOf returns the kind of a TypeMeta.
func kindOf(typeMeta []byte) (kind string, err error) {
	for m := typeMeta; len(m) > 0; {
		var f protoField
		if f, m, err = nextField(m); err != nil {
			return "", err
		}
		if f.number == 2 {
			kind = protoText(f.bytes)
		}
	}
	return kind, nil
}

// protoReader takes objects in protobuf off a stream. An error of a method is the end of the stream.
type protoReader struct {
	input
	want   expected
	plan   *protoStruct      // of the objects
	owners [4]OwnerReference // of the present object, until shared: more than most have

	// For objects with digests; see slimMessage.
	slim     []byte
	bad      *misfit      // of the present object; nil: none so far
	member   *protoMember // of the present entry
	digester *digester
}

func newProtoReader(r io.Reader, plan *protoStruct, want expected) *protoReader {
	p := &protoReader{input: newInput(r), want: want, plan: plan}
	p.wipes = plan.digests
	return p
}

// protoObject decodes an object read as a whole; was is an earlier version, if any. An object that does not fit is a
// DecodeError.
func protoObject[T Object](p *protoReader, kind string, m []byte, was reflect.Value) (T, Part, error) {
	part := Part{Size: len(m)}
	if p.want.skim != nil && p.want.skim(protoKey(m)) {
		if _, rest, err := nextField(m); err == nil {
			m, part.Skimmed = m[:len(m)-len(rest)], true // the metadata comes first
		}
	}
	v := reflect.New(reflect.TypeFor[T]().Elem())
	obj := v.Interface().(T)
	if meta := metaOf(obj); meta != nil {
		meta.OwnerReferences = p.owners[:0]
	}
	err := p.plan.decode(m, v.Elem(), was)
	if p.bad != nil {
		err = p.bad
	}
	obj, err = checked(obj, kind, p.want, err)
	if err != nil {
		var none T
		obj = none // a partial object shares p.owners with the next object
	}
	clear(p.owners[:])
	return obj, part, err
}

// protoKey returns the key of an object, as far as readable: field 1 of the metadata, itself field 1, is the name, and
// field 3 the namespace.
func protoKey(m []byte) (k Key) {
	f, _, err := nextField(m)
	if err != nil || f.number != 1 || f.wire != wireBytes {
		return k
	}
	for m = f.bytes; len(m) > 0 && k.Namespace == ""; {
		if f, m, err = nextField(m); err != nil || f.number > 3 {
			break
		}
		switch f.number {
		case 1:
			k.Name = string(f.bytes)
		case 3:
			k.Namespace = protoText(f.bytes)
		}
	}
	return k
}

// more says whether anything is to come.
func (p *protoReader) more() (bool, error) {
	if p.pos < p.end {
		return true, nil
	}
	err := p.fill()
	if err != nil && p.err == io.EOF {
		return false, nil
	}
	return err == nil, err
}

// take returns the next n bytes in one piece, good until the next call.
func (p *protoReader) take(n uint64) ([]byte, error) {
	if n > maxFrame {
		return nil, ErrFrameTooLarge
	}
	for p.end-p.pos < int(n) {
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
	b := p.buf[p.pos : p.pos+int(n) : p.pos+int(n)]
	p.pos += int(n)
	return b, nil
}

// maxMessage is the longest object in protobuf where the kept bytes of an object are limited: an object is read in one
// piece, with all undeclared fields. A server takes 1.5 MiB.
const maxMessage = 4 << 20

// message returns the next n bytes, an object, like take. A longer object is skipped, with a DecodeError.
func (p *protoReader) message(n uint64) ([]byte, error) {
	if p.most == 0 || n <= maxMessage || n > maxFrame {
		return p.take(n)
	}
	for left := int(n); ; {
		passed := min(left, p.end-p.pos)
		p.pos += passed
		if left -= passed; left == 0 {
			return nil, &DecodeError{Size: int64(n), Err: ErrTooLarge}
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

// part reads number and length of the next field; a varint field is skipped.
func (p *protoReader) part() (number, n uint64, err error) {
	tag, err := p.uvarint()
	if err != nil {
		return 0, 0, err
	}
	switch tag & 7 {
	case wireVarint:
		_, err = p.uvarint()
	case wireBytes:
		n, err = p.uvarint()
	default:
		err = fmt.Errorf("a field around the objects has the wire type %d", tag&7)
	}
	if err == nil && n > math.MaxInt64/2 {
		err = ErrFrameTooLarge
	}
	return tag >> 3, n, err
}

// protoStatus decodes a Status in an envelope.
func protoStatus(body []byte) (*Status, error) {
	kind, raw, err := openEnvelope(body)
	if err != nil {
		return nil, err
	}
	if kind != "Status" {
		return nil, fmt.Errorf("it is of kind %q, want Status", Printable(kind, maxQuoted))
	}
	s := &Status{}
	return s, protoStructOf(reflect.TypeFor[Status](), "Status").decodeInto(raw, s)
}
