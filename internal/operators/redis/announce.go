package redis

import (
	"context"

	"github.com/go-logr/logr"

	"skiff/internal/conditions"
	"skiff/internal/events"
)

// action is what this controller was doing when something happened (events.k8s.io/v1 wants to know).
const action = "Reconcile"

// event records an Event about the Redis, and about one of its pods if that is not nil.
func (c *crew) event(t events.Type, reason, note string, about *pod) {
	e := events.Event{Regarding: events.ObjectOf(resource, c.rd), Type: t, Reason: reason, Action: action, Note: note}
	if about != nil {
		e.Related = events.ObjectOf(pods, about)
	}
	c.events.Record(e)
}

// announce tells of what a new status says that the one before it did not.
func (c *crew) announce(ctx context.Context, before, after []conditions.Condition) {
	for _, n := range conditions.NewsOf(before, after) {
		kind := events.Normal
		if n.Warning {
			logr.FromContextOrDiscard(ctx).Info("degraded", "reason", n.Reason, "message", n.Note)
			kind = events.Warning
		}
		c.event(kind, n.Reason, n.Note, nil)
	}
}
