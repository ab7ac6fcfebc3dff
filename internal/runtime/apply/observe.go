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

// children returns the declared children in their order, but for those that are not valid, whose results go into the
// report; and after them the others that the owner has or may have: what the cache shows, what is remembered, and
// what its status names.
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

// othersOf returns where children of a kind are or may be, and what the cache knows of them.
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

// byNumber orders names so that the number at their end counts as a number.
func byNumber(a, b kube.Key) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), a.Compare(b))
}

// observe finds out what there is of the children. The server is asked only where the cache does not say.
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

// look takes what is known of a child without a request. True: the server has to be asked.
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
		time.Since(t.asked) >= overdue: // the cache should have shown its end by now
		return true
	}
	c.see(live)
	return c.want != nil && c.stays() && isLight(c.live) && !c.isSynced() // it is to be compared with another state
}

// known returns the newest copy of the child that is known without a request, nil if there is none; ask says that it
// is too old.
func (c *child) known() (live kube.Object, ask bool, err error) {
	// Whether the cache has caught up is asked before it is read. The other way round it could catch up in between,
	// and the old copy would pass for a new one.
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

// mayBeHidden says that there may be an object that the cache does not show: one that loses the label which our watch
// selects by looks deleted. A declared child is found by the POST that would create it, unless nothing is to be
// changed.
func (c *child) mayBeHidden() bool {
	if t := c.mem.wrong; t != nil && (t.hidden || t.foreign != nil) {
		return true
	}
	if c.want != nil {
		return c.paused && (c.kind.template == nil || c.isKnown())
	}
	return c.mem.seen != "" || c.isKnown()
}

// isKnown says that the owner's status names the child, and that we have not removed that one.
func (c *child) isKnown() bool {
	uid, ok := c.owner.Known[c.key]
	return ok && !c.mem.removed(uid)
}

// ask takes what the server says of a child.
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
		cached, ok, _ := c.kind.mirror.get(c.key) // an error is met by the next look
		if c.unheld == nil && (c.mem.wrong != nil || !ok) {
			c.mem.trouble().hidden = !ok
		}
		if ok && isLight(cached) && c.kind.mirror.swap(cached, c.live) { // held whole until it is as declared
			c.mem.written.clear()
		}
	}
	return nil
}

// see takes in a copy of the object of the child's name, nil: there is none.
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

func (a *application) ours(live kube.Object) bool { return a.options.owns(a.owner.UID, live) }

// read gets the object of the child's name from the server, nil if there is none, and remembers it.
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

// get asks the server for the child. Of the answer prepare needs managedFields as well.
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
