package kube

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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
