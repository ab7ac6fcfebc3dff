package redis

import (
	"context"
	"strings"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// action is what this controller was doing when something happened (events.k8s.io/v1 wants to know).
const action = "Reconcile"

// event records an Event about the Redis, and about one of its pods if that is not nil.
func (c *run) event(t events.Type, reason, note string, about kube.Object) {
	e := events.Event{Regarding: events.ObjectOf(resource, c.rd), Type: t, Reason: reason, Action: action, Note: note}
	if about != nil {
		e.Related = events.ObjectOf(pods, about)
	}
	c.events.Record(e)
}

// announceActions tells of what was done: of all pods that were created in one Event, because each costs as much as
// a pod. It is about the last of them, so that the next Event of its kind is not counted as a repetition of this
// one.
func (c *run) announceActions(ctx context.Context, actions []apply.Action) {
	var created []string
	var last apply.Action
	for _, a := range actions {
		name := a.Live.ObjectMeta().Name
		logr.FromContextOrDiscard(ctx).Info(a.Verb.Past(), "pod", name, "reason", string(a.Verb)+"Pod", "note", a.Note,
			"uid", a.Live.ObjectMeta().UID)
		if a.Verb == apply.Create {
			created, last = append(created, name), a
			continue
		}
		kind := events.Normal
		if a.Verb == apply.Replace {
			kind = events.Warning
		}
		c.event(kind, string(a.Verb)+"Pod", a.Verb.Past()+" pod "+name+": "+a.Note, a.Live)
	}
	switch len(created) {
	case 0:
	case 1:
		c.event(events.Normal, "CreatePod", "created pod "+created[0]+": "+last.Note, last.Live)
	default:
		c.event(events.Normal, "CreatePod", "created pods "+strings.Join(created, ", ")+": "+last.Note, last.Live)
	}
}

// announce tells of what a new status says that the one before it did not.
func (c *run) announce(ctx context.Context, before, after []conditions.Condition) {
	for _, n := range conditions.NewsOf(before, after) {
		kind := events.Normal
		if n.Warning {
			logr.FromContextOrDiscard(ctx).Info("degraded", "reason", n.Reason, "message", n.Note)
			kind = events.Warning
		}
		c.event(kind, n.Reason, n.Note, nil)
	}
}
