package kube

import (
	"fmt"
	"regexp"
	"strings"
)

// Resource names a kind of object on a server, with its URL. A Resource is data: a controller declares the resources
// to watch and write, nothing is discovered at run time.
type Resource struct {
	Group         string // "" for the core group
	Version       string // "v1"
	Plural        string // the name in URLs: "deployments"
	Kind          string // "Deployment"
	ClusterScoped bool   // true: no namespace in the URL
}

// APIVersion returns group and version as in objects: "apps/v1", or "v1" for the core group.
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// GroupResource returns the name used by kubectl and RBAC errors: "webservers.skiff.dev", "pods".
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

// Path returns the URL path below the URL of the server: of the collection if name is empty, of all namespaces if
// namespace is empty, of a subresource if given. A cluster-scoped resource never gets a namespace in the path. A part
// that would change the meaning of the path is an error: names come from users, and a proxy that normalizes paths
// makes another object of "../../other/pods/web".
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

// isSegment reports whether s is one segment of a path, also behind a proxy that decodes and normalizes paths.
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

// maxSegment is the longest name on an API server (RFC 1123 subdomain).
const maxSegment = 253

// Key is the name of an object within a resource: an object deleted and created again has the same Key and another
// UID.
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

// maxName is how many bytes the name of an object may have.
const maxName = 253

var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// ValidName reports whether s can be the name of an object of most kinds (RFC 1123 subdomain). Such a name is one
// segment of a URL.
func ValidName(s string) bool { return len(s) <= maxName && objectName.MatchString(s) }

// CompareRV compares two resource versions of one resource: -1, 0 or 1 as a is older than, the same as or newer than
// b. If comparable is false, only equality means anything: a resource version is comparable if all digits with no
// leading zero, of any length (KEP-5504; the conformance suite allows 128 bit, too much for an integer).
func CompareRV(a, b string) (order int, comparable bool) {
	if !numericRV(a) || !numericRV(b) {
		return strings.Compare(a, b), a == b && a != ""
	}
	if len(a) != len(b) {
		if len(a) < len(b) {
			return -1, true
		}
		return 1, true
	}
	return strings.Compare(a, b), true
}

func numericRV(s string) bool {
	if s == "" || s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// OtherVersionError is the 404 of a resource that the server has in other versions.
type OtherVersionError struct {
	Resource Resource
	Served   []string // the versions on the server
	Err      error    // the 404
}

// Error names the versions.
func (e *OtherVersionError) Error() string {
	return fmt.Sprintf("%v: the server has %s as %s and not as %s", e.Err, e.Resource, strings.Join(e.Served, ", "),
		e.Resource.Version)
}

// Unwrap returns the 404.
func (e *OtherVersionError) Unwrap() error { return e.Err }

// maxVersions bounds how many versions of a group are looked at.
const maxVersions = 8
