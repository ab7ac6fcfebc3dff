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

// done are the outcomes that are told, with the verb of the reason and its past tense.
var done = map[apply.Outcome]struct{ verb, past string }{
	apply.Created:  {"Create", "created"},
	apply.Deleted:  {"Delete", "deleted"},
	apply.Replaced: {"Replace", "deleted"},
	apply.Rolled:   {"Roll", "deleted"},
	apply.Adopted:  {"Adopt", "adopted"},
	apply.Released: {"Release", "released"},
}

// announceActions tells of what was done: of all pods that were created in one Event, because each costs as much as
// a pod. It is about the last of them, so that the next Event of its kind is not counted as a repetition of this one.
func (c *run) announceActions(ctx context.Context, results []apply.Result) {
	var created []string
	var last apply.Result
	for _, r := range results {
		what, ok := done[r.Outcome]
		if !ok {
			continue
		}
		logr.FromContextOrDiscard(ctx).Info(what.past, "pod", r.Key.Name, "reason", what.verb+"Pod", "note", r.Message,
			"uid", r.Live.ObjectMeta().UID)
		if r.Outcome == apply.Created {
			created, last = append(created, r.Key.Name), r
			continue
		}
		kind := events.Normal
		if r.Outcome == apply.Replaced {
			kind = events.Warning
		}
		c.event(kind, what.verb+"Pod", what.past+" pod "+r.Key.Name+": "+r.Message, r.Live)
	}
	switch len(created) {
	case 0:
	case 1:
		c.event(events.Normal, "CreatePod", "created pod "+created[0]+": "+last.Message, last.Live)
	default:
		c.event(events.Normal, "CreatePod", "created pods "+strings.Join(created, ", ")+": "+last.Message, last.Live)
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
