package controller

import (
	"context"
	"slices"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

const (
	// unseenAfter is how long a part may be without a right or a resource before the status of its objects says so:
	// longer than an API server that has started refuses what it will allow.
	unseenAfter = 2 * time.Minute
	// muteTime is how long no status is written after the right to write it was missing, too. A grant ends it earlier
	// if it lets the part be watched again.
	muteTime = 5 * time.Minute

	unseenCause = "its state is not known"
	seenCause   = "watched again"
)

// updateUnseen has the status of the objects of a part say that their state is not known, once it could not be watched
// for long, and again when the reason changes or it could not be written for a while.
func (c *Controller) updateUnseen(one *part, was stage) {
	if c.unseen == nil || time.Since(one.closed) < unseenAfter || !c.parked(one) {
		return // a server that does not answer takes no status either
	}
	why := health.Texts(c.problemsOf(one), time.Now())
	if was.doing == reporting && why == was.why || was.doing == muted && time.Since(was.since) < muteTime {
		return
	}
	c.parts.setStage(one, reporting, why)
	c.queue.Release(one.namespace)
	c.queueAll(one, unseenCause)
}

// parked reports whether a right or a resource is missing in a part.
func (c *Controller) parked(one *part) bool {
	return slices.ContainsFunc(c.mirrors, func(m mirror) bool {
		return slices.ContainsFunc(m.State(), func(s cache.ScopeState) bool {
			return s.Parked && (s.Namespace == "" || s.Namespace == one.namespace)
		})
	})
}

// queueAll queues all objects of a part.
func (c *Controller) queueAll(one *part, cause string) {
	if c.keys == nil {
		return
	}
	for _, k := range c.keys(one.namespace) {
		c.queue.AddLow(k, cause)
	}
}

// reportUnseen runs the unseenFunc for one key. Where it is forbidden, no other is written in the part for a while:
// the other objects would meet the same.
func (c *Controller) reportUnseen(ctx context.Context, item queue.Item, why string) {
	defer c.queue.Done(item.Key)
	if c.object(item.Key) == nil {
		return // parked before the object was listed, or the object is gone: no status to write
	}
	log := c.log.WithValues("key", item.Key, "cause", item.Cause())
	_, err := c.call(ctx, log, item, func(ctx context.Context, key kube.Key) (Outcome, error) {
		return Done, c.unseen(ctx, key, why)
	})
	switch {
	case err == nil:
		c.streaks.Forget(item.Key)
	case ctx.Err() != nil:
		c.queue.Add(item.Key, cutCause)
	case kube.IsForbidden(err):
		c.streaks.Forget(item.Key)
		if c.parts.mute(item.Key) {
			log.Info("cannot set the status to Unknown; it may be stale",
				kube.Warn("problem", kube.Explain(err))...)
		}
	default:
		c.stats.errors.Add(1)
		d := c.retry(item.Key, next(err, c.streaks.get(item.Key), time.Now()), err)
		log.Error(err, "cannot set the status to Unknown", "outcome", c.again("error, again in ", d))
	}
}

// mute stops reporting in the part of a key, and reports whether it had not been stopped.
func (p *parts) mute(k kube.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.partLocked(k)
	if one == nil || one.stage.doing != reporting {
		return false
	}
	one.stage = stage{muted, time.Now(), one.stage.why}
	return true
}
