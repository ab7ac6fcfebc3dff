package controller

import (
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
)

// Owner is an object that a controller works for: what its status says, and what the controller does about it.
type Owner struct {
	Kind       string
	Key        kube.Key
	Created    time.Time
	Deleting   bool
	Conditions []conditions.Condition
	Failing    Failing   // its last run failed; the zero value: it did not
	Next       time.Time // when its next run may start; zero: none is due
}

// conditioned is an object that can say its conditions.
type conditioned interface{ Shown() []conditions.Condition }

// Owners calls f for each object of the source made by For, without an order. The conditions must not be changed.
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
	if object == nil {
		return Owner{}, false
	}
	m := object.ObjectMeta()
	o := Owner{Kind: c.kind, Key: k, Created: m.CreationTimestamp, Deleting: !m.DeletionTimestamp.IsZero()}
	if s := c.streaks.get(k); s.failures > 0 {
		o.Failing = Failing{Key: k, Failures: s.failures, Stalled: s.stalled, Reason: s.reason, Since: s.since}
	}
	if says, ok := object.(conditioned); ok {
		o.Conditions = says.Shown()
	}
	o.Next, _ = c.queue.Due(k)
	return o, true
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
