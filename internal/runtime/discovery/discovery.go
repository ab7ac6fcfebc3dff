// Package discovery finds resources by the names that users and rules give them, in what the server says it serves.
//
// Its job is one question and one answer: it keeps nothing, does not follow what is installed later, and does not know
// what the user may do with a resource. It runs on the goroutine of the caller, and is on no event path.
package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
)

// Resource is a resource as the server serves it.
type Resource struct {
	kube.Resource
	Status bool // it has a status subresource
}

// apiResource is one entry of a discovery document (meta/v1 APIResource).
type apiResource struct {
	Name         string   `json:"name"`
	SingularName string   `json:"singularName"`
	Kind         string   `json:"kind"`
	Namespaced   bool     `json:"namespaced"`
	ShortNames   []string `json:"shortNames"`
	Verbs        []string `json:"verbs"`
}

// is reports whether name, as a user types it, is a name of this resource.
func (r apiResource) is(name string) bool {
	return name == r.Name || name == r.SingularName || name == strings.ToLower(r.Kind) ||
		slices.Contains(r.ShortNames, name)
}

// names returns the names that a mistyped one is compared with, none of a subresource.
func (r apiResource) names() []string {
	if strings.Contains(r.Name, "/") {
		return nil
	}
	return []string{r.Name, r.SingularName}
}

// ServerVersion asks a server for its version.
func ServerVersion(ctx context.Context, c *kube.Client) (string, error) {
	body, err := c.Raw(ctx, http.MethodGet, "/version", nil)
	if err != nil {
		return "", err
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &v); err != nil || v.GitVersion == "" {
		return "", fmt.Errorf("%s/version: the response is not that of an API server: check the address, and whether "+
			"a proxy answers instead", c.Server())
	}
	return kube.Text(v.GitVersion), nil
}

// versionName matches a version, and so tells RESOURCE.VERSION.GROUP from RESOURCE.GROUP.
var versionName = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// Resolve finds a resource by its plural, singular or short name or its kind, each optionally followed by ".GROUP" or
// by ".VERSION.GROUP". As in kubectl, the core group, "" in "pods.v1.", comes first, then the other groups in the
// server's order, each in its preferred version. A group that does not answer (an extension server that is down) hides
// no other group.
func Resolve(ctx context.Context, c *kube.Client, name string) (Resource, error) {
	want, group, qualified := strings.Cut(strings.ToLower(name), ".")
	var names []string // of the resources looked at
	find := func(group, version string) (Resource, bool, error) {
		all, err := served(ctx, c, group, version)
		for _, a := range all {
			names = append(names, a.names()...)
		}
		if err != nil {
			return Resource{}, false, err
		}
		return pick(all, group, version, want)
	}
	if version, of, ok := strings.Cut(group, "."); ok && versionName.MatchString(version) {
		if r, found, err := find(of, version); found || err != nil {
			return r, err
		}
	}
	var broken []error
	if !qualified {
		r, found, err := find("", "v1")
		if found || err != nil {
			return r, err // every server has the core group: an error here is an error for all groups
		}
	}
	var groups struct {
		Groups []struct {
			Name             string `json:"name"`
			PreferredVersion struct {
				Version string `json:"version"`
			} `json:"preferredVersion"`
		} `json:"groups"`
	}
	if err := discover(ctx, c, "/apis", &groups); err != nil {
		return Resource{}, err
	}
	for _, g := range groups.Groups {
		if qualified && g.Name != group {
			continue
		}
		r, found, err := find(g.Name, g.PreferredVersion.Version)
		if found && err == nil {
			return r, nil
		}
		if ctx.Err() != nil || found {
			return Resource{}, err
		}
		if err != nil {
			broken = append(broken, err)
		}
	}
	after := ""
	if qualified {
		after = "." + group
	}
	near := nearest.Ask(want, names, "", after)
	if len(broken) > 0 {
		return Resource{}, fmt.Errorf("find resource %q: %sno API group that answered has it: %w", name,
			strings.TrimPrefix(near+" ", " "), errors.Join(broken...))
	}
	return Resource{}, fmt.Errorf("the server has no resource %q: %s", name,
		cmp.Or(near, "see `kubectl api-resources`"))
}

// Find looks for a resource in one group version, which need not exist. An error with found set is about the resource
// itself.
func Find(ctx context.Context, c *kube.Client, group, version, want string) (r Resource, found bool, err error) {
	all, err := served(ctx, c, group, version)
	if err != nil {
		return Resource{}, false, err
	}
	return pick(all, group, version, want)
}

// served is resources for a group version that need not exist. The core group exists on each API server.
func served(ctx context.Context, c *kube.Client, group, version string) ([]apiResource, error) {
	all, err := resources(ctx, c, group, version)
	if kube.IsNotFound(err) && group != "" {
		return nil, nil
	}
	return all, err
}

// pick returns the resource with a name of all that a group version has.
func pick(all []apiResource, group, version, want string) (r Resource, found bool, err error) {
	r = Resource{Resource: kube.Resource{Group: group, Version: version}}
	for _, a := range all {
		if strings.Contains(a.Name, "/") || !a.is(want) { // a slash: a subresource
			continue
		}
		r.Plural, r.Kind, r.ClusterScoped = a.Name, a.Kind, !a.Namespaced
		r.Status = slices.ContainsFunc(all, func(s apiResource) bool { return s.Name == a.Name+"/status" })
		if !slices.Contains(a.Verbs, "list") || !slices.Contains(a.Verbs, "watch") {
			return r, true, fmt.Errorf("%s cannot be listed and watched: the server offers only %s", r,
				strings.Join(a.Verbs, ", "))
		}
		return r, true, nil
	}
	return Resource{}, false, nil
}

// NearestKind returns the kind of a group version that a mistyped one is like, "" if there is none.
func NearestKind(ctx context.Context, c *kube.Client, group, version, kind string) string {
	return nearestOf(ctx, c, group, version, kind, func(r apiResource) string { return r.Kind })
}

// NearestPlural is NearestKind for the plural of a resource.
func NearestPlural(ctx context.Context, c *kube.Client, group, version, plural string) string {
	return nearestOf(ctx, c, group, version, plural, func(r apiResource) string { return r.Name })
}

func nearestOf(ctx context.Context, c *kube.Client, group, version, word string,
	name func(apiResource) string) string {
	all, err := resources(ctx, c, group, version)
	if err != nil {
		return ""
	}
	var names []string
	for _, r := range all {
		if !strings.Contains(r.Name, "/") { // a slash: a subresource
			names = append(names, name(r))
		}
	}
	return nearest.Of(word, names)
}

// resources reads what a group version has.
func resources(ctx context.Context, c *kube.Client, group, version string) ([]apiResource, error) {
	var list struct {
		Resources []apiResource `json:"resources"`
	}
	path := "/apis/" + (kube.Resource{Group: group, Version: version}).APIVersion()
	if group == "" {
		path = "/api/" + version
	}
	err := discover(ctx, c, path, &list)
	return list.Resources, err
}

// discover reads one discovery document.
func discover(ctx context.Context, c *kube.Client, path string, into any) error {
	body, err := c.Raw(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf(
			"read %s%s: the response is not JSON from an API server: %w: check the address, and whether "+
				"a proxy answers instead", c.Server(), path, err)
	}
	return nil
}
