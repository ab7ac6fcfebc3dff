package controller

import (
	"cmp"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
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
	Foreign    bool      // the conditions are about what others do with it
	Failing    Failing   // its last run failed; the zero value: it did not
	Next       time.Time // when its next run may start; zero: none is due
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
}

// Fact is one thing to know about an object that its conditions do not say.
type Fact struct {
	Name, Value string
	At          time.Time // zero: it is about no time
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
		Deleting: !m.DeletionTimestamp.IsZero(), Foreign: c.shows.Foreign}
	if s := c.streaks.get(k); s.failures > 0 && (s.class != passing || s.failures >= newsAfter) {
		o.Failing = Failing{Key: k, Failures: s.failures, Stalled: s.stalled, Reason: s.reason,
			Since: cmp.Or(s.since, s.first)}
	}
	if says, ok := object.(conditioned); ok {
		o.Conditions = says.Shown()
	}
	o.Next, _ = c.queue.Due(k)
	return o, true
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
