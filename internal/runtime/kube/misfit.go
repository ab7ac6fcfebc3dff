package kube

import (
	"errors"
	"fmt"
	"strings"
)

// misfit is the part of a value that does not fit the struct, with the path: "spec.ports[2].port".
type misfit struct {
	path string
	err  error
}

func (m *misfit) Error() string {
	if m.path == "" {
		return m.err.Error()
	}
	return strings.TrimPrefix(m.path, ".") + ": " + m.err.Error()
}
func (m *misfit) Unwrap() error { return m.err }

func wrongKind(want byte, v []byte) error {
	kinds := map[byte]string{
		'{': "an object", '[': "an array", '"': "a string", 't': "a boolean", 'f': "a boolean", 'n': "null"}
	got := kinds[v[0]]
	if got == "" {
		got = "a number"
	}
	return &misfit{err: fmt.Errorf("want %s, got %s", kinds[want], got)}
}

// keep returns the error to go on with after part of a value has failed with err: the first misfit, with the name of
// the part ahead of the path, or the error of a broken stream.
func keep(first *misfit, err error, part string) (*misfit, error) {
	bad, ok := err.(*misfit)
	switch {
	case !ok:
		return first, err
	case first != nil:
		return first, nil
	}
	bad.path = part + bad.path
	return bad, nil
}

// orNil is m as an error, which is nil if m is.
func (m *misfit) orNil() error {
	if m == nil {
		return nil
	}
	return m
}

func errLarge() error { return &misfit{err: ErrTooLarge} }

func errDeep() error { return &misfit{err: fmt.Errorf("nested more than %d deep", maxDepth)} }

// broken makes a misfit the error of the whole stream.
func broken(what string, err error) error {
	if bad := (*misfit)(nil); errors.As(err, &bad) {
		return fmt.Errorf("decode %s: %s", what, Text(bad.Error()))
	}
	return err
}

// contained makes a misfit the failure of its frame; any other error is the stream's.
func contained(failed, err error) (error, error) {
	if err == nil {
		return failed, nil
	}
	if bad := (*misfit)(nil); errors.As(err, &bad) {
		return &DecodeError{Err: bad}, nil
	}
	return failed, err
}
