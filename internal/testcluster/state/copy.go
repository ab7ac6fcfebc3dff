package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/obj"
)

// Scope is what is copied of a cluster.
type Scope struct {
	Rights     []kube.Right // of the controllers: what they read is copied
	Namespaces []string     // empty: all
	Selector   string       // of namespaces; "": none
	Named      []Named      // what is copied beside that, by name
}

// Named is an object that is copied by its name.
type Named struct {
	kube.Resource
	kube.Key
}

var (
	definitions = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
		Kind: "CustomResourceDefinition", ClusterScoped: true}
	namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	nodes      = kube.Resource{Version: "v1", Plural: "nodes", Kind: "Node", ClusterScoped: true}
	// makers are what the simulated cluster has to know beside what controllers read: the pods, and which template
	// each was made from.
	makers = []kube.Resource{
		{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet"},
		{Group: "apps", Version: "v1", Plural: "controllerrevisions", Kind: "ControllerRevision"},
		{Version: "v1", Plural: "pods", Kind: "Pod"},
	}
	// bounds decide which pods and claims there may be, and what pods ask for.
	bounds = []kube.Resource{
		{Version: "v1", Plural: "limitranges", Kind: "LimitRange"},
		{Version: "v1", Plural: "resourcequotas", Kind: "ResourceQuota"},
	}
	// never are resources that are not copied because a controller reads them: they say nothing about what is
	// declared, or are copied anyway.
	never = []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "namespaces", "nodes",
		"limitranges", "resourcequotas",
		"customresourcedefinitions.apiextensions.k8s.io"}
)

