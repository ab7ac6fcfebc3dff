package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"skiff/internal/cache"
	"skiff/internal/kube"
)

// podHistory follows the pods of the tour's namespace, through skiff's own mirror: what there is now, and in which order it came
// about. Looks from time to time would miss what the order of a roll is.
type podHistory struct {
	store *cache.Store[*podView]

	mu    sync.Mutex // guards the rest
	now   map[string]*podView
	lines []string // "cache-2 gone", "cache-2 ready"
}

func newPodHistory(c *kube.Client) *podHistory {
	h := &podHistory{now: map[string]*podView{},
		store: cache.New[*podView](cache.Options{Resource: pods, Namespaces: []string{demoNamespace}, Client: c})}
	h.store.OnChange(h.note)
	return h
}

// note takes in a change. It runs on the goroutine of the mirror.
func (h *podHistory) note(c cache.Change[*podView]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := c.Object()
	if c.Type == cache.Gone {
		delete(h.now, p.Name)
		h.lines = append(h.lines, p.Name+" gone")
		return
	}
	h.now[p.Name] = p
	if p.ready() && (c.Type == cache.Appeared || !c.Old.ready()) {
		h.lines = append(h.lines, p.Name+" ready")
	}
}

// read returns the pods, by name, and all that has happened to them.
func (h *podHistory) read() ([]*podView, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.SortedFunc(maps.Values(h.now), func(a, b *podView) int { return cmp.Compare(a.Name, b.Name) })
	return all, slices.Clip(h.lines) // what is appended later goes elsewhere
}

// follow keeps up with the server while work runs.
func (h *podHistory) follow(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { h.store.Run(ctx) })
	err := h.store.WaitSynced(ctx)
	if err == nil {
		err = work(ctx)
	}
	stop()
	running.Wait()
	return err
}
