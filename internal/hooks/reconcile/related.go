package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
)

// errUnlisted says that a related kind is not listed yet. The parent runs after the list.
var errUnlisted = errors.New("related objects are not listed yet")

// related mirrors the kinds named by rules of the customize hook, each as long as a rule names the kind.
type related struct {
	setup controller.Setup
	// attach is (*controller.Controller).Attach.
	attach func(s controller.Source, served func() []kube.Key) (detach func())

	// changing is held while mirrors come and go, and is taken before mu, which their handlers take.
	changing sync.Mutex
	mu       sync.Mutex                     // guards the rest
	asked    map[kube.Key]map[string]*asked // by parent and revision; revision "": children do not roll
	kinds    map[kube.Resource]*relatedKind
	found    map[spec.Type]kube.Resource // found by discovery
}

// asked is an answer of the customize hook for a revision of a parent. It is immutable.
type asked struct {
	uid     string
	version string // see VersionOf
	changes int64  // Options.Changes and Returns before the call
	rules   []wire.Rule
	of      []kube.Resource // named by the rules; nil: not found yet, nothing is mirrored
}

// relatedKind is a kind named by rules.
type relatedKind struct {
	mirror  *cache.Store[*Object]
	detach  func()                      // guarded by related.changing
	named   map[string]map[subject]bool // whose rules name the kind, by namespace of the rule; "": all
	waiting map[kube.Key]bool           // the parents to run when the kind is listed
}

// subject is a revision of a parent.
type subject struct {
	parent   kube.Key
	revision string
}

// namespaceKind is mirrored for rules with a namespace selector.
var namespaceKind = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

func newRelated(s controller.Setup) *related {
	return &related{setup: s, asked: map[kube.Key]map[string]*asked{}, kinds: map[kube.Resource]*relatedKind{},
		found: map[spec.Type]kube.Resource{}}
}

// uses calls f for each kind that a needs, with the namespace needed, "" for all.
func (a *asked) uses(f func(r kube.Resource, namespace string)) {
	for i, r := range a.of {
		rule := &a.rules[i]
		if f(r, scopeOf(r, rule)); len(rule.NamespaceLabels) > 0 {
			f(namespaceKind, "")
		}
	}
}

// scopeOf returns the namespace of the objects of a rule, "" for all.
func scopeOf(r kube.Resource, rule *wire.Rule) string {
	if r.ClusterScoped {
		return ""
	}
	return rule.Namespace
}

// get returns the hook's answer for a revision of a parent, nil if the hook has to be asked.
func (r *related) get(parent *Object, revision string, changes int64) *asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.asked[parent.Key()][revision]
	if a != nil && a.uid == parent.UID && a.version == VersionOf(parent.ObjectMeta()) && a.changes == changes {
		return a
	}
	return nil
}

// keep forgets all but the named revisions of a parent.
func (r *related) keep(parent kube.Key, revisions ...string) {
	r.mu.Lock()
	all := slices.Sorted(maps.Keys(r.asked[parent]))
	r.mu.Unlock()
	for _, revision := range all {
		if !slices.Contains(revisions, revision) {
			r.set(subject{parent, revision}, nil)
		}
	}
}

// set replaces the hook's answer (nil: the revision is gone), and starts and stops mirrors.
func (r *related) set(of subject, to *asked) {
	r.changing.Lock()
	defer r.changing.Unlock()
	added, idle := r.replace(of, to)
	for _, resource := range added {
		r.start(resource)
	}
	for _, k := range idle {
		k.detach()
	}
}

// replace is set without mirrors: the mirrors of added have to be started, those of idle to be stopped.
func (r *related) replace(of subject, to *asked) (added []kube.Resource, idle []*relatedKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	revisions := r.asked[of.parent]
	before := revisions[of.revision]
	switch {
	case to != nil && revisions == nil:
		r.asked[of.parent] = map[string]*asked{of.revision: to}
	case to != nil:
		revisions[of.revision] = to
	default:
		if delete(revisions, of.revision); len(revisions) == 0 {
			delete(r.asked, of.parent)
		}
	}
	if before != nil {
		before.uses(func(resource kube.Resource, namespace string) {
			k := r.kinds[resource]
			if delete(k.named[namespace], of); len(k.named[namespace]) == 0 {
				delete(k.named, namespace)
			}
			delete(k.waiting, of.parent)
		})
	}
	if to != nil {
		to.uses(func(resource kube.Resource, namespace string) {
			k := r.kinds[resource]
			if k == nil {
				k = &relatedKind{mirror: controller.Mirror[*Object](r.setup, resource, ""),
					named: map[string]map[subject]bool{}, waiting: map[kube.Key]bool{}}
				r.kinds[resource] = k
				added = append(added, resource)
			}
			if k.named[namespace] == nil {
				k.named[namespace] = map[subject]bool{}
			}
			k.named[namespace][of] = true
		})
	}
	if before != nil {
		before.uses(func(resource kube.Resource, _ string) {
			if k := r.kinds[resource]; k != nil && len(k.named) == 0 {
				delete(r.kinds, resource)
				idle = append(idle, k)
			}
		})
	}
	return added, idle
}

