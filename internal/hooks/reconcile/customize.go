package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
)

// errUnlisted says that a related kind is not listed yet. The parent runs when it is.
var errUnlisted = errors.New("related objects are not listed yet")

// relatedOf returns the related objects of a revision of a parent by kind.
func (r *reconciler) relatedOf(ctx context.Context, parent *Object, revision string) ([]wire.Group, error) {
	if r.Spec.Customize == nil {
		return nil, nil
	}
	changes := r.Changes()
	who := subject{parent.Key(), revision}
	a := r.related.get(parent, revision, changes)
	if a == nil {
		var err error
		if a, err = r.customize(ctx, parent, changes); err != nil {
			return nil, err
		}
		r.related.set(who, a)
	}
	if len(a.of) < len(a.rules) {
		of, err := r.related.find(ctx, a.rules)
		if err != nil {
			return nil, fmt.Errorf("answer of the customize hook: %w", err)
		}
		a = &asked{a.uid, a.generation, a.changes, a.rules, of}
		r.related.set(who, a)
	}
	var groups []wire.Group
	for i, resource := range a.of {
		if slices.Contains(a.of[:i], resource) {
			continue
		}
		objects, err := r.related.read(parent.Key(), a, resource)
		if err != nil {
			return nil, err
		}
		g, err := group(resource, objects)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// customize asks the hook for the rules of a parent.
func (r *reconciler) customize(ctx context.Context, parent *Object, changes int64) (*asked, error) {
	request, err := r.request(wire.Customize, parent, nil, nil)
	if err != nil {
		return nil, err
	}
	body, err := r.ask(ctx, wire.Customize, parent, request)
	if err != nil {
		return nil, err
	}
	rules, err := r.rules(parent, body)
	if err != nil {
		return nil, err
	}
	return &asked{uid: parent.UID, generation: parent.Generation, changes: changes, rules: rules}, nil
}

// rules reads and checks what customize answers.
func (r *reconciler) rules(parent *Object, body []byte) ([]wire.Rule, error) {
	h := r.Spec.Customize
	rules, err := wire.DecodeCustomize(body, wire.CustomizeOptions{Version: h.Version, Strict: h.Strict,
		Parent: parent.Key()})
	if err != nil {
		return nil, ofHook(fmt.Errorf("answer of the customize hook: %w", err))
	}
	return rules, nil
}

// find returns the resources that rules name.
func (r *related) find(ctx context.Context, rules []wire.Rule) ([]kube.Resource, error) {
	out := make([]kube.Resource, len(rules))
	for i := range rules {
		resource, err := r.findOne(ctx, rules[i].Type)
		if err == nil {
			err = rules[i].CheckScope(resource)
		}
		if err != nil {
			return nil, fmt.Errorf("relatedResources[%d]: %w", i, err)
		}
		out[i] = resource
	}
	return out, nil
}

// findOne asks the server for a resource, once if there is one.
func (r *related) findOne(ctx context.Context, t spec.Type) (kube.Resource, error) {
	r.mu.Lock()
	known, ok := r.found[t]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	found, ok, err := discovery.Find(ctx, r.setup.Client, t.Group(), t.Version(), t.Resource)
	switch {
	case err != nil:
		return kube.Resource{}, fmt.Errorf("find %s %s: %w", t.APIVersion, t.Resource, err)
	case !ok || found.Plural != t.Resource:
		return kube.Resource{}, fmt.Errorf("the server has no resource %s in %s: see `kubectl api-resources`",
			t.Resource, t.APIVersion)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[t] = found.Resource
	return found.Resource, nil
}

// read returns the objects of a kind that a rule matches, in key order.
func (r *related) read(parent kube.Key, a *asked, resource kube.Resource) ([]*Object, error) {
	seen := map[kube.Key]*Object{}
	for i := range a.rules {
		rule := &a.rules[i]
		if a.of[i] != resource {
			continue
		}
		objects, large, err := r.candidates(parent, resource, rule)
		if err != nil {
			return nil, err
		}
		labels, err := r.namespaces(parent, rule)
		if err != nil {
			return nil, err
		}
		for _, o := range large {
			of := *rule
			if !o.Known {
				of.Labels = nil
			}
			if of.Matches(o.Key, o.Labels, labels[o.Key.Namespace]) {
				return nil, fmt.Errorf("read related %s: %s", resource, o.Problem.Note())
			}
		}
		for _, o := range objects {
			if rule.Matches(o.Key(), o.Labels, labels[o.Namespace]) {
				seen[o.Key()] = o
			}
		}
	}
	return inOrder(seen), nil
}

// namespaces returns the labels of all namespaces for a rule that selects by them.
func (r *related) namespaces(parent kube.Key, rule *wire.Rule) (map[string]kube.Labels, error) {
	if len(rule.NamespaceLabels) == 0 {
		return nil, nil
	}
	all, large, err := r.candidates(parent, namespaceKind, &wire.Rule{})
	of := make(map[string]kube.Labels, len(all))
	for _, ns := range all {
		of[ns.Name] = ns.Labels
	}
	for _, ns := range large {
		of[ns.Key.Name] = ns.Labels
	}
	return of, err
}

// candidates returns the objects of a kind among which are those that a rule matches, and apart from these the ones
// that are too large to be held. It has the parent run when they can be read, where they cannot.
func (r *related) candidates(parent kube.Key, resource kube.Resource, rule *wire.Rule) (objects []*Object,
	large []cache.Large, err error) {
	k := r.kind(resource)
	if k == nil { // the namespace of the parent is no longer selected
		return nil, nil, errUnlisted
	}
	r.wait(k, parent, true) // before it is read: it may be listed in between
	scope := scopeOf(resource, rule)
	if len(rule.Names) > 0 && (scope != "" || resource.ClusterScoped) {
		for _, name := range rule.Names {
			o, ok, failed := k.mirror.Get(kube.Key{Namespace: scope, Name: name})
			if ok {
				objects = append(objects, o)
			}
			err = errors.Join(err, failed)
		}
	} else {
		objects, large, err = k.mirror.ListKnown(scope)
	}
	switch {
	case err == nil:
		r.wait(k, parent, false)
		return objects, large, nil
	case cache.Unserved(err, cache.NotSynced) != nil && !kube.IsForbidden(err) && !kube.IsNotFound(err):
		return nil, nil, fmt.Errorf("%w: %s", errUnlisted, resource)
	}
	// Without the NotServed: the controller would wait for its own mirrors.
	return nil, nil, fmt.Errorf("read related %s: %v", resource, err)
}
