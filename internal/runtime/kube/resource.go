package kube

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
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

// maxName is how many bytes the name of an object may have.
const maxName = 253

var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// ValidName says whether s can be the name of an object of most kinds (RFC 1123 subdomain). Such a name stays in its
// place in a URL.
func ValidName(s string) bool { return len(s) <= maxName && objectName.MatchString(s) }

// CompareRV compares two resource versions of one resource: -1, 0 or 1 as a is older than, the same as or
// newer than b. comparable is false where the rule does not hold, and then only equality means anything: a
// resource version is comparable if it is all digits with no leading zero, of any length (KEP-5504; the
// conformance suite allows 128 bit, so it is not parsed as a number).
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

// OtherVersionError is a 404 of a resource that the server has, but not in the version that was asked for.
type OtherVersionError struct {
	Resource Resource
	Served   []string // the versions that the server has it in
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

// OtherVersions returns the versions besides its own in which the server has a resource. It asks discovery, which all
// users may read; where that does not answer, there are none.
func (c *Client) OtherVersions(ctx context.Context, r Resource) (served []string) {
	var group struct {
		Versions []struct {
			Version string `json:"version"`
		} `json:"versions"`
	}
	free := *c
	free.granted = nil // discovery is about no resource, so that no Right declares it
	if r.Group == "" || !free.discover(ctx, "/apis/"+r.Group, &group) {
		return nil
	}
	for _, v := range group.Versions[:min(len(group.Versions), maxVersions)] {
		other := r
		other.Version = v.Version
		if v.Version != r.Version && free.serves(ctx, other) {
			served = append(served, Printable(v.Version, maxQuoted))
		}
	}
	return served
}

// serves says whether discovery has a resource in its version.
func (c *Client) serves(ctx context.Context, r Resource) bool {
	type entry struct {
		Name string `json:"name"`
	}
	var list struct {
		Resources []entry `json:"resources"`
	}
	return !strings.ContainsAny(r.Version, "/?#%") && c.discover(ctx, r.Root(), &list) &&
		slices.Contains(list.Resources, entry{r.Plural})
}

func (c *Client) discover(ctx context.Context, path string, into any) bool {
	body, err := c.Raw(ctx, http.MethodGet, path, nil)
	return err == nil && Unmarshal(body, into) == nil
}
