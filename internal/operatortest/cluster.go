package operatortest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"skiff/internal/kube"
)

// tick is how often a Cluster looks.
const tick = 500 * time.Millisecond

// Cluster plays a part of a cluster: it looks at the world each tick before which something has changed, or when
// something is due.
type Cluster struct {
	*World
	Client *kube.Client
	// is told of what belongs to nobody any more, because its owner was deleted with that policy
	Orphaned func(kube.Resource, *kube.Meta)

	mu    sync.Mutex           // guards what follows, and what a turn works on
	since map[string]time.Time // when a stage began, see After
	seen  int64                // the revision at the last turn
	due   bool                 // a stage was not over then
}

// NewCluster runs turn until the world ends.
func NewCluster(w *World, turn func(context.Context, *Cluster)) *Cluster {
	c := &Cluster{World: w, Client: w.Connect("cluster"), Orphaned: func(kube.Resource, *kube.Meta) {},
		since: map[string]time.Time{}}
	w.Background(func(ctx context.Context) error {
		defer c.Client.Close()
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				c.look(ctx, turn)
			}
		}
	})
	return c
}

func (c *Cluster) look(ctx context.Context, turn func(context.Context, *Cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	revision := c.API.Revision()
	if revision == c.seen && !c.due {
		return
	}
	c.seen, c.due = revision, false
	turn(ctx, c)
}

// Change changes what a turn works on.
func (c *Cluster) Change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.due = true
}

// After says whether a stage of an object has lasted for d. If not, there is another turn.
func (c *Cluster) After(uid, stage string, d time.Duration) bool {
	key := uid + "/" + stage
	if c.since[key].IsZero() {
		c.since[key] = time.Now()
	}
	over := time.Since(c.since[key]) >= d
	c.due = c.due || !over
	return over
}

// Check fails the test on anything but what a race with the others explains.
func (c *Cluster) Check(err error) {
	if err != nil && !kube.IsNotFound(err) && !kube.IsConflict(err) && !errors.Is(err, context.Canceled) {
		c.Errorf("cluster: %v", err)
	}
}

// Patch merges into one object, and not into a later one of the same name.
func (c *Cluster) Patch(ctx context.Context, r kube.Resource, m *kube.Meta, subresource string, body map[string]any) {
	meta, _ := body["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["uid"] = m.UID
	body["metadata"] = meta
	c.Check(c.Client.Patch(ctx, r, m.Key(), kube.MergePatch, body, nil,
		kube.WriteOptions{FieldManager: "cluster", Subresource: subresource}))
}

// The garbage collector's finalizers.
const (
	foreground = "foregroundDeletion"
	orphan     = "orphan"
)

// Collect does what the garbage collector does about custom resources and what they control.
func (c *Cluster) Collect(ctx context.Context, dependents ...kube.Resource) {
	owners := map[string]*kube.Meta{}
	for _, o := range c.API.List(c.Resource, "") {
		m := c.metaOf(o)
		owners[m.UID] = m
	}
	blocked := map[string]bool{}
	for _, r := range dependents {
		for _, o := range c.API.List(r, "") {
			m := c.metaOf(o)
			c.release(ctx, r, m) // it owns nothing that we play
			uid := m.ControllerUID()
			owner := owners[uid]
			switch {
			case uid == "":
			case owner != nil && owner.Deleting() && slices.Contains(owner.Finalizers, orphan):
				c.Orphaned(r, m)
				c.Patch(ctx, r, m, "", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
			case owner == nil || owner.Deleting() && slices.Contains(owner.Finalizers, foreground):
				blocked[uid] = true
				if !m.Deleting() {
					c.Check(c.Client.Delete(ctx, r, m.Key(),
						kube.DeleteOptions{UID: m.UID, Propagation: kube.Background}))
				}
			}
		}
	}
	for uid, m := range owners {
		if !blocked[uid] {
			c.release(ctx, c.Resource, m)
		}
	}
}

// release takes the garbage collector's finalizers off an object that is being deleted.
func (c *Cluster) release(ctx context.Context, r kube.Resource, m *kube.Meta) {
	rest := slices.DeleteFunc(slices.Clone(m.Finalizers),
		func(f string) bool { return f == foreground || f == orphan })
	if m.Deleting() && len(rest) < len(m.Finalizers) {
		c.Patch(ctx, r, m, "", map[string]any{"metadata": map[string]any{"finalizers": rest}})
	}
}
