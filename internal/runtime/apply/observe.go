package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// overdue is how long the cache may go on showing a child whose deletion was accepted before the server is asked. An
// event takes milliseconds.
const overdue = 5 * time.Second

// name identifies a child of an owner.
type name struct {
	kind *Kind
	key  kube.Key
}

// children returns the valid declared children in their order (the results of invalid children go into the report),
// followed by the owner's other children, certain or possible: from the cache, from the memory, and from the owner's
// status.
func (a *application) children(want []Child, r *Report) (all []*child) {
	remembered := make(map[name]*memory, len(a.mem.children))
	for _, m := range a.mem.children {
		remembered[name{m.kind, m.key}] = m
	}
	known := make(map[name]bool, len(want))
	add := func(n name, stub kube.Object) *child {
		known[n] = true
		m := remembered[n]
		if m == nil {
			m = &memory{kind: n.kind, key: n.key}
		}
		c := &child{application: a, kind: n.kind, key: n.key, mem: m, stub: stub}
		all = append(all, c)
		return c
	}
	for i := range want {
		n, d, err := a.declare(&want[i])
		if err == nil && known[n] {
			err = fmt.Errorf("%s %s is declared twice", n.kind.resource.Kind, n.key)
		}
		if err != nil {
			resource, _ := want[i].Body["kind"].(string)
			r.Children[i] = Result{Resource: kube.Resource{Kind: resource}, Key: n.key, Outcome: Failed,
				Err: fmt.Errorf("declare a child of %s %s: %w", a.owner.Resource.Kind, a.owner.Key(), err)}
			continue
		}
		c := add(n, nil)
		c.want, c.at = d, i
	}
	for i := range a.kinds {
		kind := &a.kinds[i]
		if a.teardown && kind.template == nil {
			continue
		}
		others, err := a.othersOf(kind)
		r.Err = errors.Join(r.Err, err)
		for _, k := range slices.SortedFunc(maps.Keys(others), byNumber) {
			if n := (name{kind, k}); !known[n] {
				add(n, others[k])
			}
		}
	}
	return all
}

// othersOf returns the keys of existing or possible children of a kind, with the cache's copies.
func (a *application) othersOf(kind *Kind) (map[kube.Key]kube.Object, error) {
	cached, err := kind.mirror.owned(a.owner.Namespace, a.owner.UID)
	if err != nil {
		err = fmt.Errorf("read the children of %s %s: %w", a.owner.Resource.Kind, a.owner.Key(), err)
	}
	others := make(map[kube.Key]kube.Object, len(cached))
	for _, m := range a.mem.children {
		if m.kind == kind {
			others[m.key] = nil
		}
	}
	if kind.template != nil {
		for k := range a.owner.Known {
			others[k] = nil
		}
	}
	for _, live := range cached {
		if a.ours(live) {
			others[live.ObjectMeta().Key()] = live
		}
	}
	return others, err
}

// byNumber orders names so that a number at the end counts as a number.
func byNumber(a, b kube.Key) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), a.Compare(b))
}

// observe finds the live state of the children. The server is asked only where the cache does not know.
func (a *application) observe(ctx context.Context, all []*child) {
	var ask []*child
	for _, c := range all {
		if c.look() {
			ask = append(ask, c)
		}
	}
	ask = append(ask, lostUncached(all)...)
	ask = a.admitUnheld(ctx, ask)
	sideBySide(len(ask), func(i int) {
		if err := ask[i].ask(ctx); err != nil {
			ask[i].err = err
		}
	})
	for _, c := range all {
		c.pace(time.Now())
	}
}

// look observes the child without a request. True: the server has to be asked.
func (c *child) look() (ask bool) {
	live, ask, err := c.known()
	if cache.Unheld(err) != nil {
		return c.lookUncached(err)
	}
	if c.err = err; err != nil || ask {
		return ask
	}
	t := c.mem.wrong
	switch {
	case live == nil && t != nil && t.foreign != nil && time.Since(t.readAt) < recheck:
		live = t.foreign
	case live == nil && c.mayBeHidden():
		return true
	case live == nil && t != nil:
		t.removed, t.gone = "", false
	case live != nil && c.mem.removed(uidOf(live)) && !t.gone && !live.ObjectMeta().Deleting() &&
		time.Since(t.asked) >= overdue: // the cache should have shown the deletion by now
		return true
	}
	c.see(live)
	return false
}

