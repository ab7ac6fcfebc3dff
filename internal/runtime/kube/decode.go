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

// JSON is decoded behind this file: a stream goes in, objects of type T come out. The parts are in scan.go, skip.go
// and plan.go. No reader declares most of a list, and encoding/json would spend its time on the rest; so a scanner
// passes over undeclared values, and encoding/json decodes only declared values out of the ordinary
// (BenchmarkDecodePods). The last value of a repeated name counts, and invalid UTF-8 is replaced.

// Unmarshal decodes an object from a server, or a part of such an object, into the target of into.
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

// DecodeError is an object that does not fit its struct: a string where a number is declared, no name, nothing at all.
// The stream goes on behind the object. Key and ResourceVersion are set as far as the metadata could be read.
type DecodeError struct {
	Key             Key
	UID             string
	ResourceVersion string
	Err             error

	// Where Err is ErrTooLarge:
	Size  int64          // how many bytes would have been kept
	Head  *MetaAnnotated // the decoded metadata; nil: not reached
	Whole bool           // Head has all declared metadata
}

// ErrTooLarge is the error of an object larger than the MaxObject of ListOptions or WatchOptions. No more than
// MaxObject was in memory at any time.
var ErrTooLarge = errors.New("the object is larger than one object may be")

func (e *DecodeError) Error() string {
	if e.Key.Name == "" {
		return "decode object: " + Text(e.Err.Error())
	}
	return fmt.Sprintf("decode object %s: %s", Printable(e.Key.String(), 2*maxSegment), Text(e.Err.Error()))
}
func (e *DecodeError) Unwrap() error { return e.Err }

// object decodes the next value into a new T. A value that does not fit comes back as a DecodeError with the stream
// behind the value; any other error has broken the stream.
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
	s.top, s.kind, s.skimmed, s.headed, s.hashed = len(s.open)+1, "", false, false, 0
	err := decodeInto(s, &obj)
	s.top = 0
	if bad := (*misfit)(nil); s.beyond > 0 && errors.As(err, &bad) {
		return obj, tooLarge(obj, int64(s.kept+s.beyond), s.headed)
	}
	return checked(obj, s.kind, s.want, err)
}

// tooLarge is the error of an object decoded up to the limit; whole: with all metadata.
func tooLarge[T Object](obj T, size int64, whole bool) error {
	e := &DecodeError{Size: size, Whole: whole, Err: ErrTooLarge}
	m := metaOf(obj)
	if e.about(m); m != nil {
		head := *HeadOf(obj) // without the rest of the object
		e.Head = &head
	}
	return e
}

// about sets the name of the object in e, as far as known.
func (e *DecodeError) about(m *Meta) {
	if m != nil {
		e.Key, e.UID, e.ResourceVersion = m.Key(), m.UID, m.ResourceVersion
	}
}

// checked returns an object decoded with err. An object that does not fit, or was not requested, becomes a
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

// expected holds the identity of a decoded object; empty fields are not compared.
type expected struct {
	kind, namespace, name string
	skim                  func(Key) bool    // see Part.Skimmed; nil: never
	selects               func(Labels) bool // see Query
}

// Part says how much of an object was read, and how much there was.
type Part struct {
	Size    int  // of the encoded object, in bytes, without the values behind digests
	Large   bool // larger than MaxObject of ListOptions: set by callers, for readers of the DecodeError
	Whole   bool // with Large: the metadata is complete
	Skimmed bool // the reader wanted the metadata alone: all else was skipped
}

// unwanted returns the reason why an object of a kind, "" for an unknown kind, cannot be a requested object: a reader
// would find the object under a wrong key.
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

// in returns the expectation for the object of an event: an object that left the selector may have its new labels.
func (e expected) in(t EventType) expected {
	if t == Deleted {
		e.selects = nil
	}
	return e
}

// metaOf returns the metadata of a possibly half decoded object, nil where not even the object was made.
func metaOf[T Object](obj T) (m *Meta) {
	defer func() {
		if recover() != nil { // a nil pointer in T: the promoted method would panic
			m = nil
		}
	}()
	return obj.ObjectMeta()
}

// Skipped is the type of a known member without interest, declared only to keep the member out of a field with
// `json:",embed"`, which takes all undeclared members.
type Skipped struct{}

// UnmarshalJSON passes over the value.
func (*Skipped) UnmarshalJSON([]byte) error { return nil }
