package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// DryRun returns a client that changes nothing: each write is sent with dryRun=All, reads are sent unchanged, and
// watches are not sent. A reader of a watch waits until the context ends. The new client shares the connections,
// limits and guards of c.
func (c *Client) DryRun(d DryRun) *Client {
	dry := *c
	dry.dry = &d
	return &dry
}

// dryRunAll is the value of the parameter.
const dryRunAll = "All"

// tryObject sends the request of a dry client about one object, and calls Told.
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
		reader.granted = nil // a read for the report, not for the controller
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

// rawOrNil returns the target for an answer, nil for a nil pointer, which would be an interface other than nil.
func rawOrNil(raw *Raw) any {
	if raw == nil {
		return nil
	}
	return raw
}

// tryStream replaces a watch of a dry client: a streaming list is refused, as by a server without streaming lists, and
// a watch waits for the end of ctx.
func (c *Client) tryStream(ctx context.Context, r *request) error {
	if r.query.Get("sendInitialEvents") != "" {
		no := &Status{Status: "Failure", Code: http.StatusBadRequest, Message: "a dry run lists in pages"}
		return no.withReason()
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// dryOnly fails for a request of a dry client with an effect.
func (c *Client) dryOnly(r *request) error {
	if c.dry != nil && r.write() && r.query.Get("dryRun") != dryRunAll {
		return errors.New("not sent: it is no dry run")
	}
	return nil
}