// Copy reads what controllers see of a cluster.
func Copy(ctx context.Context, c *kube.Client, scope Scope) (*State, error) {
	version, err := discovery.ServerVersion(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &copying{State: &State{Server: version}, client: c}
	resources, err := s.resources(ctx, scope.Rights)
	if err != nil {
		return nil, err
	}
	if err := s.cluster(ctx, &scope); err != nil {
		return nil, err
	}
	in := scope.Namespaces
	if len(in) == 0 && scope.Selector == "" {
		in = []string{""}
	}
	for _, r := range bounds {
		if err := s.bounds(ctx, r, in); err != nil {
			return nil, err
		}
	}
	for _, r := range resources {
		where := in
		if r.ClusterScoped {
			where = []string{""}
		}
		for _, ns := range where {
			if err := s.list(ctx, r, ns, ""); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range scope.Named {
		if err := s.get(ctx, n.Resource, n.Key); err != nil && !kube.IsNotFound(err) {
			return nil, err
		}
	}
	return s.State, nil
}

// copying is a copy that is being made.
type copying struct {
	*State
	client *kube.Client
}

// resources finds what the controllers read, and copies the definitions of the custom ones.
func (s *copying) resources(ctx context.Context, rights []kube.Right) ([]kube.Resource, error) {
	wanted, seen, owned := slices.Clone(makers), slices.Clone(never), false
	for _, r := range makers {
		seen = append(seen, r.GroupResource())
		owned = owned || owns(rights, r.GroupResource())
	}
	for _, right := range rights {
		name := right.Resource.GroupResource()
		reads := slices.Contains(right.Verbs, "get") || slices.Contains(right.Verbs, "list")
		if slices.Contains(seen, name) || !reads || right.Subresource != "" {
			continue
		}
		seen = append(seen, name)
		found, ok, err := discovery.Find(ctx, s.client, right.Resource.Group, right.Resource.Version,
			right.Resource.Plural)
		if err != nil {
			return nil, err
		}
		if !ok {
			s.Notes = append(s.Notes, "the cluster has no "+name)
			continue
		}
		wanted = append(wanted, found.Resource)
		owned = owned || owns(rights, name)
		if strings.Contains(found.Group, ".") { // others are built in, and so are some of these
			err := s.get(ctx, definitions, kube.Key{Name: name})
			if err != nil && !kube.IsNotFound(err) {
				return nil, err
			}
		}
	}
	if !owned {
		return nil, errors.New("there is nothing to copy: the cluster has none of the custom resource definitions " +
			"of the controllers; see skiff crds install")
	}
	return wanted, nil
}

// owns says whether controllers work for the objects of a resource: they write their status.
func owns(rights []kube.Right, name string) bool {
	return slices.ContainsFunc(rights, func(r kube.Right) bool {
		return r.Subresource == "status" && r.Resource.GroupResource() == name
	})
}

// cluster copies namespaces and nodes, and makes names of a selector of namespaces.
func (s *copying) cluster(ctx context.Context, scope *Scope) error {
	switch {
	case len(scope.Namespaces) > 0:
		for _, ns := range scope.Namespaces {
			err := s.get(ctx, namespaces, kube.Key{Name: ns})
			if kube.IsForbidden(err) { // a Role is enough: the server makes a namespace of the name
				s.Notes = append(s.Notes, "the labels of namespace "+ns+" are not known: "+err.Error())
			} else if err != nil {
				return err
			}
		}
	default:
		before := len(s.Objects)
		if err := s.list(ctx, namespaces, "", scope.Selector); err != nil {
			return err
		}
		for _, text := range s.Objects[before:] {
			if o, err := decoded(text); err != nil {
				return err
			} else if scope.Selector != "" {
				scope.Namespaces = append(scope.Namespaces, obj.String(o, "metadata", "name"))
			}
		}
	}
	err := s.list(ctx, nodes, "", "")
	if kube.IsForbidden(err) {
		s.Notes = append(s.Notes, "the labels and taints of nodes are not known: "+err.Error())
		return nil
	}
	return err
}

// bounds copies what bounds pods in namespaces. Controllers need no right to read that, and a user may have none.
func (s *copying) bounds(ctx context.Context, r kube.Resource, in []string) error {
	for _, ns := range in {
		err := s.list(ctx, r, ns, "")
		if kube.IsForbidden(err) {
			s.Notes = append(s.Notes, "the "+r.Plural+" are not known: "+err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// pageSize keeps a page of pods below 1 MiB, and one of large objects below what an answer may have.
	pageSize = 100
	// maxPages bounds a list whose pages are empty: full ones reach MaxObjects before.
	maxPages = 2 * MaxObjects / pageSize
	// maxLists is how often a list is begun. A server forgets one after 5 to 10 minutes, or when it restarts.
	maxLists = 3
)

// list copies the objects of a resource. Where the server has forgotten the list before its last page, it is begun
// again.
func (s *copying) list(ctx context.Context, r kube.Resource, namespace, selector string) error {
	objects, bytes := len(s.Objects), s.bytes
	var err error
	for range maxLists {
		s.Objects, s.bytes = s.Objects[:objects], bytes
		if err = s.pages(ctx, r, namespace, selector); !kube.IsGone(err) {
			break
		}
		err = fmt.Errorf("the server forgot the list %d times before its end: %w; %s", maxLists, err, narrow)
	}
	if err != nil {
		err = fmt.Errorf("copy %s: %w", r.GroupResource(), err)
	}
	return err
}

// pages copies the objects of a resource, page by page.
func (s *copying) pages(ctx context.Context, r kube.Resource, namespace, selector string) error {
	path, err := r.Path(namespace, "")
	if err != nil {
		return err
	}
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	for range maxPages {
		body, err := s.client.Raw(ctx, "GET", path, query)
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := s.copy(r, item); err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
	return fmt.Errorf("the list does not end: %d pages have come", maxPages)
}

// get copies one object.
func (s *copying) get(ctx context.Context, r kube.Resource, k kube.Key) error {
	var body kube.Raw
	if err := s.client.Get(ctx, r, k, &body); err != nil {
		return err
	}
	return s.copy(r, body)
}

// copy adds an object that the cluster has sent.
func (s *copying) copy(r kube.Resource, text []byte) error {
	o, err := decoded(text)
	if err != nil {
		return err
	}
	if r == nodes {
		o = nodeOf(o)
	}
	o["apiVersion"], o["kind"] = r.APIVersion(), r.Kind
	return s.add(o)
}

// nodeOf keeps of a node what decides which pods it takes. The simulation says the rest.
func nodeOf(o map[string]any) map[string]any {
	pick := func(field string, names ...string) map[string]any {
		of := obj.Map(o, field)
		maps.DeleteFunc(of, func(name string, _ any) bool { return !slices.Contains(names, name) })
		return of
	}
	return map[string]any{"metadata": pick("metadata", "name", "uid", "labels", "creationTimestamp"),
		"spec": pick("spec", "taints", "unschedulable")}
}
