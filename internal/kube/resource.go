package kube

import "strings"

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

// Path returns the URL path below the server's own: of the collection where name is empty, of all namespaces
// where namespace is empty, of a subresource where one is given. A cluster-scoped resource never gets a
// namespace in its path.
func (r Resource) Path(namespace, name string, subresource ...string) string {
	parts := make([]string, 0, 9)
	if r.Group == "" {
		parts = append(parts, "/api", r.Version)
	} else {
		parts = append(parts, "/apis", r.Group, r.Version)
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
	return strings.Join(parts, "/")
}

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
