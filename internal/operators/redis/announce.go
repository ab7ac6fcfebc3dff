package redis

import (
	"context"
	"fmt"
	"strings"

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

// announceMade tells of the pods that were created in one go, in one Event: each costs as much as a pod. It is about the last of them, so
// that the next Event of its kind is not counted as a repetition of this one.
func (c *crew) announceMade(d *desired, made []*slot) {
	if len(made) == 0 {
		return
	}
	var names []string
	for _, s := range made {
		names = append(names, s.name)
	}
	what := "pod "
	if len(made) > 1 {
		what = "pods "
	}
	c.event(events.Normal, createPod, fmt.Sprintf("created %s%s: of revision %s", what, strings.Join(names, ", "), d.revision), made[len(made)-1].pod)
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
