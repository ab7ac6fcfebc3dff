package cli

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
)

const (
	// maxNearby bounds the objects that are read for a suggestion.
	maxNearby = 500
	// maxOwners is how far up the owners of an object are followed: pod, ReplicaSet, Deployment, WebServer.
	maxOwners = 5
	// maxPlaces is how many namespaces a suggestion names.
	maxPlaces = 3
)

// keysOf returns the objects of a resource, at most maxNearby, for a suggestion: none where they may not be listed.
// A name selects those of that name.
func keysOf(ctx context.Context, c *kube.Client, r kube.Resource, namespace, name string) (keys []kube.Key) {
	path, err := r.Path(namespace, "")
	if err != nil {
		return nil
	}
	query := url.Values{"limit": {"500"}} // maxNearby
	if name != "" {
		query.Set("fieldSelector", "metadata.name="+name)
	}
	body, err := c.Raw(ctx, http.MethodGet, path, query)
	if err != nil {
		return nil
	}
	var list struct {
		Items []struct {
			kube.Meta `json:"metadata"`
		} `json:"items"`
	}
	if kube.Unmarshal(body, &list) != nil {
		return nil
	}
	for _, item := range list.Items[:min(len(list.Items), maxNearby)] {
		keys = append(keys, item.Key())
	}
	return keys
}

// askNamespace asks for the namespace with a name like a mistyped one, "" where there is none or namespaces may not be
// listed.
func askNamespace(ctx context.Context, c *kube.Client, name string) string {
	return nearest.Ask(name, names(keysOf(ctx, c, namespaceResource, "", "")), "", "")
}

func names(keys []kube.Key) (out []string) {
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return out
}

// elsewhere names the other namespaces that have an object of a key's name, or a similar name; "" if there is none.
func elsewhere(ctx context.Context, c *kube.Client, r kube.Resource, k kube.Key) string {
	var places []string
	for _, found := range keysOf(ctx, c, r, "", k.Name) {
		places = append(places, found.Namespace)
	}
	if len(places) > maxPlaces {
		places = append(places[:maxPlaces], "others")
	}
	if len(places) > 0 && !r.ClusterScoped {
		return "it is in " + strings.Join(places, ", ")
	}
	return nearest.Ask(k.Name, names(keysOf(ctx, c, r, k.Namespace, "")), strings.ToLower(r.Kind)+"/", "")
}

// ownerAmong follows the controller references of an object up to an object of the resources, and returns that owner
// and the kind.
func ownerAmong(ctx context.Context, c *kube.Client, r kube.Resource, k kube.Key, all []kube.Resource) (
	owner kube.Resource, name string, found bool) {
	for range maxOwners {
		var object struct {
			kube.Meta `json:"metadata"`
		}
		if c.Get(ctx, r, k, &object) != nil {
			return owner, "", false
		}
		i := slices.IndexFunc(object.OwnerReferences, func(o kube.OwnerReference) bool { return o.Controller })
		if i < 0 {
			return owner, "", false
		}
		ref := object.OwnerReferences[i]
		for _, candidate := range all {
			if candidate.Kind == ref.Kind && candidate.APIVersion() == ref.APIVersion {
				return candidate, ref.Name, true
			}
		}
		group, version, grouped := strings.Cut(ref.APIVersion, "/")
		if !grouped {
			group, version = "", ref.APIVersion
		}
		next, exists, err := discovery.Find(ctx, c, group, version, strings.ToLower(ref.Kind))
		if err != nil || !exists {
			return owner, "", false
		}
		if r, k = next.Resource, (kube.Key{Namespace: k.Namespace, Name: ref.Name}); r.ClusterScoped {
			k.Namespace = ""
		}
	}
	return owner, "", false
}
