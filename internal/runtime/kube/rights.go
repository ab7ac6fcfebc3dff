package kube

import (
	"errors"
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
	Optional    bool   // the resource need not be served; where it is, the right is missed like any other
}

// Needed returns the rights that are not optional.
func Needed(rights []Right) []Right {
	return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool { return r.Optional })
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
