package operatortest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// tick is how often a Cluster checks whether it has something to do.
const tick = 500 * time.Millisecond

// Cluster simulates parts of a cluster: it calls a function after each tick in which an object has changed, or while a
// stage (see After) is not over.
type Cluster struct {
	*Env
	Client *kube.Client
	// Orphaned is called for each object whose owner was deleted with the policy Orphan.
	Orphaned func(kube.Resource, *kube.Meta)

	mu    sync.Mutex           // guards what follows, and the data of step
	since map[string]time.Time // when a stage began, by uid/stage
	seen  int64                // the revision at the last step
	due   bool                 // a stage was not over at the last step
}

// NewCluster calls step until the environment ends.
func NewCluster(w *Env, step func(context.Context, *Cluster)) *Cluster {
	c := &Cluster{Env: w, Client: w.Connect("cluster"), Orphaned: func(kube.Resource, *kube.Meta) {},
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
				c.tick(ctx, step)
			}
		}
	})
	return c
}

func (c *Cluster) tick(ctx context.Context, step func(context.Context, *Cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	revision := c.API.Revision()
	if revision == c.seen && !c.due {
		return
	}
	c.seen, c.due = revision, false
	step(ctx, c)
}

// Change changes the data of step, which is called at the next tick.
func (c *Cluster) Change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.due = true
}

// After reports whether a stage of an object has lasted for d. If not, step is called again at the next tick.
func (c *Cluster) After(uid, stage string, d time.Duration) bool {
	key := uid + "/" + stage
	if c.since[key].IsZero() {
		c.since[key] = time.Now()
	}
	over := time.Since(c.since[key]) >= d
	c.due = c.due || !over
	return over
}

// Check fails the test on any error that a race with the other writers does not explain.
func (c *Cluster) Check(err error) {
	if err != nil && !kube.IsNotFound(err) && !kube.IsConflict(err) && !errors.Is(err, context.Canceled) {
		c.Errorf("cluster: %v", err)
	}
}

// Patch merges into the object with this uid, not into a later one of the same name.
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

// Collect acts as the garbage collector for custom resources and the objects that they control.
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
			c.release(ctx, r, m) // the dependents own nothing in these tests
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

// release removes the garbage collector's finalizers from an object that is being deleted.
func (c *Cluster) release(ctx context.Context, r kube.Resource, m *kube.Meta) {
	rest := slices.DeleteFunc(slices.Clone(m.Finalizers),
		func(f string) bool { return f == foreground || f == orphan })
	if m.Deleting() && len(rest) < len(m.Finalizers) {
		c.Patch(ctx, r, m, "", map[string]any{"metadata": map[string]any{"finalizers": rest,
			"resourceVersion": m.ResourceVersion}}) // others take theirs off, too
	}
}
