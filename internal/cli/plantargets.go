package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/plan"
)

// planned are the objects that are asked for; none: all.
type planned []*planTarget

// planTarget is one KIND/NAME.
type planTarget struct {
	kind, namespace, name string
	named                 string // as it was given

	resource kube.Resource // the resource that the server knows by this name; the zero value: there is none
	found    bool
}

func planTargets(args []string) (out planned, err error) {
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
			return nil, Usagef("%.100q: want KIND/NAME, such as webserver/web", arg)
		}
		out = append(out, &planTarget{named: arg, kind: strings.ToLower(kind), name: name})
	}
	return out, nil
}

func proposedTargets(proposals []plan.Proposal) (out planned) {
	for _, p := range proposals {
		out = append(out, &planTarget{kind: strings.ToLower(p.Resource.Kind), namespace: p.Key.Namespace,
			name: p.Key.Name, found: true})
	}
	return out
}

// is says whether a target's kind is that of a resource.
func (t *planTarget) is(r kube.Resource) bool {
	return t.kind == strings.ToLower(r.Kind) || t.kind == r.Plural || t.kind == r.GroupResource()
}

// concern says whether objects of a resource are asked for.
func (all planned) concern(r kube.Resource) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(t *planTarget) bool { return t.is(r) })
}

// wants returns which objects are asked for, in a namespace where they have none.
func (all planned) wants(namespace string) func(kube.Resource, kube.Key) bool {
	return func(r kube.Resource, k kube.Key) bool {
		for _, t := range all {
			if t.is(r) && t.name == k.Name && (r.ClusterScoped || cmp.Or(t.namespace, namespace) == k.Namespace) {
				t.found = true
				return true
			}
		}
		return len(all) == 0
	}
}

// resolve finds what the server takes each kind for, which may be a short name or a plural.
func (all planned) resolve(ctx context.Context, client *kube.Client) {
	for _, t := range all {
		if r, err := discovery.Resolve(ctx, client, t.kind); err == nil {
			t.resource, t.kind = r.Resource, r.GroupResource()
		}
	}
}

// String is the target as it was named.
func (t *planTarget) String() string { return t.named }

// have fails for a kind without a controller. known are the resources that controllers could be planned for:
// controllers of kinds that nobody asks for are not made.
func (all planned) have(ctx context.Context, client *kube.Client, controllers []*controller.Controller,
	namespace string, known func() []kube.Resource) error {
	for _, t := range all {
		if !slices.ContainsFunc(controllers, func(c *controller.Controller) bool { return t.is(c.Resource()) }) {
			return t.noController(ctx, client, namespace, known())
		}
	}
	return nil
}

// noController says what to plan in place of an object that no controller works for.
func (t *planTarget) noController(ctx context.Context, client *kube.Client, namespace string,
	known []kube.Resource) error {
	if t.resource.Plural != "" {
		k := kube.Key{Namespace: namespace, Name: t.name}
		if t.resource.ClusterScoped {
			k.Namespace = ""
		}
		if owner, name, ok := ownerAmong(ctx, client, t.resource, k, known); ok {
			return Usagef("%s: a %s is a child: plan %s/%s", t, t.resource.Kind, strings.ToLower(owner.Kind), name)
		}
	}
	var kinds []string
	for _, r := range known {
		kinds = append(kinds, strings.ToLower(r.Kind))
	}
	if question := nearest.Ask(t.kind, kinds, "", "/"+t.name); question != "" && t.resource.Plural == "" {
		return Usagef("%s: %s", t, question)
	}
	return Usagef("%s: no controller that is planned works for this kind; choose with --controllers, --hooks or "+
		"--from-cluster", t)
}

// missing fails for an object that is not there.
func (all planned) missing(ctx context.Context, client *kube.Client, namespace string) error {
	for _, t := range all {
		if t.found {
			continue
		}
		where := ""
		if t.resource.Plural != "" {
			where = elsewhere(ctx, client, t.resource, kube.Key{Namespace: namespace, Name: t.name})
		}
		return fmt.Errorf("there is no %s in namespace %s; %s", t, namespace,
			cmp.Or(where, askNamespace(ctx, client, namespace), "name another namespace with -n"))
	}
	return nil
}

// noNamespace fails for a namespace of --watch-namespaces that does not exist: a plan without objects would say that
// all is as declared. A server that does not say whether the namespace exists is believed.
func (f *planFlags) noNamespace(ctx context.Context, client *kube.Client) error {
	for _, name := range f.Namespaces {
		var namespace struct{ kube.Meta }
		err := client.Get(ctx, kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace",
			ClusterScoped: true}, kube.Key{Name: name}, &namespace)
		if kube.IsNotFound(err) {
			return fmt.Errorf("--watch-namespaces: there is no namespace %s; %s", name,
				cmp.Or(askNamespace(ctx, client, name), "correct the name, or create it first"))
		}
	}
	return nil
}

