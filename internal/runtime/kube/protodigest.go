package kube

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// An object in protobuf is read in one piece and then decoded. For an object with digests, the piece is a slim
// message: the declared fields, with a digest in place of each value, which goes from the buffer of the stream into
// the hash.

// slimPart is a part of a message that is made slim.
type slimPart int

const (
	slimCopied   slimPart = iota // no such part: copied as received
	slimPassed                   // left empty
	slimEvent                    // WatchEvent, with the object in field 2
	slimRaw                      // RawExtension, with the envelope in field 1
	slimEnvelope                 // with the object in unknownRaw
	slimObject                   // with entries of maps
	slimEntry                    // with the value in field 2
	slimValue
)

// slimMessage reads the next n bytes, an event or object; without digests like message. A fault within the object is
// p.bad, and the rest of the object is there.
func (p *protoReader) slimMessage(n uint64, part slimPart) ([]byte, error) {
	if !p.plan.digests {
		return p.message(n)
	}
	if n > maxFrame {
		return nil, ErrFrameTooLarge
	}
	p.clearSlim()
	p.bad, p.kept = nil, 0
	end := p.offset() + int64(n)
	err := p.readSlim(part, end)
	if bad := (*misfit)(nil); errors.As(err, &bad) {
		if err = p.pass(end); err == nil {
			err = &DecodeError{Size: int64(n), Err: bad.err}
		}
	}
	return p.slim, err
}

// forget is forget of input with the slim message: the metadata of a Secret may have values.
func (p *protoReader) forget(n int) {
	p.input.forget(n)
	p.clearSlim()
}

func (p *protoReader) clearSlim() {
	clear(p.slim)
	if p.slim = p.slim[:0]; cap(p.slim) > bulkBuffer {
		p.slim = nil
	}
}

// readSlim adds a part, up to end, to the slim message.
func (p *protoReader) readSlim(part slimPart, end int64) error {
	err := p.slimFields(part, end)
	bad := (*misfit)(nil)
	if part != slimObject && part != slimEntry || !errors.As(err, &bad) || bad.err == ErrTooLarge {
		return err
	}
	name := ""
	if part == slimEntry {
		name = p.member.name
	}
	p.bad, _ = keep(p.bad, bad, name)
	return p.pass(end)
}

