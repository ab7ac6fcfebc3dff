package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"skiff/internal/apply"
	"skiff/internal/kube"
)

const (
	// overdue is how long the cache may be behind an answer of ours before the server is asked. An event takes milliseconds.
	overdue = 5 * time.Second
	// soon is the wait where the next event should bring what is missing, and this is only for the case that it does not.
	soon = time.Second
	// recheck is the wait for what only somebody else can change, and of which nothing tells us: a pod that is not ours.
	recheck = time.Minute
)

// crew is the pods of one Redis during one reconcile.
type crew struct {
	*reconciler
	rd   *Redis
	mem  *memory
	idle bool          // nothing is changed in this round, only reported
	wait time.Duration // look again after this time, even if no event comes; 0: no need
}

func (c *crew) again(d time.Duration) { c.wait = apply.Earlier(c.wait, d) }

func (c *crew) key(ordinal int) kube.Key {
	return kube.Key{Namespace: c.rd.Namespace, Name: podName(c.rd.Name, ordinal)}
}

// look returns all ordinals below num, and those above that have a pod of ours, in order.
func (c *crew) look(ctx context.Context, num int) ([]*slot, error) {
	ordinals := map[int]bool{}
	for i := range num {
		ordinals[i] = true
	}
	cached, err := c.pods.ByOwner(c.rd.Namespace, c.rd.UID)
	if err != nil {
		return nil, err
	}
	for _, p := range cached {
		if n, ok := ordinalOf(c.rd.Name, p.Name); ok {
			ordinals[n] = true
		}
	}
	for n := range c.mem.pods {
		ordinals[n] = true
	}
	lost := c.lost(ordinals)
	var slots []*slot
	for _, n := range slices.Sorted(maps.Keys(ordinals)) {
		s, err := c.slot(ctx, n)
		if err == nil && lost[n] && s.pod == nil {
			err = c.find(ctx, s)
		}
		if err != nil {
			return nil, err
		}
		if n < num || s.pod != nil {
			slots = append(slots, s)
		}
	}
	c.mem.tidy()
	return slots, nil
}

// lost adds to the ordinals those of members that the last status tells of and that have gone without our doing. They may
// be there still: a pod that loses the label which our watch selects by looks deleted. One that is to be there is found by
// the POST that would replace it, unless nothing is changed now; of the others nothing else would tell, once the status has
// forgotten them.
func (c *crew) lost(ordinals map[int]bool) map[int]bool {
	lost := map[int]bool{}
	for _, member := range c.rd.Status.Members {
		n, ok := ordinalOf(c.rd.Name, member.Name)
		m := c.mem.pods[n]
		if ok && (c.idle || !ordinals[n] || m != nil) && (m == nil || m.removed != member.UID) {
			ordinals[n], lost[n] = true, true
		}
	}
	return lost
}

// find asks the server for the pod of a slot that the cache does not show.
func (c *crew) find(ctx context.Context, s *slot) error {
	p, ok, err := c.read(ctx, s.ordinal)
	if err == nil && ok && p.ControllerUID() == c.rd.UID {
		s.pod, s.ending = p, p.Deleting()
	}
	return err
}

// slot returns what is known of one ordinal.
func (c *crew) slot(ctx context.Context, ordinal int) (*slot, error) {
	m := c.mem.pods[ordinal]
	if m == nil {
		m = &podMemory{}
	}
	now := time.Now()
	s := &slot{ordinal: ordinal, name: podName(c.rd.Name, ordinal)}
	read := func() (*pod, bool, error) { return c.read(ctx, ordinal) }
	p, ok, err := m.answer.Newest(c.key(ordinal), c.pods, read)
	if err != nil {
		return nil, err
	}
	if ok && p.UID == m.removed && !p.Deleting() && !m.gone && now.Sub(m.asked) >= overdue {
		if p, ok, err = read(); err != nil { // the cache should have shown its end by now
			return nil, err
		}
		m.asked, m.gone = now, !ok || p.UID != m.removed
	}
	switch {
	case !ok:
		m.removed, m.gone = "", false
		if m.foreign != "" && now.Before(m.recheck) {
			s.foreign = m.foreign
			c.again(m.recheck.Sub(now))
		} else {
			m.foreign = ""
		}
		return s, nil
	case p.ControllerUID() != c.rd.UID:
		s.foreign = describeForeign(p)
		c.again(recheck)
		return s, nil
	case p.UID != m.removed:
		m.removed, m.gone = "", false
		s.pod, s.ending = p, p.Deleting()
	case !m.gone:
		s.pod, s.ending = p, true
		if !p.Deleting() {
			c.again(m.asked.Add(overdue).Sub(now))
		}
	}
	c.again(m.answer.Remaining())
	return s, nil
}

