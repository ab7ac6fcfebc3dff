package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// DryRun says what becomes of the writes of a client made by [Client.DryRun]. Its functions are called from any
// goroutine.
type DryRun struct {
	// Told is called with each write when its answer is there, but for those that were dry runs anyway.
	Told func(Write)
	// StandIn returns the object that stands for the stored one, nil where there is none. No request is sent about it.
	StandIn func(r Resource, k Key) Raw
	// Instead returns the merge patch that is sent in the place of an apply; false: the apply is.
	Instead func(w *Write) (Raw, bool)
	// Answer returns what stands for the answer to a write that the server has refused, or that is about a stand-in;
	// false: there is nothing.
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
	Body        Raw       // what was sent
	Before      Raw       // the object as it was read just before; nil: there was none, or it is a create
	After       Raw       // the answer; of a deletion, nil
	Err         error     // the server refused it, or was not asked because it is about a stand-in
	Local       bool      // After is no answer of the server, but what DryRun.Answer made of Err
}

// errStandIn is why no request is sent about a stand-in.
var errStandIn = errors.New("the object is only proposed")

// IsStandIn says that a write was not sent because its object is a stand-in.
func IsStandIn(err error) bool { return errors.Is(err, errStandIn) }

// DryRun returns a client that changes nothing: it sends each write with dryRun=All, and all else of it as it is, and
// no watch. A reader of watches waits until its context ends. It shares the connections of c; what c is limited to,
// and what guards it, stays.
func (c *Client) DryRun(d DryRun) *Client {
	dry := *c
	dry.dry = &d
	return &dry
}

// dryRunAll is the value of the parameter.
const dryRunAll = "All"

// tryObject sends the request of a dry client about one object, and has it told.
func (c *Client) tryObject(ctx context.Context, req request, r Resource, k Key, into any) error {
	standIn := c.dry.StandIn(r, k)
	if !req.write() {
		if standIn != nil {
			return Unmarshal(standIn, into)
		}
		return c.exchange(ctx, req, r, k, into)
	}
	if err := c.covered(&req); err != nil {
		return req.wrap(err)
	}
	w := Write{Verb: req.verb, Resource: r, Key: k, Subresource: req.subresource, Type: PatchType(req.contentType),
		Manager: req.query.Get("fieldManager"), Body: req.body, Before: standIn}
	if w.Before == nil && req.method != http.MethodPost {
		reader := *c
		reader.granted = nil // it reads for the report, not for the controller
		if err := reader.Get(ctx, r, k, &w.Before); err != nil && !IsNotFound(err) {
			return err
		}
	}
	if body, ok := c.instead(&w); ok && standIn == nil {
		req.body, req.contentType = body, string(MergePatch)
		req.query.Del("force")
		req.query.Set("fieldValidation", "Strict") // as an apply is
	}
	anyway := req.query.Get("dryRun") != ""
	if req.query == nil {
		req.query = url.Values{}
	}
	req.query.Set("dryRun", dryRunAll)
	answer := &w.After
	if w.Err = errStandIn; standIn == nil {
		if req.method == http.MethodDelete {
			answer = nil
		}
		w.Err = c.exchange(ctx, req, r, k, rawOrNil(answer))
	}
	if w.Err != nil {
		if w.After, w.Local = c.dry.Answer(&w); !w.Local {
			w.After = nil
		}
	}
	if !anyway {
		c.dry.Told(w)
	}
	switch {
	case w.Err != nil && !w.Local:
		return w.Err
	case into != nil && w.After != nil:
		if err := Unmarshal(w.After, into); err != nil {
			return req.wrap(fmt.Errorf("decode the answer: %w", err))
		}
	}
	return nil
}

func (c *Client) instead(w *Write) (Raw, bool) {
	if w.Type != ApplyPatch {
		return nil, false
	}
	return c.dry.Instead(w)
}

// rawOrNil returns what to decode an answer into; nil for a nil pointer, which would be a value that is not nil.
func rawOrNil(raw *Raw) any {
	if raw == nil {
		return nil
	}
	return raw
}

// tryStream is what a dry client does in the place of a watch. A server that does not stream lists says no to one.
func (c *Client) tryStream(ctx context.Context, r *request) error {
	if r.query.Get("sendInitialEvents") != "" {
		no := &Status{Status: "Failure", Code: http.StatusBadRequest, Message: "a dry run lists in pages"}
		return no.withReason()
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// dryOnly fails for a request that would change something although the client is for dry runs.
func (c *Client) dryOnly(r *request) error {
	if c.dry != nil && r.write() && r.query.Get("dryRun") != dryRunAll {
		return errors.New("not sent: it is no dry run")
	}
	return nil
}