func (p *protoReader) slimFields(part slimPart, end int64) error {
	switch part {
	case slimPassed:
		return p.pass(end)
	case slimValue:
		return p.hashValue(end)
	case slimEnvelope:
		if err := p.copyBytes(min(int64(len(protoMagic)), end-p.offset())); err != nil {
			return err
		}
	}
	for p.offset() < end {
		tag, n, err := p.head(end)
		if err != nil {
			return err
		}
		inner, err := slimCopied, error(nil)
		if tag&7 == wireBytes {
			inner, err = p.inner(part, tag>>3)
		}
		switch {
		case err != nil:
		case inner == slimCopied:
			err = p.copyField(tag, n)
		default:
			err = p.nest(tag, inner, p.offset()+int64(n))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inner returns which part a field of a part is.
func (p *protoReader) inner(part slimPart, number uint64) (slimPart, error) {
	switch {
	case part == slimEvent && number == 2:
		return p.innerEvent()
	case part == slimRaw && number == 1:
		return slimEnvelope, nil
	case part == slimEnvelope && number == unknownRaw:
		return slimObject, nil
	case part == slimEntry && number == 2:
		return slimValue, nil
	case part != slimObject:
		return slimCopied, nil
	case number >= uint64(len(p.plan.fields)) || p.plan.fields[number].plan == nil:
		return slimPassed, nil
	case p.plan.fields[number].digests:
		p.member = &p.plan.fields[number]
		p.kept += digestSize
		return slimEntry, p.room(0)
	}
	return slimCopied, nil
}

// innerEvent returns how to read the object of an event, whose type is in the slim message already.
func (p *protoReader) innerEvent() (slimPart, error) {
	var t EventType
	for m := p.slim; len(m) > 0; {
		f, rest, err := nextField(m)
		if err != nil {
			return slimCopied, &misfit{err: err}
		}
		if m = rest; f.number == 1 {
			t = EventType(f.bytes)
		}
	}
	switch t {
	case Added, Modified, Deleted:
		return slimRaw, nil
	case Bookmark, "ERROR":
		return slimCopied, nil
	case "":
		return slimCopied, errUnnamed{}
	}
	return slimPassed, nil
}

// nest adds a field whose content is a part.
func (p *protoReader) nest(tag uint64, part slimPart, end int64) error {
	const lengthSize = 5 // enough for maxFrame: a varint may be longer than necessary
	if err := p.room(binary.MaxVarintLen64 + lengthSize); err != nil {
		return err
	}
	p.slim = binary.AppendUvarint(p.slim, tag)
	p.slim = append(p.slim, make([]byte, lengthSize)...)
	from := len(p.slim)
	err := p.readSlim(part, end)
	n := len(p.slim) - from
	for i := range lengthSize - 1 {
		p.slim[from-lengthSize+i] = byte(n>>(7*i)) | 0x80
	}
	p.slim[from-1] = byte(n >> (7 * (lengthSize - 1)))
	return err
}

// head reads tag and length of a field, or tag and value of a varint. The field ends at or before end.
func (p *protoReader) head(end int64) (tag, n uint64, err error) {
	if tag, err = p.number(end); err != nil {
		return 0, 0, err
	}
	switch tag & 7 {
	case wireVarint:
		n, err = p.number(end)
		return tag, n, err
	case wireBytes:
		n, err = p.number(end)
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	default:
		return 0, 0, &misfit{err: fmt.Errorf("a field of the protobuf message has the wire type %d", tag&7)}
	}
	if err == nil && n > uint64(end-p.offset()) {
		err = &misfit{err: errCut}
	}
	return tag, n, err
}

// number reads a varint that ends at or before end.
func (p *protoReader) number(end int64) (v uint64, err error) {
	for shift := 0; ; shift += 7 {
		if p.offset() == end {
			return 0, &misfit{err: errCut}
		}
		if p.pos == p.end {
			if err := p.fill(); err != nil {
				return 0, err
			}
		}
		c := p.buf[p.pos]
		p.pos++
		if shift == 63 && c > 1 {
			return 0, &misfit{err: errVarint}
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, nil
		}
	}
}

// copyField adds a field to the slim message of which head has been read.
func (p *protoReader) copyField(tag, n uint64) error {
	if err := p.room(2 * binary.MaxVarintLen64); err != nil {
		return err
	}
	p.slim = binary.AppendUvarint(p.slim, tag)
	if tag&7 == wireVarint || tag&7 == wireBytes {
		p.slim = binary.AppendUvarint(p.slim, n)
	}
	if tag&7 == wireVarint {
		return nil
	}
	return p.copyBytes(int64(n))
}

func (p *protoReader) copyBytes(n int64) error {
	return p.pieces(p.offset()+n, func(b []byte) (int, error) {
		if err := p.room(len(b)); err != nil {
			return 0, err
		}
		p.slim = append(p.slim, b...)
		return len(b), nil
	})
}

// pass passes over the bytes up to end.
func (p *protoReader) pass(end int64) error {
	return p.pieces(end, func(b []byte) (int, error) { return len(b), nil })
}

// pieces hands the bytes up to end to use, which returns how many were used; none: more are needed.
func (p *protoReader) pieces(end int64, use func(b []byte) (int, error)) error {
	for unused := 0; p.offset() < end; {
		left := int(end - p.offset())
		if p.end-p.pos == unused {
			if err := p.fill(); err != nil {
				return err
			}
		}
		b := p.buf[p.pos : p.pos+min(left, p.end-p.pos)]
		n, err := use(b)
		if err != nil {
			return err
		}
		p.pos += n
		unused = len(b) - n
	}
	return nil
}

// room makes room for n bytes in the slim message. An object with limited memory may have maxMessage, with the decoded
// digests.
func (p *protoReader) room(n int) error {
	if p.most > 0 && len(p.slim)+p.kept+n > maxMessage {
		return errLarge()
	}
	if cap(p.slim)-len(p.slim) < n {
		more := append(make([]byte, 0, max(2*cap(p.slim), len(p.slim)+n, firstBuffer)), p.slim...)
		clear(p.slim)
		p.slim = more
	}
	return nil
}

// hashValue adds the digest of a value that ends at end.
func (p *protoReader) hashValue(end int64) error {
	if p.digester == nil {
		p.digester = &digester{}
	}
	d, use := p.digester, func(b []byte) (int, error) {
		p.digester.add(b)
		return len(b), nil
	}
	d.begin(false)
	if p.member.text {
		use = func(b []byte) (int, error) { return addText(d, b, p.offset()+int64(len(b)) == end), nil }
	}
	err := p.pieces(end, use)
	sum, _ := d.end()
	if err == nil {
		err = p.room(len(sum))
	}
	if err == nil {
		p.slim = append(p.slim, sum[:]...)
	}
	return err
}