// start runs the mirror of an added kind.
func (r *related) start(resource kube.Resource) {
	k := r.kind(resource)
	k.detach = r.attach(controller.Watches(k.mirror, func(o *Object) []kube.Key { return r.parentsOf(resource, o) }),
		func() []kube.Key {
			r.mu.Lock()
			defer r.mu.Unlock()
			waiting := slices.SortedFunc(maps.Keys(k.waiting), kube.Key.Compare)
			clear(k.waiting)
			return waiting
		})
}

func (r *related) kind(resource kube.Resource) *relatedKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kinds[resource]
}

// wait has a parent run when a kind is listed, or not any more.
func (r *related) wait(k *relatedKind, parent kube.Key, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(k.waiting, parent); waits {
		k.waiting[parent] = true
	}
}

// Forget drops all revisions of a parent.
func (r *related) Forget(parent kube.Key) { r.keep(parent) }

// Leave drops the parents of a namespace.
func (r *related) Leave(namespace string) {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.asked))
	r.mu.Unlock()
	for _, parent := range all {
		if parent.Namespace == namespace {
			r.keep(parent)
		}
	}
}

// parentsOf returns the parents of which a rule matches an object, in key order.
func (r *related) parentsOf(resource kube.Resource, o *Object) (keys []kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[resource]
	if k == nil {
		return nil
	}
	for _, subjects := range []map[subject]bool{k.named[o.Namespace], k.named[""]} {
		for of := range subjects {
			if r.concernsLocked(r.asked[of.parent][of.revision], resource, o) {
				keys = append(keys, of.parent)
			}
		}
	}
	slices.SortFunc(keys, kube.Key.Compare)
	return slices.Compact(keys)
}

// concernsLocked says whether a rule matches an object, or selects an object that is a namespace.
func (r *related) concernsLocked(a *asked, resource kube.Resource, o *Object) bool {
	for i := range a.rules {
		rule := &a.rules[i]
		if resource == namespaceKind && len(rule.NamespaceLabels) > 0 && rule.NamespaceLabels.Match(o.Labels) {
			return true
		}
		if a.of[i] != resource {
			continue
		}
		labels, known := r.namespaceLabelsLocked(rule, o.Namespace)
		if !known { // the parent's run will know
			labels, rule = nil, withoutNamespaces(rule)
		}
		if rule.Matches(o.Key(), o.Labels, labels) {
			return true
		}
	}
	return false
}

// withoutNamespaces returns a rule without the namespace selector.
func withoutNamespaces(rule *wire.Rule) *wire.Rule {
	all := *rule
	all.NamespaceLabels = nil
	return &all
}

// namespaceLabelsLocked returns the labels of a namespace if a rule has a namespace selector.
func (r *related) namespaceLabelsLocked(rule *wire.Rule, namespace string) (of kube.Labels, known bool) {
	if len(rule.NamespaceLabels) == 0 {
		return nil, true
	}
	k := r.kinds[namespaceKind]
	if k == nil {
		return nil, false
	}
	ns, ok, err := k.mirror.Get(kube.Key{Name: namespace})
	if err != nil || !ok {
		return nil, false
	}
	return ns.Labels, true
}

// find returns the resources named by rules.
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

// findOne asks the server for a resource, once if the resource exists.
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
		next := "see `kubectl api-resources`"
		if near := discovery.NearestPlural(ctx, r.setup.Client, t.Group(), t.Version(), t.Resource); near != "" {
			next = "did you mean " + near + "?"
		}
		return kube.Resource{}, fmt.Errorf("the server has no resource %s in %s: %s", t.Resource, t.APIVersion, next)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[t] = found.Resource
	return found.Resource, nil
}

// read returns the objects of a kind matched by a rule, in key order.
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

// namespaces returns the labels of all namespaces for a rule with a namespace selector.
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

// candidates returns the objects of a kind that a rule may match, and apart the objects too large for the cache. If
// the read fails, the parent runs once the kind is served.
func (r *related) candidates(parent kube.Key, resource kube.Resource, rule *wire.Rule) (objects []*Object,
	large []cache.Large, err error) {
	k := r.kind(resource)
	if k == nil { // the namespace of the parent is no longer selected
		return nil, nil, errUnlisted
	}
	r.wait(k, parent, true) // before the read: the list may come in between
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
	// %v, not %w: for a NotServed the controller would wait for its own mirrors.
	return nil, nil, fmt.Errorf("read related %s: %v", resource, err)
}
