package kube

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// This file is the seam behind which JSON is decoded: a stream goes in, objects of type T come out. Only it, scan.go,
// skip.go and plan.go know how. Most of a list is not declared by any reader, and encoding/json would
// spend its time on that; so a scanner passes over it, and encoding/json decodes only what is declared and out of the
// ordinary. Measured by BenchmarkDecodePods. Of a repeated name the last value counts, and what is not UTF-8 is
// replaced.

// Unmarshal decodes an object that has come from a server, or an object or array in one, into what into points at.
func Unmarshal(text []byte, into any) error {
	return scan(text, func(s *scanner) error { return decodeInto(s, into) })
}

// Members calls f with the name and the value of each member of a JSON object, which are good until f returns.
func Members(object Raw, f func(name []byte, value Raw) error) error {
	return scan(object, func(s *scanner) error {
		if err := s.enterObject(); err != nil {
			return err
		}
		for first := true; ; first = false {
			name, ok, err := s.member(first)
			if !ok || err != nil {
				return err
			}
			name = slices.Clone(name)
			value, err := s.value()
			if err = cmp.Or(err, f(name, value)); err != nil {
				return err
			}
		}
	})
}

// scan has f read all of a text.
func scan(text []byte, f func(s *scanner) error) error {
	s := scanners.Get().(*scanner)
	s.buf, s.end, s.err = text[:len(text):len(text)], len(text), io.EOF // nothing is read or moved
	err := f(s)
	if err == nil && len(bytes.Trim(text[s.pos:], " \t\r\n")) > 0 {
		err = errors.New("more JSON behind the value")
	}
	if open := s.open[:0]; cap(open) <= firstBuffer {
		*s = scanner{input: newInput(nil), open: open}
		scanners.Put(s)
	}
	return err
}

// scanners are for Unmarshal: their text is in their buffers from the start.
var scanners = sync.Pool{New: func() any { return newScanner(nil) }}

// DecodeError is one object that does not fit the struct it should be decoded into: a string where a number
// is declared, no name, nothing at all. The stream that it came in goes on behind it. Key and ResourceVersion
// are set as far as the object's metadata could be read.
type DecodeError struct {
	Key             Key
	UID             string
	ResourceVersion string
	Err             error

	// Where Err is ErrTooLarge:
	Size  int64          // how many bytes would have been kept
	Head  *MetaAnnotated // what was decoded of its metadata, nil if that was not reached
	Whole bool           // Head is all that its reader has declared of that
}

// ErrTooLarge says that more would have to be kept of an object than MaxObject of a ListOptions or WatchOptions
// allows. Not more than that was held of it at any time.
var ErrTooLarge = errors.New("the object is larger than one object may be")

func (e *DecodeError) Error() string {
	if e.Key.Name == "" {
		return "decode object: " + Text(e.Err.Error())
	}
	return fmt.Sprintf("decode object %s: %s", Printable(e.Key.String(), 2*maxSegment), Text(e.Err.Error()))
}
func (e *DecodeError) Unwrap() error { return e.Err }

// object decodes the value that is next into a new T. A value that does not fit comes back as a DecodeError
// with the stream behind it; any other error has broken the stream.
func object[T Object](s *scanner) (T, error) {
	var obj T
	if c, err := s.peek(); err != nil {
		return obj, err
	} else if c != '{' {
		if err := s.skip(); err != nil {
			return obj, err
		}
		return obj, &DecodeError{Err: errors.New("want a JSON object")}
	}
	s.top, s.kind, s.skimmed, s.headed = len(s.open)+1, "", false, false
	err := decodeInto(s, &obj)
	s.top = 0
	if bad := (*misfit)(nil); s.beyond > 0 && errors.As(err, &bad) {
		return obj, tooLarge(obj, int64(s.kept+s.beyond), s.headed)
	}
	return checked(obj, s.kind, s.want, err)
}

// tooLarge is the error for an object of which all was decoded that may be kept; whole says that its metadata was.
func tooLarge[T Object](obj T, size int64, whole bool) error {
	e := &DecodeError{Size: size, Whole: whole, Err: ErrTooLarge}
	m := metaOf(obj)
	if e.about(m); m != nil {
		head := *HeadOf(obj) // without the rest of the object
		e.Head = &head
	}
	return e
}

// about names the object that e is about, as far as it could be read.
func (e *DecodeError) about(m *Meta) {
	if m != nil {
		e.Key, e.UID, e.ResourceVersion = m.Key(), m.UID, m.ResourceVersion
	}
}

// checked returns an object that has been decoded with err. What does not fit, or was not asked for, becomes a
// DecodeError.
func checked[T Object](obj T, kind string, want expected, err error) (T, error) {
	if err == nil {
		m := obj.ObjectMeta()
		m.OwnerReferences = sharedOwners.of(m.OwnerReferences)
		if err := want.unwanted(kind, m); err != nil {
			return obj, &DecodeError{Key: m.Key(), UID: m.UID, ResourceVersion: m.ResourceVersion, Err: err}
		}
		return obj, nil
	}
	if bad := (*misfit)(nil); errors.As(err, &bad) {
		e := &DecodeError{Err: bad}
		e.about(metaOf(obj))
		return obj, e
	}
	return obj, err
}

// expected is what a decoded object has to be, as far as it says so; nothing where these are empty.
type expected struct {
	kind, namespace, name string
	skim                  func(Key) bool    // see Part.Skimmed; nil: never
	selects               func(Labels) bool // see Query
}

// Part says how much of an object was read, and how much there was.
type Part struct {
	Size    int  // of the object as it came, in bytes
	Large   bool // it is larger than MaxObject of ListOptions: a caller's mark, for what it makes of the DecodeError
	Whole   bool // with Large: all its metadata was read
	Skimmed bool // its reader wanted no more than its metadata: all else of it was passed over, and not decoded
}

// unwanted says why an object of a kind, "" for one that does not say, cannot be one that was asked for: a reader
// would find it under a wrong key.
func (e expected) unwanted(kind string, m *Meta) error {
	switch {
	case m.Name == "":
		return errors.New("it has no metadata.name")
	case !isSegment(m.Name), m.Namespace != "" && !isSegment(m.Namespace):
		return errors.New("its name or namespace cannot be part of a URL path")
	case e.kind != "" && kind != "" && kind != e.kind:
		return fmt.Errorf("it is of kind %q, want %s", Printable(kind, maxQuoted), e.kind)
	case e.namespace != "" && m.Namespace != e.namespace:
		return fmt.Errorf("it is not in the namespace %s, which was asked for", e.namespace)
	case e.name != "" && m.Name != e.name:
		return fmt.Errorf("its name is not %s, which was asked for", e.name)
	case e.selects != nil && !e.selects(m.Labels):
		return errors.New("its labels are not those that were asked for")
	}
	return nil
}

// in returns what the object of an event has to be: one that has left the selector may come with its new labels.
func (e expected) in(t EventType) expected {
	if t == Deleted {
		e.selects = nil
	}
	return e
}

// metaOf returns the metadata of a possibly half decoded object, nil where not even the object was made.
func metaOf[T Object](obj T) (m *Meta) {
	defer func() {
		if recover() != nil { // a nil pointer in T: the promoted method cannot be called on it
			m = nil
		}
	}()
	return obj.ObjectMeta()
}

// Skipped is the type of a member that is known and of no interest, declared only so that a field with
// `json:",embed"`, which takes what is not declared, does not get it.
type Skipped struct{}

// UnmarshalJSON passes over the value.
func (*Skipped) UnmarshalJSON([]byte) error { return nil }
