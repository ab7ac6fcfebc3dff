package leader

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// Holder is who holds a Lease, for a process that is no candidate for it.
type Holder struct {
	Lease    kube.Key
	Identity string // "": nobody
	Renewed  string // when it renewed the Lease last, as it wrote that, by its own clock
}

// Host returns the host name in an identity that an Elector made: in a pod, the name of the pod.
func (h Holder) Host() string {
	host, _, _ := strings.Cut(h.Identity, "_")
	return host
}

// Held lists the Leases of a name in a namespace, "" for all namespaces, and at most so many of them. It needs the
// right to list Leases.
func Held(ctx context.Context, c *kube.Client, namespace, name string, most int) ([]Holder, error) {
	path, err := leases.Path(namespace, "")
	if err != nil {
		return nil, err
	}
	body, err := c.Raw(ctx, http.MethodGet, path, url.Values{"fieldSelector": {"metadata.name=" + name},
		"limit": {strconv.Itoa(most)}})
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []lease `json:"items"`
	}
	if err := kube.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read the Leases %s: %w", name, err)
	}
	var all []Holder
	for _, l := range list.Items[:min(len(list.Items), most)] {
		all = append(all, Holder{l.Key(), l.Spec.Holder, l.Spec.Renewed})
	}
	return all, nil
}
