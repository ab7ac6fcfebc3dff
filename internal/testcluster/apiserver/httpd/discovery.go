package httpd

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// serveKinds answers discovery requests: the aggregated form, the older form of one document per group and version,
// and the OpenAPI schemas.
func serveKinds(w http.ResponseWriter, r *http.Request, path string, docs *OpenAPI, all []*kinds.Kind) error {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	core := func(k *kinds.Kind) bool { return k.Group == "" }
	named := func(k *kinds.Kind) bool { return k.Group != "" }
	switch {
	case path == "/api":
		return root(w, r, keepKinds(all, core), map[string]any{"kind": "APIVersions", "versions": []any{"v1"},
			"serverAddressByClientCIDRs": []any{map[string]any{"clientCIDR": "0.0.0.0/0", "serverAddress": r.Host}}})
	case path == "/apis":
		return root(w, r, keepKinds(all, named), map[string]any{"kind": "APIGroupList", "apiVersion": "v1",
			"groups": groupList(keepKinds(all, named))})
	case path == "/api/v1", parts[0] == "apis" && len(parts) == 3:
		if version := keepKinds(all, func(k *kinds.Kind) bool { return k.Root() == path }); len(version) > 0 {
			return document(w, r, resourceList(version))
		}
	case parts[0] == "apis" && len(parts) == 2 && parts[1] != "":
		groups := groupList(keepKinds(all, func(k *kinds.Kind) bool { return k.Group == parts[1] }))
		if len(groups) > 0 {
			group := groups[0].(map[string]any)
			group["kind"], group["apiVersion"] = "APIGroup", "v1"
			return document(w, r, group)
		}
	case parts[0] == "openapi":
		return docs.serve(w, r, parts[1:], all)
	}
	return NoSuchPath
}

func keepKinds(all []*kinds.Kind, keep func(*kinds.Kind) bool) []*kinds.Kind {
	return slices.DeleteFunc(slices.Clone(all), func(k *kinds.Kind) bool { return !keep(k) })
}

// document answers with one in JSON, if the client takes that.
func document(w http.ResponseWriter, r *http.Request, doc any) error {
	if !accepts(r, "application/json") {
		return NotAcceptable("only the following media types are accepted: application/json")
	}
	JSON(w, http.StatusOK, doc)
	return nil
}

// root answers /api and /apis in the form that the client prefers. The ETag is a hash of the content, so that clients
// can ask for changes.
func root(w http.ResponseWriter, r *http.Request, ks []*kinds.Kind, plain map[string]any) error {
	if !prefersAggregated(r) {
		return document(w, r, plain)
	}
	w.Header().Set("Vary", "Accept")
	body := Encode(map[string]any{"kind": "APIGroupDiscoveryList",
		"apiVersion": "apidiscovery.k8s.io/v2", "metadata": map[string]any{}, "items": aggregated(ks)})
	h := w.Header()
	// Clients take the form from the Content-Type, so it must be exactly this.
	h.Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	h.Set("Cache-Control", "public")
	etag := `"` + hash(body) + `"`
	h.Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	Bytes(w, http.StatusOK, body)
	return nil
}

// Clause is a media type that a client accepts.
type Clause struct {
	MediaType string
	Params    map[string]string
	weight    float64
}

// Accepted returns what a client accepts, what it likes best first.
func Accepted(r *http.Request) (out []Clause) {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mt, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		c := Clause{mt, params, 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			c.weight = q
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Clause) int { return cmp.Compare(b.weight, a.weight) })
	return out
}