// known returns the newest copy of the child known without a request, nil if there is none; ask says that the copy is
// too old.
func (c *child) known() (live kube.Object, ask bool, err error) {
	// Ask whether the cache has caught up before reading the cache. In the other order the cache could catch up in
	// between, and an old copy would pass for new.
	newest := c.mem.written.trusted(c.kind.mirror.reached)
	cached, ok, err := c.kind.mirror.get(c.key)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read %s: %w", c, err)
	case newest == fromAnswer:
		return c.mem.written.object, false, nil
	case newest == fromServer:
		return nil, true, nil
	case ok && c.mem.wrong != nil:
		c.mem.wrong.hidden, c.mem.wrong.foreign = false, nil
	}
	return cached, false, nil
}

// mayBeHidden says whether the cache may hide an existing object: an object that loses the label of our watch looks
// deleted. A declared child is found by the POST, unless nothing is to be changed.
func (c *child) mayBeHidden() bool {
	if t := c.mem.wrong; t != nil && (t.hidden || t.foreign != nil) {
		return true
	}
	if c.want != nil {
		return c.paused && (c.kind.template == nil || c.isKnown())
	}
	return c.mem.seen != "" || c.isKnown()
}

// isKnown says whether the owner's status names the child, and we have not removed the named child.
func (c *child) isKnown() bool {
	uid, ok := c.owner.Known[c.key]
	return ok && !c.mem.removed(uid)
}

// ask observes the child by a request to the server.
func (c *child) ask(ctx context.Context) error {
	live, err := c.read(ctx)
	if err != nil {
		return err
	}
	if t := c.mem.wrong; t != nil && t.removed != "" {
		t.asked, t.gone = time.Now(), live == nil || uidOf(live) != t.removed
	}
	c.see(live)
	if c.live != nil {
		_, ok, _ := c.kind.mirror.get(c.key) // the next look meets the error
		if c.unheld == nil && (c.mem.wrong != nil || !ok) {
			c.mem.trouble().hidden = !ok
		}
	}
	return nil
}

// see takes in a copy of the object of the child's name, nil: no object.
func (c *child) see(live kube.Object) {
	c.live, c.other, c.deleting, c.vitals = nil, nil, false, vitals{}
	switch {
	case live == nil:
		return
	case !c.ours(live):
		c.other = live
		return
	case !c.mem.removed(uidOf(live)):
		c.live, c.deleting = live, live.ObjectMeta().Deleting()
		if t := c.mem.wrong; t != nil {
			t.removed, t.gone = "", false
		}
		if !c.deleting {
			c.mem.seen = uidOf(live)
		}
	case c.mem.wrong.gone:
		return
	default:
		if c.live, c.deleting = live, true; !live.ObjectMeta().Deleting() {
			c.requeue(time.Until(c.mem.wrong.asked.Add(overdue)))
		}
	}
	if c.kind.template != nil {
		c.vitals = c.kind.template.vitalsOf(live)
	}
}

// lookAgain observes the child without a request; false: a request is needed.
func (c *child) lookAgain() bool {
	live, ask, err := c.known()
	if err != nil || ask {
		return false
	}
	c.see(live)
	return true
}

// knownForeign says whether a foreign object had the child's name at the last read, and the cache does not disagree.
func (c *child) knownForeign() bool {
	if c.mem.wrong == nil || c.mem.wrong.foreign == nil {
		return false
	}
	live, ask, err := c.known()
	return live == nil && !ask && err == nil
}

func (a *application) ours(live kube.Object) bool { return a.options.owns(a.owner.UID, live) }

