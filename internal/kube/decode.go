package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// This file is the seam behind which JSON is decoded: a stream goes in, objects of type T come out. Nothing
// outside it, list.go and watch.go knows which decoder does it. go-json-experiment was chosen by measurement
// against encoding/json (BenchmarkDecodePods): it decodes a value while it reads it, with no second pass to
// find its end, and skips what T does not declare without building it.

// decodeOptions leave out two checks that cost time and find nothing in what an API server sends: repeated
// names and broken UTF-8 (which is replaced).
var decodeOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// maxFrame caps one watch event or one list item. etcd holds 1.5 MiB by default; in JSON and with
// managedFields an object grows a few times. client-go has the same cap.
const maxFrame = 16 << 20

// ErrFrameTooLarge says that one event or item was longer than 16 MiB; the stream cannot go on behind it.
var ErrFrameTooLarge = errors.New("one object is longer than 16 MiB")

// DecodeError is one object that does not fit the struct it should be decoded into: a string where a number
// is declared, no name, nothing at all. The stream that it came in goes on behind it. Key and ResourceVersion
// are set as far as the object's metadata could be read.
type DecodeError struct {
	Key             Key
	ResourceVersion string
	Err             error
}

func (e *DecodeError) Error() string {
	if e.Key.Name == "" {
		return "decode object: " + e.Err.Error()
	}
	return fmt.Sprintf("decode object %s: %v", e.Key, e.Err)
}
func (e *DecodeError) Unwrap() error { return e.Err }

// frames reads a body as a sequence of JSON values, independent of how the bytes arrive.
type frames struct {
	dec *jsontext.Decoder
	in  *cappedReader
}

func newFrames(r io.Reader) *frames {
	in := &cappedReader{r: r}
	in.left = maxFrame
	return &frames{dec: jsontext.NewDecoder(in, decodeOptions), in: in}
}

// begin starts a new frame for the size cap. What the decoder has read ahead counts as part of it.
func (f *frames) begin() { f.in.left = maxFrame - (f.in.read - f.dec.InputOffset()) }

// cappedReader fails once more than left bytes were read since it was set.
type cappedReader struct {
	r          io.Reader
	read, left int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, ErrFrameTooLarge
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.read += int64(n)
	c.left -= int64(n)
	return n, err
}

// object decodes the value that is next into a new T. A value that does not fit comes back as a DecodeError
// with the stream behind it; any other error has broken the stream.
func object[T Object](f *frames) (T, error) {
	var obj T
	depth, start := f.dec.StackDepth(), f.dec.InputOffset()
	if f.dec.PeekKind() != '{' {
		if err := f.dec.SkipValue(); err != nil {
			return obj, f.readError(err)
		}
		return obj, &DecodeError{Err: errors.New("want a JSON object")}
	}
	err := json.UnmarshalDecode(f.dec, &obj)
	if err == nil {
		if m := obj.ObjectMeta(); m.Name == "" {
			return obj, &DecodeError{ResourceVersion: m.ResourceVersion, Err: errors.New("it has no metadata.name")}
		}
		return obj, nil
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return obj, f.readError(err)
	}
	bad := &DecodeError{Err: err}
	if f.dec.InputOffset() == start {
		err = f.dec.SkipValue()
	} else {
		err = f.skipTo(depth)
	}
	if err != nil {
		return obj, f.readError(err)
	}
	// The server writes metadata ahead of what may not fit, so most broken objects can still be named.
	if m := metaOf(obj); m != nil {
		bad.Key, bad.ResourceVersion = m.Key(), m.ResourceVersion
	}
	return obj, bad
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

// skipTo reads on until the decoder is back at the given depth of nesting.
func (f *frames) skipTo(depth int) error {
	for f.dec.StackDepth() > depth {
		if k := f.dec.PeekKind(); k == '}' || k == ']' {
			if _, err := f.dec.ReadToken(); err != nil {
				return err
			}
			continue
		}
		if err := f.dec.SkipValue(); err != nil {
			return err
		}
	}
	return nil
}

// readError turns an error of the decoder into what happened on the wire. An end inside a value is
// io.ErrUnexpectedEOF, whatever the decoder makes of it.
func (f *frames) readError(err error) error {
	switch {
	case errors.Is(err, ErrFrameTooLarge):
		return ErrFrameTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// fields walks a JSON object and calls each with every name; each must read or skip the value.
func (f *frames) fields(each func(name string) error) error {
	tok, err := f.dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("want a JSON object, got %s", tok.Kind())
	}
	for {
		tok, err := f.dec.ReadToken()
		if err != nil {
			return f.readError(err)
		}
		if tok.Kind() == '}' {
			return nil
		}
		if err := each(tok.String()); err != nil {
			return err
		}
	}
}

// newFramesOf reads from a value that is already in memory.
func newFramesOf(v jsontext.Value) *frames { return newFrames(bytes.NewReader(v)) }
