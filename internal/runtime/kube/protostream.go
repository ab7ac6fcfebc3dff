package kube

import (
	"encoding/binary"
	"errors"
	"io"
	"reflect"
)

// decodeProtoList reads a list in an envelope, and appends the items to all.
func decodeProtoList[T Object](p *protoReader, all *ListResult[T]) (meta listMeta, kind string, err error) {
	if magic, err := p.take(uint64(len(protoMagic))); err != nil || string(magic) != protoMagic {
		return meta, "", errors.Join(errNoMagic, err)
	}
	for seen := false; ; {
		p.frame = p.offset()
		if more, err := p.more(); !more {
			if err == nil && !seen {
				err = io.ErrUnexpectedEOF
			}
			return meta, kind, err
		}
		number, n, err := p.part()
		if err == nil && number == unknownRaw {
			seen = true
			err = decodeProtoItems(p, p.offset()+int64(n), &meta, all)
		} else if err == nil {
			var b []byte
			b, err = p.take(n)
			switch {
			case err == nil && number == unknownType:
				kind, err = kindOf(b)
			case err == nil && number == unknownCoded && n > 0:
				err = errCoded
			}
		}
		if err != nil {
			return meta, kind, err
		}
	}
}

// decodeProtoItems reads a list to the end: field 1 is the ListMeta, field 2 an item.
func decodeProtoItems[T Object](p *protoReader, end int64, meta *listMeta, all *ListResult[T]) error {
	for p.offset() < end {
		p.frame = p.offset()
		p.shrink(false)
		number, n, err := p.part()
		if err != nil {
			return err
		}
		if p.offset()+int64(n) > end {
			return errCut
		}
		var b []byte
		if number == 2 {
			b, err = p.slimMessage(n, slimObject)
		} else {
			b, err = p.message(n)
		}
		bad, large := err.(*DecodeError)
		switch {
		case large:
			var none T
			err = all.add(none, Part{Size: int(n)}, bad)
		case err != nil:
		case number == 1:
			err = protoStructOf(reflect.TypeFor[listMeta](), "ListMeta").decodeInto(b, meta)
		case number == 2:
			obj, part, bad := protoObject[T](p, "", b, reflect.Value{})
			err = all.add(obj, part, bad)
		}
		if err != nil {
			return err
		}
	}
	if p.offset() > end {
		return errCut
	}
	return nil
}

// nextProtoEvent reads a length of four bytes and a WatchEvent of the same length: field 1 is the type, field 2 a
// message whose field 1 is the object in an envelope.
func nextProtoEvent[T Object](p *protoReader, known func(Key) (T, bool)) (Event[T], error) {
	var ev Event[T]
	p.frame = p.offset()
	p.shrink(false)
	if more, err := p.more(); err != nil {
		return ev, err
	} else if !more {
		return ev, io.EOF
	}
	b, err := p.take(4)
	if err == nil {
		b, err = p.slimMessage(uint64(binary.BigEndian.Uint32(b)), slimEvent)
	}
	if err != nil {
		return ev, err
	}
	var body []byte
	ev.Type, body, err = splitEvent(b)
	if err != nil {
		return ev, &DecodeError{Err: err}
	}
	err = decodeProtoEvent(p, &ev, body, known)
	return ev, err
}

// splitEvent returns the type of a WatchEvent, and the object in an envelope.
func splitEvent(m []byte) (t EventType, object []byte, err error) {
	var typed, seen bool
	for len(m) > 0 {
		var f protoField
		if f, m, err = nextField(m); err != nil {
			return t, nil, err
		}
		switch {
		case f.number == 1 && f.wire == wireBytes && !typed:
			typed, t = true, EventType(protoText(f.bytes))
		case f.number == 2 && f.wire == wireBytes && !seen:
			var first protoField
			seen = true
			first, _, err = f.pair(wireBytes, wireBytes)
			object = first.bytes
		case f.number <= 2:
			err = errors.New("the watch frame has more than one type or object")
		}
		if err != nil {
			return t, nil, err
		}
	}
	if t == "" || !seen {
		return t, nil, errors.New("the watch frame has no type or no object")
	}
	return t, object, nil
}

// decodeProtoEvent decodes the object of an event whose type is known.
func decodeProtoEvent[T Object](p *protoReader, ev *Event[T], body []byte, known func(Key) (T, bool)) error {
	kind, raw, err := openEnvelope(body)
	switch ev.Type {
	case Added, Modified, Deleted:
		if err != nil {
			return &DecodeError{Err: err}
		}
		var was reflect.Value
		if known != nil && ev.Type != Added {
			if obj, ok := known(protoKey(raw)); ok {
				was = reflect.ValueOf(obj).Elem()
			}
		}
		want := p.want
		p.want = want.in(ev.Type)
		obj, part, err := protoObject[T](p, kind, raw, was)
		p.want, ev.Part = want, part
		if err == nil {
			ev.Object, ev.ResourceVersion = obj, obj.ObjectMeta().ResourceVersion
		}
		return err
	case Bookmark:
		var b bookmark
		if err == nil {
			err = protoStructOf(reflect.TypeFor[bookmark](), "bookmark").decodeInto(raw, &b)
		}
		return ev.bookmark(&b, err)
	case "ERROR":
		status, err := protoStatus(body)
		if err != nil {
			return broken("error event", err)
		}
		return status.withReason()
	}
	return nil
}
