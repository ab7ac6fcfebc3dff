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
	if c.events == nil {
		return
	}
	e := events.Event{
		Regarding: events.Object{APIVersion: resource.APIVersion(), Kind: resource.Kind, Namespace: c.rd.Namespace,
			Name: c.rd.Name, UID: c.rd.UID, ResourceVersion: c.rd.ResourceVersion},
		Type: t, Reason: reason, Action: action, Note: note,
	}
	if about != nil {
		e.Related = events.Object{APIVersion: pods.APIVersion(), Kind: pods.Kind, Namespace: about.Namespace, Name: about.Name,
			UID: about.UID}
	}
	c.events.Record(e)
}

// announce tells of what a new status says that the one before it did not: once, where the status was written.
func (c *crew) announce(ctx context.Context, before, after []conditions.Condition) {
	log := logr.FromContextOrDiscard(ctx)
	turned := func(conditionType string, to conditions.Status) (conditions.Condition, bool) {
		old, _ := conditions.Get(before, conditionType)
		now, _ := conditions.Get(after, conditionType)
		return now, now.Status == to && (old.Status != to || old.Reason != now.Reason)
	}
	if bad, ok := turned(conditions.Degraded, conditions.True); ok {
		log.Info("degraded", "reason", bad.Reason, "message", bad.Message)
		c.event(events.Warning, bad.Reason, bad.Message, nil)
	}
	if good, ok := turned(conditions.Ready, conditions.True); ok {
		c.event(events.Normal, "Ready", good.Message, nil)
	}
	if _, ok := turned(conditions.Paused, conditions.True); ok {
		c.event(events.Normal, "Paused", "nothing is changed until the annotation "+conditions.PausedAnnotation+" is removed", nil)
	}
	if old, _ := conditions.Get(before, conditions.Paused); old.Status == conditions.True {
		if _, ok := turned(conditions.Paused, conditions.False); ok {
			c.event(events.Normal, "Resumed", "changes are made again", nil)
		}
	}
}
