package kube

import (
	"errors"
	"fmt"
	"io"
	"reflect"
)

// decodeProtoPage reads a list of a kind and appends its items to all.
func decodeProtoPage[T Object](p *protoReader, kind string, all *ListResult[T]) (listMeta, error) {
	meta, listKind, err := decodeProtoList(p, all)
	if err != nil {
		return meta, fmt.Errorf("decode list: %w", err)
	}
	if listKind != kind+"List" {
		return meta, wrongList(listKind, kind)
	}
	return meta, nil
}

// decodeProtoList reads the envelope of a list.
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

// decodeProtoItems reads a list up to where it ends: field 1 is its ListMeta, field 2 one item.
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
		b, err := p.message(n)
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
