package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Owner is an object that a controller works for: what its status says, and what the controller does about it.
type Owner struct {
	Kind       string
	Resource   kube.Resource
	Key        kube.Key
	Created    time.Time
	Deleting   bool
	Conditions []conditions.Condition
	Foreign    bool           // the conditions are about what others do with it
	Problem    health.Problem // see Controller.Report; the zero value: none is known
	Failing    Failing        // its last run failed; the zero value: it did not
	Next       time.Time      // when its next run may start; zero: none is due
}

// conditioned is an object that can say its conditions.
type conditioned interface{ Shown() []conditions.Condition }

// Shows are what is shown of an object of For beside its conditions. The functions read what is in memory, and may be
// called from any goroutine; nil: there is nothing.
type Shows struct {
	Children func(owner kube.Object) []apply.Shown
	Facts    func(owner kube.Object) []Fact
	Works    func(owner kube.Object) bool // whether the controller does anything for it; nil: for each
	Foreign  bool                         // the status of the objects is written by others
	Short    []string                     // the short names of the resource
	// Example is an object as short as it can be written, in YAML; "": that follows from the resource.
	Example string
	// Pods reads the pods of an object, a bounded number of them; nil: it has none that the controller may read.
	Pods func(ctx context.Context, owner kube.Object) (Pods, error)
}

// Pods are those that an object has, at the time when they are read.
type Pods struct {
	List []Pod
	More bool // there are others, which were not read
}

// Pod is how a pod is.
type Pod struct {
	Name     string
	Of       string // what it is part of: "ReplicaSet web-6d8f"; "": nothing
	Ready    bool
	Deleting bool
	Created  time.Time
	Reason   string // it is not ready; "": nothing is known yet
	Message  string // what others say about that
}

// Fact is one thing to know about an object that its conditions do not say.
type Fact struct {
	Name, Value string
	At          time.Time // zero: it is about no time
}

// IsCalled says whether a name is that of the objects of the controller, as kubectl takes it: the kind, the plural,
// also with its group, or a short name.
func (c *Controller) IsCalled(name string) bool {
	r := c.Resource()
	if r.Plural == "" {
		return false
	}
	names := append([]string{r.Kind, r.Plural, r.GroupResource()}, c.shows.Short...)
	return slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
}

// Example is an object to begin with, in YAML; "": its objects are not made for the controller.
func (c *Controller) Example() string {
	r := c.Resource()
	if c.shows.Foreign || r.Kind == "" || c.shows.Example != "" {
		return c.shows.Example
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: example}\nspec: {}\n",
		strings.TrimPrefix(r.Group+"/"+r.Version, "/"), r.Kind)
}

// Show says what is shown of an object. It is for before Run.
func (c *Controller) Show(s Shows) { c.shows = s }

// Details returns what is shown of the object under a key; nothing where there is none.
func (c *Controller) Details(k kube.Key) (children []apply.Shown, facts []Fact) {
	if c.object == nil {
		return nil, nil
	}
	owner := c.object(k)
	if owner == nil {
		return nil, nil
	}
	if c.shows.Children != nil {
		children = c.shows.Children(owner)
	}
	if c.shows.Facts != nil {
		facts = c.shows.Facts(owner)
	}
	return children, facts
}

// Pods reads the pods of the object under a key; false: none are known of it.
func (c *Controller) Pods(ctx context.Context, k kube.Key) (pods Pods, known bool, err error) {
	if c.object == nil || c.shows.Pods == nil {
		return Pods{}, false, nil
	}
	owner := c.object(k)
	if owner == nil {
		return Pods{}, false, nil
	}
	pods, err = c.shows.Pods(ctx, owner)
	return pods, true, err
}

// Owners calls f for each object of the source made by For that the controller works for, without an order. The
// conditions must not be changed.
func (c *Controller) Owners(f func(*Owner)) {
	if c.keys == nil {
		return
	}
	for _, k := range c.keys("") {
		if o, ok := c.Owner(k); ok {
			f(&o)
		}
	}
}

// Owner returns one of them; false: there is none under that key.
func (c *Controller) Owner(k kube.Key) (Owner, bool) {
	if c.object == nil {
		return Owner{}, false
	}
	object := c.object(k)
	if object == nil || c.shows.Works != nil && !c.shows.Works(object) {
		return Owner{}, false
	}
	m := object.ObjectMeta()
	o := Owner{Kind: c.kind, Resource: c.own.Resource(), Key: k, Created: m.CreationTimestamp,
		Deleting: !m.DeletionTimestamp.IsZero(), Foreign: c.shows.Foreign, Problem: c.reports.get(k)}
	if s := c.streaks.get(k); s.failures > 0 && (s.class != passing || s.failures >= newsAfter) {
		o.Failing = Failing{k, s.failures, s.problem()}
		o.Failing.Since = cmp.Or(s.since, s.first)
	}
	if says, ok := object.(conditioned); ok {
		o.Conditions = says.Shown()
	}
	o.Next, _ = c.queue.Due(k)
	return o, true
}

// Report notes what a run has found to be wrong with the object under a key; nil: nothing. The page shows the words of
// skiff to everybody, and to those who may see the object the words of others in its conditions, which are not kept
// here again.
func (c *Controller) Report(k kube.Key, p *health.Problem) { c.reports.set(k, p) }

// maxReported bounds the Problems that are kept of one namespace: ten times as many as a page shows of all.
const maxReported = 1000

// reports are the Problems of objects.
type reports struct {
	mu sync.Mutex                           // guards of
	of map[string]map[string]health.Problem // by namespace and name
}

func (r *reports) set(k kube.Key, p *health.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.of[k.Namespace]
	if p == nil {
		if delete(in, k.Name); len(in) == 0 {
			delete(r.of, k.Namespace)
		}
		return
	}
	if _, known := in[k.Name]; !known && len(in) == maxReported {
		return
	}
	if r.of == nil {
		r.of = map[string]map[string]health.Problem{}
	}
	if in == nil {
		in = map[string]health.Problem{}
		r.of[k.Namespace] = in
	}
	in[k.Name] = p.Hidden()
}

func (r *reports) get(k kube.Key) health.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[k.Namespace][k.Name]
}

// Forget drops the Problem of one object.
func (r *reports) Forget(k kube.Key) { r.set(k, nil) }

// Leave drops the Problems of a namespace.
func (r *reports) Leave(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, namespace)
}

// Strays returns the keys that fail and name no object that is held: those of rules, or of what is gone.
func (c *Controller) Strays() (out []Failing) {
	for _, f := range c.streaks.all() {
		if c.object == nil || c.object(f.Key) == nil {
			out = append(out, f)
		}
	}
	return out
}

// OldestDue is since when the key waits for a worker that has waited for longest; zero: none waits.
func (c *Controller) OldestDue() time.Time {
	pending, _ := c.queue.View(c.o.Workers + 2) // those that run come first, and there may be one more than workers
	for _, k := range pending {
		if !k.Running && k.Waiting && !k.Due.After(time.Now()) {
			return k.Due
		}
	}
	return time.Time{}
}
