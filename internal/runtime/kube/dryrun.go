package kube

import (
	"errors"
)

// DryRun has the callbacks of a client made by [Client.DryRun]. They are called from any goroutine.
type DryRun struct {
	// Told is called with each write once the answer has come, except for writes that were dry runs anyway.
	Told func(Write)
	// StandIn returns the object that replaces the stored one, or nil. No request is sent for a stand-in.
	StandIn func(r Resource, k Key) Raw
	// Instead returns the merge patch to send in place of an apply; false: send the apply.
	Instead func(w *Write) (Raw, bool)
	// Answer returns a replacement for the answer to a refused write, or to a write of a stand-in; false: none.
	Answer func(w *Write) (Raw, bool)
}

// Write is one write of a client made by DryRun.
type Write struct {
	Verb        string // "create", "apply", "patch" or "delete"
	Resource    Resource
	Key         Key
	Subresource string
	Type        PatchType // of a patch
	Manager     string    // the field manager
	Body        Raw       // the body sent
	Before      Raw       // the object read just before; nil: none, or a create
	After       Raw       // the answer; of a deletion, nil
	Err         error     // the refusal of the server, or the error for a stand-in
	Local       bool      // After comes from DryRun.Answer and not from the server
}

// errStandIn is why no request is sent about a stand-in.
var errStandIn = errors.New("the object is only proposed")

// IsStandIn reports whether a write was not sent because the object is a stand-in.
func IsStandIn(err error) bool { return errors.Is(err, errStandIn) }

// dryRunAll is the value of the parameter.
const dryRunAll = "All"

// rawOrNil returns the target for an answer, nil for a nil pointer, which would be an interface other than nil.
func rawOrNil(raw *Raw) any {
	if raw == nil {
		return nil
	}
	return raw
}
