package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

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
	c = c.derive()
	c.granted = nil // discovery is about no resource, so that no Right declares it
	if r.Group == "" || !c.discover(ctx, "/apis/"+r.Group, &group) {
		return nil
	}
	for _, v := range group.Versions[:min(len(group.Versions), maxVersions)] {
		other := r
		other.Version = v.Version
		if v.Version != r.Version && c.serves(ctx, other) {
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
