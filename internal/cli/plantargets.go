package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/plan"
)

// planned are the objects that are asked for; none: all.
type planned []*planTarget

// planTarget is one KIND/NAME.
type planTarget struct {
	kind, namespace, name string

	found bool
}

func planTargets(args []string) (out planned, err error) {
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
			return nil, Usagef("%.100q: want KIND/NAME, such as webserver/web", arg)
		}
		out = append(out, &planTarget{kind: strings.ToLower(kind), name: name})
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

// have fails for a kind that no controller works for.
func (all planned) have(controllers []*controller.Controller) error {
	for _, t := range all {
		if !slices.ContainsFunc(controllers, func(c *controller.Controller) bool { return t.is(c.Resource()) }) {
			return Usagef("%s/%s: no controller that is planned works for this kind; choose with --controllers, "+
				"--hooks or --from-cluster", t.kind, t.name)
		}
	}
	return nil
}

// missing fails for an object that is not there.
func (all planned) missing(namespace string) error {
	for _, t := range all {
		if !t.found {
			return fmt.Errorf("there is no %s/%s in namespace %s; name another namespace with -n",
				t.kind, t.name, namespace)
		}
	}
	return nil
}

// noNamespace fails for a namespace of --watch-namespaces that is not there: a plan without objects would say that all
// is as declared. A server that does not say whether there is one is believed.
func (f *planFlags) noNamespace(ctx context.Context, client *kube.Client) error {
	for _, name := range f.Namespaces {
		var namespace struct{ kube.Meta }
		err := client.Get(ctx, kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace",
			ClusterScoped: true}, kube.Key{Name: name}, &namespace)
		if kube.IsNotFound(err) {
			return fmt.Errorf("--watch-namespaces: there is no namespace %s; correct the name, or create it first",
				name)
		}
	}
	return nil
}

// maxProposals bounds the objects of -f: each is a request.
const maxProposals = 1000

// readProposals reads the objects of -f.
func readProposals(files []string) ([]kube.Raw, error) {
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

// proposals returns the owners that objects are. All of them must be of kinds that the controllers work for.
func proposals(objects []kube.Raw, controllers []*controller.Controller, namespace string) (out []plan.Proposal,
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
func proposal(text kube.Raw, controllers []*controller.Controller, namespace string) (one plan.Proposal, err error) {
	object, err := patch.Decode(text)
	if err != nil {
		return one, err
	}
	body, _ := object.(map[string]any)
	apiVersion, _ := body["apiVersion"].(string)
	kind, _ := body["kind"].(string)
	meta, _ := body["metadata"].(map[string]any)
	one.Key.Name, _ = meta["name"].(string)
	one.Key.Namespace, _ = meta["namespace"].(string)
	var kinds []string
	for _, c := range controllers {
		r := c.Resource()
		if r.Kind == kind && r.APIVersion() == apiVersion {
			one.Resource = r
		}
		if r.Plural != "" && !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
	}
	switch r := one.Resource; {
	case r.Plural == "":
		return one, fmt.Errorf("kind %.100q, apiVersion %.100q, name %.100q: want objects of the controllers that "+
			"are planned: %s", kind, apiVersion, one.Key.Name, strings.Join(kinds, ", "))
	case one.Key.Name == "":
		return one, fmt.Errorf("a %s has no metadata.name", r.Kind)
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
