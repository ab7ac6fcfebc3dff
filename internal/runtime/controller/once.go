package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

// This file is for a plan: Follow, Settle and Once take the place of Run. There is no worker, and so no second run of
// a key, no retry and no log.

// planCause is the cause of the runs of a plan.
const planCause = "plan"

// settleEvery is how often Settle looks. A list takes milliseconds.
const settleEvery = 5 * time.Millisecond

// Follow has the mirrors of the controller follow the server, until stop has returned.
func (c *Controller) Follow(ctx context.Context) (stop func()) {
	mirroring, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, m := range c.mirrors {
		running.Go(func() { m.Run(mirroring) })
	}
	endAttached := c.attached.open(mirroring)
	return func() {
		endAttached()
		cancel()
		running.Wait()
		c.queue.ShutDown()
	}
}

// Settle waits until each mirror is listed, or parked because a right or the resource is missing. The error says what
// is not, and why.
func (c *Controller) Settle(ctx context.Context) error {
	look := time.NewTicker(settleEvery)
	defer look.Stop()
	for {
		if c.parts.selected {
			c.followSelection()
		}
		err := c.unsettled()
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (c *Controller) unsettled() error {
	for _, m := range c.everyMirror() {
		for _, s := range m.State() {
			switch {
			case s.Synced || s.Parked:
			case s.Err != nil:
				return fmt.Errorf("list %s: %w", scopeName(m.Resource(), s), s.Err)
			default:
				return fmt.Errorf("list %s: no answer yet", scopeName(m.Resource(), s))
			}
		}
	}
	return nil
}

// Once calls the Func for a key. Where the Func has learnt meanwhile that it needs more mirrors, it is called again
// when these are listed.
func (c *Controller) Once(ctx context.Context, k kube.Key) (outcome Outcome, err error) {
	for {
		before := len(c.everyMirror())
		item := queue.Item{Key: k, Causes: []string{planCause}}
		if outcome, err = c.call(ctx, c.log, item, c.f); err != nil || len(c.everyMirror()) <= before {
			return outcome, err
		}
		if err := c.Settle(ctx); err != nil {
			return outcome, err
		}
	}
}

// Resource returns that of the objects of For; the zero value if the keys are no objects.
func (c *Controller) Resource() kube.Resource {
	if c.own == nil {
		return kube.Resource{}
	}
	return c.own.Resource()
}

// Keys returns the objects of For, in order.
func (c *Controller) Keys() []kube.Key {
	return c.keys("")
}

// Assume has the mirror of For show an object as if an event had brought it.
func (c *Controller) Assume(object kube.Raw) error { return c.own.Assume(object) }

// Serves returns nil if all that runs in a namespace need can be read, else what cannot.
func (c *Controller) Serves(namespace string) error {
	for _, m := range c.mirrors {
		of := namespace
		if m.Resource().ClusterScoped {
			of = ""
		}
		if !m.Serves(of) {
			return fmt.Errorf("%s cannot be listed", m.Resource().GroupResource())
		}
	}
	return nil
}

// Missing returns what keeps the controller from working, and where.
func (c *Controller) Missing() []health.Problem { return c.notWorking() }