// read gets a pod from the server.
func (c *crew) read(ctx context.Context, ordinal int) (*pod, bool, error) {
	p := new(pod)
	err := c.client.Get(ctx, pods, c.key(ordinal), p)
	switch {
	case kube.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return p, true, nil
}

// describeForeign says whose pod is in our way.
func describeForeign(p *pod) string {
	if o, ok := p.Controller(); ok {
		return fmt.Sprintf("Pod %s exists and belongs to %s %s (uid %s)", p.Key(), o.Kind, o.Name, o.UID)
	}
	return fmt.Sprintf("Pod %s exists and was not made by skiff", p.Key())
}

// create makes the pod of a slot. That there is one already is no error: the cache was behind, or does not see it.
func (c *crew) create(ctx context.Context, d *desired, s *slot) (created bool, err error) {
	if err := c.mem.refused.Standing(d.revision); err != nil {
		return false, err
	}
	answer := new(pod)
	err = c.client.Create(ctx, pods, c.rd.Namespace, d.podBody(c.rd, s.ordinal), answer, createOptions)
	switch {
	case err == nil:
		*c.mem.pod(s.ordinal) = podMemory{}
		c.mem.pod(s.ordinal).answer.Set(answer)
		c.mem.accepted = d.revision
		s.pod = answer
		return true, nil
	case kube.IsAlreadyExists(err):
		return false, c.meet(ctx, s)
	case kube.IsRefused(err):
		c.mem.refused.Note(d.revision, err)
	}
	return false, err
}

// createOptions are strict, so that a typo in a template is refused and not dropped.
var createOptions = kube.WriteOptions{FieldManager: apply.Manager, FieldValidation: "Strict"}

// meet takes in the pod that was in the way of a POST.
func (c *crew) meet(ctx context.Context, s *slot) error {
	p, ok, err := c.read(ctx, s.ordinal)
	if err != nil {
		return err
	}
	if !ok { // it has just gone
		c.again(soon)
		return nil
	}
	m := c.mem.pod(s.ordinal)
	*m = podMemory{}
	managedBy, _ := p.Labels.Get(apply.ManagedByLabel)
	switch {
	case p.ControllerUID() == c.rd.UID:
		m.answer.Set(p)
		s.pod, s.ending = p, p.Deleting()
		return c.relabel(ctx, s) // if that is why the cache does not show it
	case managedBy == apply.ManagedBy:
		m.answer.Set(p) // until the cache shows it, and tells of its end
	default:
		m.foreign, m.recheck = describeForeign(p), time.Now().Add(recheck)
	}
	s.foreign = describeForeign(p)
	c.again(recheck)
	return nil
}

// relabel brings back the labels that a pod needs to be found, by our watch and by the Service.
func (c *crew) relabel(ctx context.Context, s *slot) error {
	want := childLabels(c.rd.Name)
	if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(key string) bool {
		v, _ := s.pod.Labels.Get(key)
		return v != want[key]
	}) {
		return nil
	}
	answer := new(pod)
	err := c.client.Patch(ctx, pods, c.key(s.ordinal), kube.MergePatch,
		map[string]any{"metadata": map[string]any{"uid": s.pod.UID, "labels": want}}, answer, kube.WriteOptions{FieldManager: apply.Manager})
	if kube.IsNotFound(err) || kube.IsConflict(err) {
		c.again(soon) // another one is there, or none; either comes as an event
		return nil
	}
	if err == nil {
		c.mem.pod(s.ordinal).answer.Set(answer)
		s.pod = answer
	}
	return err
}

// remove deletes the pod of a slot, and no other one that may have taken its place.
func (c *crew) remove(ctx context.Context, s *slot) (removed bool, err error) {
	uid := s.pod.UID
	err = c.client.Delete(ctx, pods, c.key(s.ordinal), kube.DeleteOptions{UID: uid, Propagation: kube.Background})
	switch {
	case err == nil:
		s.ending = true
		c.again(overdue)
	case kube.IsNotFound(err):
		s.pod = nil
		c.again(soon)
	case kube.IsConflict(err): // another one has its name, or it has just changed: a look will tell
		s.pod = nil
		c.again(soon)
		if err := c.meet(ctx, s); err != nil || s.pod != nil && s.pod.UID == uid {
			return false, err
		}
	default:
		return false, err
	}
	m := c.mem.pod(s.ordinal)
	m.removed, m.gone, m.asked = uid, err != nil, time.Now()
	return err == nil, nil
}

// try asks the server whether it would take a pod of the wanted revision, before a roll takes the first old one away: a
// template that it refuses must not cost a pod. It refuses what is wrong before it looks at the name, which is taken.
func (c *crew) try(ctx context.Context, d *desired, s *slot) error {
	if c.mem.accepted == d.revision {
		return nil
	}
	if err := c.mem.refused.Standing(d.revision); err != nil {
		return err
	}
	o := createOptions
	o.DryRun = true
	err := c.client.Create(ctx, pods, c.rd.Namespace, d.podBody(c.rd, s.ordinal), nil, o)
	switch {
	case err == nil, kube.IsAlreadyExists(err):
		c.mem.accepted = d.revision
		return nil
	case kube.IsRefused(err):
		c.mem.refused.Note(d.revision, err)
	}
	return err
}
