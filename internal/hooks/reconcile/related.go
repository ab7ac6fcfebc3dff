package reconcile

import (
	"maps"
	"slices"
	"sync"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// related mirrors what the customize hook names: a kind as long as a rule of a parent names it.
type related struct {
	setup controller.Setup
	// attach is (*controller.Controller).Attach.
	attach func(s controller.Source, served func() []kube.Key) (detach func())

	// changing is held while mirrors come and go. It is taken before mu, which their handlers take.
	changing sync.Mutex
	mu       sync.Mutex                     // guards what follows
	asked    map[kube.Key]map[string]*asked // by parent, and by its revision: "" where children do not roll
	kinds    map[kube.Resource]*relatedKind
	found    map[spec.Type]kube.Resource // what discovery has found
}

// asked is what the customize hook has answered for a revision of a parent. It does not change.
type asked struct {
	uid        string
	generation int64
	changes    int64 // Options.Changes before the call
	rules      []wire.Rule
	of         []kube.Resource // what the rules name; nil: not found yet, and nothing is mirrored for them
}

// relatedKind is a kind that rules name.
type relatedKind struct {
	mirror  *cache.Store[*Object]
	detach  func()                      // related.changing guards it
	named   map[string]map[subject]bool // whose rules name it, by the namespace of the rule; "": all
	waiting map[kube.Key]bool           // the parents that are to run when it is listed
}

// subject is a revision of a parent.
type subject struct {
	parent   kube.Key
	revision string
}

// namespaces are mirrored for rules that select them.
var namespaceKind = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

func newRelated(s controller.Setup) *related {
	return &related{setup: s, asked: map[kube.Key]map[string]*asked{}, kinds: map[kube.Resource]*relatedKind{},
		found: map[spec.Type]kube.Resource{}}
}

// uses calls f for each kind that a needs, with the namespace that it needs of it, "" for all.
func (a *asked) uses(f func(r kube.Resource, namespace string)) {
	for i, r := range a.of {
		rule := &a.rules[i]
		if f(r, scopeOf(r, rule)); len(rule.NamespaceLabels) > 0 {
			f(namespaceKind, "")
		}
	}
}

// scopeOf returns the namespace of the objects that a rule is about, "" for all.
func scopeOf(r kube.Resource, rule *wire.Rule) string {
	if r.ClusterScoped {
		return ""
	}
	return rule.Namespace
}

// get returns what the hook has answered for a revision of a parent, nil if it is to be asked.
func (r *related) get(parent *Object, revision string, changes int64) *asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.asked[parent.Key()][revision]
	if a != nil && a.uid == parent.UID && a.generation == parent.Generation && a.changes == changes {
		return a
	}
	return nil
}

// keep forgets all revisions of a parent but these.
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

// set replaces what the hook has answered, nil: the revision is gone. It starts and stops mirrors.
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

// replace is set, and returns the kinds of which a mirror is to be started, and those that no rule names any more.
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

// start runs the mirror of a kind that was added.
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

// concernsLocked says whether a rule matches an object, or selects the namespace that it is.
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
		if !known { // the parent finds out
			labels, rule = nil, withoutNamespaces(rule)
		}
		if rule.Matches(o.Key(), o.Labels, labels) {
			return true
		}
	}
	return false
}

// withoutNamespaces returns a rule without its selector of namespaces.
func withoutNamespaces(rule *wire.Rule) *wire.Rule {
	all := *rule
	all.NamespaceLabels = nil
	return &all
}

// namespaceLabelsLocked returns the labels of a namespace where a rule asks for them.
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
