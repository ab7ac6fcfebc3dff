package cache

import (
	"slices"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// The reasons of a NotServed.
const (
	NotSynced   = "NotSynced"   // the first list is not complete
	OutOfScope  = "OutOfScope"  // left out by the options of the mirror, and waiting does not help
	Undecodable = "Undecodable" // no version has come yet that fits the declared struct
	OverBudget  = "OverBudget"  // the objects of the namespace take more memory than there is
	TooLarge    = "TooLarge"    // the object takes more memory than allowed
)

// NotServed is the answer to a read that the mirror can answer neither with an object nor with its absence: nothing
// follows from a NotServed.
type NotServed struct {
	health.Problem
	Resource kube.Resource
	Key      kube.Key // without a name: about a namespace, without both: about the mirror

	// The rest is known of an object not held for lack of memory, unless there are very many; else UID is "".

	UID, ResourceVersion string
	Generation           int64
	Size                 int64 // memory the object would take, about
	Deleting             bool  // the object is being deleted
	Reported             bool  // see Reported

	cause error // why a list fails, or an object does not decode; nil: no error is behind
}

// Error returns why there is no answer, and the next step.
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

// Unserved returns the first NotServed in err with any of some reasons, or any where no reason is given, or nil. All
// parts of a joined error are searched.
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

// Unheld returns the first NotServed in err about memory, or nil.
func Unheld(err error) *NotServed { return Unserved(err, OverBudget, TooLarge) }
