package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Right is what a program must be allowed to do to one resource, as a rule of a Role says it. Each controller
// declares its own as a table: its client is limited to them, and the Roles that are shipped are written from them.
type Right struct {
	Resource    Resource
	Subresource string // "": the objects themselves
	Verbs       []string
	Why         string // what it is needed for, for the reader of a Role
}

// String is the name that a rule of a Role uses, with the API group: "webservers.skiff.dev/status".
func (r Right) String() string {
	if r.Subresource == "" {
		return r.Resource.GroupResource()
	}
	return r.Resource.GroupResource() + "/" + r.Subresource
}

// ErrNotDeclared is the error of a request that a limited client did not send.
var ErrNotDeclared = errors.New("the right is not declared")

// grant is one verb on one resource.
type grant struct{ group, plural, subresource, verb string }

// Limit returns a client that sends only requests that the rights cover. Any other fails with ErrNotDeclared, so that
// a controller whose table lacks a right fails in its tests and not in a cluster. It shares the connections of c;
// what c is limited to stays.
func (c *Client) Limit(rights []Right) *Client {
	granted := map[grant]bool{}
	for _, r := range rights {
		for _, verb := range r.Verbs {
			granted[grant{r.Resource.Group, r.Resource.Plural, r.Subresource, verb}] = true
		}
	}
	limited := *c
	limited.granted = append(slices.Clip(c.granted), granted)
	return &limited
}

// Guard returns a client that sends a write only if ok returns nil just before. It shares the connections of c; what
// guards c stays.
func (c *Client) Guard(ok func() error) *Client {
	guarded := *c
	guarded.guards = append(slices.Clip(c.guards), ok)
	return &guarded
}

// guarded fails for a write that a guard does not let through.
func (c *Client) guarded(r *request) error {
	for _, ok := range c.guards {
		if err := ok(); err != nil && r.write() {
			return &NoAnswerError{Err: fmt.Errorf("not sent: %w", err)}
		}
	}
	return nil
}

// covered fails for a request that the client is not to send.
func (c *Client) covered(r *request) error {
	for _, granted := range c.granted {
		want := grant{r.resource.Group, r.resource.Plural, r.subresource, r.rbacVerb()}
		if !granted[want] {
			return fmt.Errorf("%w: add %s on %s to the controller's Rights", ErrNotDeclared, want.verb,
				Right{Resource: r.resource, Subresource: r.subresource})
		}
	}
	return nil
}

// rbacVerb is what an API server calls the request when it looks for a rule that allows it.
func (r *request) rbacVerb() string {
	switch {
	case r.method == http.MethodPost:
		return "create"
	case r.method == http.MethodPatch:
		return "patch"
	case r.method == http.MethodDelete:
		return "delete"
	case r.query.Get("watch") == "true":
		return "watch"
	case r.verb == "get":
		return "get"
	}
	return "list"
}

// writesKey is where a context has its Writes.
type writesKey struct{}

// CountedWrite is a request that was to change something.
type CountedWrite struct {
	Verb string // "create", "patch", "patch status", "delete"
	What string // "deployments.apps default/web"
	Code int    // of the answer; 0: there was none
	Sent time.Time
	Took time.Duration // until the header of the answer
	// DryRun says that the server was asked whether it would do it. Of a create that tries a template, 409 means that
	// all but the name is fine: it is taken by the object that is to be replaced.
	DryRun bool
}

// Writes are those of a context.
type Writes struct {
	sent atomic.Int64
	most int // that are kept

	mu   sync.Mutex // guards kept
	kept []CountedWrite
}

// CountWrites returns a context that counts the writes which are sent with it, or with contexts derived from it, and
// keeps the first of them, at most keep.
func CountWrites(ctx context.Context, keep int) (context.Context, *Writes) {
	w := &Writes{most: keep}
	return context.WithValue(ctx, writesKey{}, w), w
}

// Sent returns how many there were.
func (w *Writes) Sent() int { return int(w.sent.Load()) }

// Kept returns the first ones that were answered.
func (w *Writes) Kept() []CountedWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.kept)
}

// WritesOf returns how many writes the context of CountWrites that ctx is derived from has counted.
func WritesOf(ctx context.Context) int64 {
	if w, ok := ctx.Value(writesKey{}).(*Writes); ok {
		return w.sent.Load()
	}
	return 0
}

// countWrite counts one write for the context of CountWrites, and returns what it is counted in; nil: nothing.
func countWrite(ctx context.Context) *Writes {
	w, _ := ctx.Value(writesKey{}).(*Writes)
	if w != nil {
		w.sent.Add(1)
	}
	return w
}

// answered keeps a write that was sent at a time, and how it ended.
func (w *Writes) answered(r *request, sent time.Time, resp *http.Response, err error) {
	if w == nil || w.most == 0 {
		return
	}
	one := CountedWrite{Verb: strings.TrimSuffix(r.verb+" "+r.subresource, " "), What: r.what, Sent: sent,
		Took: time.Since(sent), DryRun: r.query.Get("dryRun") == dryRunAll}
	if resp != nil {
		one.Code = resp.StatusCode
	} else if s := AsStatus(err); s != nil {
		one.Code = s.Code
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept) < w.most {
		w.kept = append(w.kept, one)
	}
}
