package kube

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Right is a permission on one resource, like a rule of a Role. Each controller declares a table of Rights: its client
// is limited to them, and the shipped Roles are made from the same table.
type Right struct {
	Resource    Resource
	Subresource string // "": the objects themselves
	Verbs       []string
	Why         string // purpose, for the reader of a Role
}

// String is the name used in a rule of a Role, with the API group: "webservers.skiff.dev/status".
func (r Right) String() string {
	if r.Subresource == "" {
		return r.Resource.GroupResource()
	}
	return r.Resource.GroupResource() + "/" + r.Subresource
}

// ErrNotDeclared is the error of a request not sent by a limited client.
var ErrNotDeclared = errors.New("the right is not declared")

// grant is a verb on a resource.
type grant struct{ group, plural, subresource, verb string }

// Limit returns a client that sends only requests covered by the rights. Any other request fails with ErrNotDeclared,
// so that a controller with an incomplete table fails in tests and not in a cluster. Connections and existing limits
// of c are shared.
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

// Guard returns a client that sends a write only if ok returns nil just before. Connections and existing guards of c
// are shared.
func (c *Client) Guard(ok func() error) *Client {
	guarded := *c
	guarded.guards = append(slices.Clip(c.guards), ok)
	return &guarded
}

// guarded fails for a write refused by a guard.
func (c *Client) guarded(r *request) error {
	for _, ok := range c.guards {
		if err := ok(); err != nil && r.write() {
			return &NoAnswerError{Err: fmt.Errorf("not sent: %w", err)}
		}
	}
	return nil
}

// covered fails for a request outside of the limits.
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

// rbacVerb is the verb of the request in RBAC rules.
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