// read gets the object of the child's name from the server, nil if there is none, and remembers the answer.
func (c *child) read(ctx context.Context) (kube.Object, error) {
	live, err := c.get(ctx)
	switch {
	case kube.IsNotFound(err):
		if t := c.mem.wrong; t != nil {
			t.hidden, t.foreign = false, nil
		}
		c.mem.written.clear()
		return nil, nil
	case err != nil:
		return nil, err
	case c.ours(live):
		if c.mem.wrong != nil {
			c.mem.wrong.foreign = nil
		}
		c.mem.written.set(live)
	default:
		c.mem.written.clear()
		c.mem.trouble().foreign, c.mem.trouble().readAt = live, time.Now()
	}
	return live, nil
}

// get asks the server for the child. prepare needs the managedFields of the answer as well.
func (c *child) get(ctx context.Context) (kube.Object, error) {
	var answer kube.Raw
	if err := c.client.Get(ctx, c.kind.resource, c.key, &answer); err != nil {
		return nil, err
	}
	live, m := c.kind.mirror.empty(), new(managed)
	if err := errors.Join(kube.Unmarshal(answer, live), kube.Unmarshal(answer, m)); err != nil {
		return nil, fmt.Errorf("read %s: %w", c, err)
	}
	c.managed = m
	return live, nil
}

// maxUnheld bounds how many children of an owner are read from the server because the cache does not hold them: each
// costs a request per Apply.
const maxUnheld = 100

// lookUncached observes a child outside the cache: whether it exists, and is being deleted. No more is needed to
// remove the child. True: the server has to be asked.
func (c *child) lookUncached(shed error) (ask bool) {
	if c.options.Unheld != nil {
		if head, ok := c.kind.mirror.head(c.key); ok && !c.ours(head) {
			c.see(head)
			return false
		}
		c.unheld = shed
		return true
	}
	c.uncached, c.err = true, shed
	if c.kind.template == nil {
		c.outcome = Failed
	} else if c.stub != nil {
		c.see(c.stub)
	}
	return false
}

// admitUnheld asks for the memory of the children to be read because they are too large for the cache, and returns the
// part of ask that can be read.
func (a *application) admitUnheld(ctx context.Context, ask []*child) []*child {
	var bytes int64
	n := 0
	for _, c := range ask {
		if c.unheld != nil {
			bytes += cache.Unheld(c.unheld).Size
			n++
		}
	}
	if n == 0 {
		return ask
	}
	err := a.options.Unheld(ctx, bytes)
	if n > maxUnheld {
		err = fmt.Errorf("%d children of %s %s are too large to be held in memory, and %d are read at most", n,
			a.owner.Resource.Kind, a.owner.Key(), maxUnheld)
	}
	if err == nil {
		return ask
	}
	return slices.DeleteFunc(ask, func(c *child) bool {
		switch {
		case c.unheld == nil:
			return false
		case c.overBudget() && n > maxUnheld:
			c.err = c.unheld
		default:
			c.err = fmt.Errorf("read %s, which is not held in memory: %w", c, err)
		}
		return true
	})
}

// overBudget says whether the namespace of an unheld child takes too much memory: nothing is created there.
func (c *child) overBudget() bool {
	shed := cache.Unheld(c.unheld)
	return shed != nil && shed.Reason == cache.OverBudget
}

// lostUncached returns the children of an owner under deletion that are named by the status and unknown to the cache:
// they may have lost our label. They are looked for when all other children are gone.
func lostUncached(all []*child) []*child {
	var lost []*child
	for _, c := range all {
		switch {
		case !c.teardown || c.live != nil:
			return nil
		case c.uncached && c.isKnown():
			lost = append(lost, c)
		}
	}
	return lost
}

// pace decides when an ended declared child may be replaced.
func (c *child) pace(now time.Time) {
	if c.kind.template == nil || c.want == nil || !c.stays() {
		return
	}
	if c.mem.wrong != nil {
		c.mem.wrong.crash.follow(uidOf(c.live), now)
	}
	if !c.vitals.ended || !c.current() {
		return // an older revision is replaced at once: the new revision is not known to end
	}
	crash := &c.mem.trouble().crash
	crash.note(uidOf(c.live), c.want.hash, c.vitals.how, now)
	c.vitals.replace = crash.until
	if wait := crash.until.Sub(now); wait > 0 {
		c.requeue(wait)
	}
}
