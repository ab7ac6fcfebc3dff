package cache

import (
	"slices"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// The reasons of a NotServed.
const (
	NotSynced   = "NotSynced"   // the first list is not complete
	OutOfScope  = "OutOfScope"  // the options of the mirror leave it out, and waiting does not help
	Undecodable = "Undecodable" // no version has come yet that fits the declared struct
	OverBudget  = "OverBudget"  // the objects of the namespace take more memory than there is
	TooLarge    = "TooLarge"    // the object takes more memory than one object may
)

// NotServed is the answer to a read that the mirror can answer neither with an object nor with its absence: nothing
// must be concluded from it.
type NotServed struct {
	health.Problem
	Resource kube.Resource
	Key      kube.Key // without a name it is about a namespace, without both about the mirror
	Size     int64    // what an object that is not held would take, about; 0: that is not known

	cause error // why a list fails, or an object does not decode; nil: there is no error behind it
}

// Error returns why there is no answer, and what to do.
func (e *NotServed) Error() string {
	text := e.Public
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Next != "" {
		text += "; " + e.Next
	}
	return text
}

func (e *NotServed) Unwrap() error { return e.cause }

// Unserved returns the first NotServed in err that has one of some reasons, or any where none is given; nil: there is
// none. It looks at all parts of a joined error.
func Unserved(err error, reasons ...string) *NotServed {
	switch e := err.(type) {
	case nil:
		return nil
	case *NotServed:
		if len(reasons) == 0 || slices.Contains(reasons, e.Reason) {
			return e
		}
		return Unserved(e.cause, reasons...)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if found := Unserved(part, reasons...); found != nil {
				return found
			}
		}
	case interface{ Unwrap() error }:
		return Unserved(e.Unwrap(), reasons...)
	}
	return nil
}

// Unheld returns the first NotServed in err that is about memory, or nil.
func Unheld(err error) *NotServed { return Unserved(err, OverBudget, TooLarge) }
