package kube

import (
	"fmt"
	"strings"
)

// Resource names one kind of object that a server serves, and where. It is data: a controller declares the
// resources that it watches and writes, nothing is discovered at run time.
type Resource struct {
	Group         string // "" for the core group
	Version       string // "v1"
	Plural        string // the name in URLs: "deployments"
	Kind          string // "Deployment"
	ClusterScoped bool   // true: no namespace in the URL
}

// APIVersion returns group and version as objects carry them: "apps/v1", or "v1" for the core group.
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// GroupResource returns the name that kubectl and RBAC errors use: "webservers.skiff.dev", "pods".
func (r Resource) GroupResource() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}

// String is GroupResource.
func (r Resource) String() string { return r.GroupResource() }

// Root returns the URL path of the resource's group and version: "/apis/apps/v1".
func (r Resource) Root() string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}

// Path returns the URL path below the server's own: of the collection where name is empty, of all namespaces where
// namespace is empty, of a subresource where one is given. A cluster-scoped resource never gets a namespace in its
// path. A part that would change what the path names is an error: names come from users, and a proxy that normalizes
// paths makes another object of "../../other/pods/web".
func (r Resource) Path(namespace, name string, subresource ...string) (string, error) {
	parts := append(make([]string, 0, 9), "apis", r.Group, r.Version)
	if r.Group == "" {
		parts = append(parts[:0], "api", r.Version)
	}
	if namespace != "" && !r.ClusterScoped {
		parts = append(parts, "namespaces", namespace)
	}
	parts = append(parts, r.Plural)
	if name != "" {
		parts = append(parts, name)
		for _, s := range subresource {
			if s != "" {
				parts = append(parts, s)
			}
		}
	}
	for _, part := range parts {
		if !isSegment(part) {
			return "", fmt.Errorf("%q cannot be part of a URL path of %s", Printable(part, maxQuoted), r)
		}
	}
	return "/" + strings.Join(parts, "/"), nil
}

// isSegment says whether s is one segment of a path, also behind a proxy that decodes and normalizes paths.
func isSegment(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > maxSegment {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c >= 0x7f, c == '/', c == '\\', c == '%', c == '?', c == '#':
			return false
		}
	}
	return true
}

// maxSegment is the longest name that an API server takes (RFC 1123 subdomain).
const maxSegment = 253

// Key is the name of an object within its resource. It says where an object is, not which one: an object
// that was deleted and created again has the same Key and another UID.
type Key struct {
	Namespace string // "" for a cluster-scoped object
	Name      string
}

// String returns "namespace/name", or the name alone for a cluster-scoped object.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare orders keys by namespace, then name, as the server orders a list.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, o.Name)
}
