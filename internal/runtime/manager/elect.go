package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// elect has the controllers work while this process leads, until ctx ends. The lease is held until last has returned.
// A lease that could not be released is no failure of the process.
func (m *Manager) elect(ctx context.Context, last func()) error {
	var mu sync.Mutex // guards errs
	var errs []error
	m.awaitCaches(ctx)
	err := m.o.Elector.Run(ctx, func(ctx, leaseCtx context.Context) {
		m.recordLeading("became leader")
		working, stop := context.WithCancel(ctx)
		defer stop()
		var leading sync.WaitGroup
		for _, c := range m.o.Controllers {
			if !c.Elected() {
				continue // works without the lead
			}
			leading.Go(func() {
				err := m.contain("controller "+c.Name(), func() error { return c.Lead(working, leaseCtx) })
				if err != nil {
					stop()
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
		if m.o.Set != nil {
			leading.Go(func() {
				lead := func() error { return m.o.Set.Lead(working, leaseCtx) }
				_ = m.contain(set, lead) // the failure is logged already
			})
		}
		leading.Wait()
		m.recordLeading("stopped leading")
		if ctx.Err() != nil {
			last()
		}
	})
	if err != nil {
		m.o.Log.Info("cannot release the lease: it is left to expire", kube.Warn("problem", err.Error())...)
	}
	return errors.Join(errs...)
}

// recordLeading records a change of leadership as an Event on the lease, in the words of client-go.
func (m *Manager) recordLeading(what string) {
	r, lease := m.o.Elector.Lease()
	m.o.ElectionLog.Record(events.Event{Regarding: events.ObjectOf(r, lease), Type: events.Normal,
		Reason: "LeaderElection", Action: "LeaderElection", Note: m.o.Elector.Identity() + " " + what})
}

const (
	// cachesWait is how long a process leaves the lease to other replicas after the start while caches are not synced,
	// and cachesPoll the time between two looks. A resource that cannot be listed must not keep all controllers
	// waiting.
	cachesWait = 15 * time.Second
	cachesPoll = 100 * time.Millisecond
)

// awaitCaches waits until the mirrors of all controllers are synced or parked, or until it has waited for long enough.
func (m *Manager) awaitCaches(ctx context.Context) {
	enough := time.After(cachesWait)
	poll := time.NewTicker(cachesPoll)
	defer poll.Stop()
	for slices.ContainsFunc(m.controllers(), func(c *controller.Controller) bool { return c.Ready() != nil }) {
		select {
		case <-poll.C:
		case <-enough:
			return
		case <-ctx.Done():
			return
		}
	}
}
