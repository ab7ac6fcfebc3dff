package kube

import (
	"bytes"
	"errors"
	"fmt"
)

// nextEvent reads {"type": ..., "object": ...}.
func nextEvent[T Object](s *scanner) (Event[T], error) {
	var ev Event[T]
	if err := s.begin(); err != nil {
		return ev, err
	}
	if err := s.enterObject(); err != nil {
		return ev, err
	}
	var early []byte // an object ahead of its type; no known server sends such a frame
	var typed, seen bool
	var failed error // a DecodeError or Status: reported at the end of the frame
	for first := true; ; first = false {
		name, ok, err := s.member(first)
		if err != nil {
			return ev, err
		}
		if !ok {
			break
		}
		isType, isObject := string(name) == "type", string(name) == "object"
		switch {
		case isType && typed, isObject && seen:
			failed = &DecodeError{Err: fmt.Errorf("the watch frame has more than one %s", name)}
			err = s.skip()
		case isType:
			typed = true
			err = decodeInto(s, &ev.Type)
		case !isObject:
			err = s.skip()
		case !typed:
			seen = true
			if s.wipes {
				return ev, errUnnamed{}
			}
			if early, err = s.value(); errors.Is(err, ErrTooLarge) {
				err = errUnnamed{}
			}
			early = bytes.Clone(early)
		default:
			seen = true
			failed, err = decodeEvent(s, &ev)
		}
		if failed, err = contained(failed, err); err != nil {
			return ev, err
		}
	}
	if early != nil && ev.Type != "" && failed == nil {
		in := newScanner(bytes.NewReader(early))
		in.want, in.most = s.want, s.most
		var err error
		if failed, err = decodeEvent(in, &ev); err != nil {
			return ev, err
		}
	}
	if failed != nil {
		return ev, failed
	}
	if !seen || ev.Type == "" {
		return ev, &DecodeError{Err: errors.New("the watch frame has no type or no object")}
	}
	return ev, nil
}

// errUnnamed ends a watch. After a skipped frame the version before would pass for the newest.
type errUnnamed struct{}

func (errUnnamed) Error() string {
	return "a watch frame has its object ahead of its type, and the object cannot be held until that is known"
}

// Is matches ErrFrameTooLarge: in both cases the stream cannot go on from here.
func (errUnnamed) Is(target error) bool { return target == ErrFrameTooLarge }

// decodeEvent reads the object of an event of known type. failed concerns the frame; err the stream.
func decodeEvent[T Object](s *scanner, ev *Event[T]) (failed, err error) {
	switch ev.Type {
	case Added, Modified, Deleted:
		from, want := s.offset(), s.want
		s.want = want.in(ev.Type)
		obj, err := object[T](s)
		s.want = want
		ev.Part = Part{Size: int(s.offset()-from) - s.hashed, Skimmed: s.skimmed}
		if err != nil {
			if bad := (*DecodeError)(nil); errors.As(err, &bad) {
				return bad, nil
			}
			return nil, err
		}
		ev.Object, ev.ResourceVersion = obj, obj.ObjectMeta().ResourceVersion
		return nil, nil
	case Bookmark:
		var b bookmark
		return nil, ev.bookmark(&b, decodeInto(s, &b))
	case "ERROR":
		status := &Status{}
		if err := decodeInto(s, status); err != nil {
			return nil, broken("error event", err)
		}
		return status.withReason(), nil
	}
	return nil, s.skip()
}

// bookmark sets the bookmark decoded with err. A bookmark that does not decode ends the watch, because the end of the
// initial events could be lost.
func (ev *Event[T]) bookmark(b *bookmark, err error) error {
	if err != nil {
		return broken("bookmark", err)
	}
	end, _ := b.Annotations.Get(initialEventsEnd)
	ev.ResourceVersion, ev.InitialEventsEnd = b.ResourceVersion, end == "true"
	return nil
}