func prefersAggregated(r *http.Request) bool {
	for _, c := range Accepted(r) {
		as := c.Params["as"]
		aggregated := as == "APIGroupDiscoveryList" && c.Params["g"] == "apidiscovery.k8s.io" && c.Params["v"] == "v2"
		if c.MediaType == "application/json" && (aggregated || as == "") {
			return aggregated
		}
	}
	return false
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// group is one with its versions, in the order of discovery.
type group struct {
	name     string
	versions []string
}

func groupsOf(ks []*kinds.Kind) (out []*group) {
	for _, k := range ks {
		i := slices.IndexFunc(out, func(g *group) bool { return g.name == k.Group })
		if i < 0 {
			i, out = len(out), append(out, &group{name: k.Group})
		}
		if g := out[i]; !slices.Contains(g.versions, k.Version) {
			g.versions = append(g.versions, k.Version)
			slices.SortStableFunc(g.versions, kinds.CompareVersions)
		}
	}
	return out
}

func aggregated(ks []*kinds.Kind) []any {
	return obj.Each(groupsOf(ks), func(g *group) any {
		versions := obj.Each(g.versions, func(version string) any {
			of := keepKinds(ks, func(k *kinds.Kind) bool { return k.Group == g.name && k.Version == version })
			return map[string]any{"version": version, "resources": obj.Each(of, aggregatedResource),
				"freshness": "Current"}
		})
		return map[string]any{"metadata": obj.OmitEmpty(map[string]any{"name": g.name}), "versions": versions}
	})
}

func aggregatedResource(k *kinds.Kind) any {
	scope := "Namespaced"
	if k.ClusterScoped {
		scope = "Cluster"
	}
	subs := obj.Each(subresources(k), func(sub *kinds.Subresource) any {
		return map[string]any{"subresource": sub.Name, "verbs": obj.Anys(sub.Verbs),
			"responseKind": responseKind(sub.Sent(k), k.Custom || sub.Kind.Group != "")}
	})
	return obj.OmitEmpty(map[string]any{"resource": k.Plural, "responseKind": responseKind(k, k.Custom),
		"scope": scope, "singularResource": singular(k), "verbs": obj.Anys(k.Verbs()), "subresources": subs,
		"shortNames": obj.Anys(k.ShortNames), "categories": obj.Anys(k.Categories)})
}

// responseKind is a kind in aggregated discovery, where the group and version of most built-in kinds are empty.
func responseKind(k *kinds.Kind, full bool) map[string]any {
	if full {
		return kindRef(k.Resource)
	}
	return kindRef(kube.Resource{Kind: k.Kind})
}

func kindRef(k kube.Resource) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func singular(k *kinds.Kind) string {
	if k.Singular != "" {
		return k.Singular
	}
	return strings.ToLower(k.Kind)
}

// subresources returns those of a kind in the real server's order.
func subresources(k *kinds.Kind) []*kinds.Subresource {
	out := k.Subresources()
	if k.Custom {
		slices.Reverse(out)
	}
	return out
}

func groupList(ks []*kinds.Kind) []any {
	return obj.Each(groupsOf(ks), func(g *group) any {
		versions := obj.Each(g.versions, func(v string) any {
			return map[string]any{"groupVersion": g.name + "/" + v, "version": v}
		})
		return map[string]any{"name": g.name, "versions": versions, "preferredVersion": versions[0]}
	})
}

// resourceList is a document of the older form, in which subresources are entries of their own.
func resourceList(ks []*kinds.Kind) map[string]any {
	var list []any
	for _, k := range ks {
		entry := obj.OmitEmpty(map[string]any{"name": k.Plural, "singularName": singular(k),
			"namespaced": !k.ClusterScoped, "kind": k.Kind, "verbs": obj.Anys(k.Verbs()),
			"shortNames": obj.Anys(k.ShortNames), "categories": obj.Anys(k.Categories)})
		if k.Review == nil && !k.ReadOnly {
			// StorageVersionHash in k8s.io/apiserver
			sum := sha256.Sum256([]byte(k.Group + "/" + k.Version + "/" + k.Kind))
			entry["storageVersionHash"] = base64.StdEncoding.EncodeToString(sum[:8])
		}
		list = append(list, entry)
		for _, sub := range subresources(k) {
			e := map[string]any{"name": k.Plural + "/" + sub.Name, "singularName": "", "namespaced": !k.ClusterScoped,
				"kind": sub.Sent(k).Kind, "verbs": obj.Anys(sub.Verbs)}
			if sub.Kind.Group != "" {
				e["group"], e["version"] = sub.Kind.Group, sub.Kind.Version
			}
			list = append(list, e)
		}
	}
	out := map[string]any{"kind": "APIResourceList", "groupVersion": ks[0].APIVersion(), "resources": list}
	if ks[0].Group != "" { // a quirk of the real server
		out["apiVersion"] = "v1"
	}
	return out
}