// maxProposals bounds the objects of -f: each is a request.
const maxProposals = 1000

// readProposals reads the objects of -f.
func readProposals(files []string) ([]spec.Object, error) {
	if len(files) == 0 {
		return nil, nil
	}
	objects, err := spec.ReadObjects(files)
	if err != nil {
		return nil, Usagef("-f: %w", err)
	}
	if len(objects) == 0 {
		return nil, Usagef("-f %s: there is no object in it", strings.Join(files, ", "))
	}
	if len(objects) > maxProposals {
		return nil, Usagef("-f: there are %d objects, a plan has at most %d", len(objects), maxProposals)
	}
	return objects, nil
}

// proposals returns the owners among objects. All must be of kinds that the controllers work for.
func proposals(objects []spec.Object, controllers []*controller.Controller, namespace string) (out []plan.Proposal,
	err error) {
	for _, text := range objects {
		one, err := proposal(text, controllers, namespace)
		if err != nil {
			return nil, Usagef("-f: %w", err)
		}
		if slices.ContainsFunc(out, func(o plan.Proposal) bool {
			return o.Resource == one.Resource && o.Key == one.Key
		}) {
			return nil, Usagef("-f: %s %s is there twice", one.Resource.Kind, one.Key)
		}
		out = append(out, one)
	}
	return out, nil
}

// proposal finds the resource of an object, and gives it the namespace where it has none.
func proposal(read spec.Object, controllers []*controller.Controller, namespace string) (one plan.Proposal,
	err error) {
	place := Place{File: read.File, Node: read.Node}
	object, err := patch.Decode(read.Raw)
	if err != nil {
		return one, err
	}
	body, _ := object.(map[string]any)
	apiVersion, _ := body["apiVersion"].(string)
	kind, _ := body["kind"].(string)
	meta, _ := body["metadata"].(map[string]any)
	one.Key.Name, _ = meta["name"].(string)
	one.Key.Namespace, _ = meta["namespace"].(string)
	one.Refused = func(ctx context.Context, c *kube.Client, err error) []string {
		return FieldErrors(ctx, c, one.Resource, place, err)
	}
	var kinds, versions []string
	for _, c := range controllers {
		r := c.Resource()
		if r.Kind == kind && r.APIVersion() == apiVersion {
			one.Resource = r
		}
		if r.Plural != "" && !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
		if r.Kind == kind {
			versions = append(versions, r.APIVersion())
		}
	}
	switch r := one.Resource; {
	case r.Plural == "" && nearest.Of(kind, kinds) != "":
		return one, fmt.Errorf("%s: kind %s: %s", place.At("kind"), kind, nearest.Ask(kind, kinds, "", ""))
	case r.Plural == "" && len(versions) > 0:
		return one, fmt.Errorf("%s: apiVersion %.100q of a %s: want %s", place.At("apiVersion"), apiVersion, kind,
			strings.Join(versions, " or "))
	case r.Plural == "":
		return one, fmt.Errorf("%s: kind %.100q, apiVersion %.100q, name %.100q: want objects of the controllers "+
			"that are planned: %s", place.At("kind"), kind, apiVersion, one.Key.Name, strings.Join(kinds, ", "))
	case one.Key.Name == "":
		return one, fmt.Errorf("%s: a %s has no metadata.name", place.At("metadata"), r.Kind)
	case r.ClusterScoped:
		one.Key.Namespace = ""
	case one.Key.Namespace == "":
		one.Key.Namespace = cmp.Or(namespace, "default")
	}
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"} {
		delete(meta, field) // of a file that `kubectl get -o yaml` wrote
	}
	delete(body, "status")
	if !one.Resource.ClusterScoped {
		meta["namespace"] = one.Key.Namespace
	}
	one.Object, err = patch.Encode(body)
	return one, err
}

// resources are those of the owners that the chosen controllers work for, as far as the server has them.
func (f *planFlags) resources(ctx context.Context, client *kube.Client) (out []kube.Resource) {
	for _, op := range f.operators() {
		out = append(out, op.worksFor()...)
	}
	for _, h := range f.hooks {
		for _, p := range h.Parents {
			r, found, err := discovery.Find(ctx, client, p.Group(), p.Version(), p.Resource)
			if found && err == nil {
				out = append(out, r.Resource)
			}
		}
	}
	return out
}
