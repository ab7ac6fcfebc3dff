package webserver

import (
	"context"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// action is what this controller was doing when something happened (events.k8s.io/v1 wants to know).
const action = "Reconcile"

// objectOf names an object of resource r as the object of an Event.
func objectOf(r kube.Resource, obj kube.Object) events.Object {
	m := obj.ObjectMeta()
	return events.Object{APIVersion: r.APIVersion(), Kind: r.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}

// childObject names the child of a WebServer as the object of an Event. live is nil where there is none, or none of ours.
func childObject[S any](ws *WebServer, r kube.Resource, live *apply.Live[S]) events.Object {
	if live != nil {
		return objectOf(r, live)
	}
	name := ws.Name
	if r == services {
		name = serviceName(name)
	}
	return events.Object{APIVersion: r.APIVersion(), Kind: r.Kind, Namespace: ws.Namespace, Name: name}
}

// event records an Event about a WebServer, and about one of its children if that is not the zero value.
func (r *reconciler) event(ws *WebServer, t events.Type, reason, note string, child events.Object) {
	if r.events == nil {
		return
	}
	about := objectOf(resource, ws)
	about.ResourceVersion = ws.ResourceVersion
	r.events.Record(events.Event{Regarding: about, Related: child, Type: t, Reason: reason, Action: action, Note: note})
}

// announceChild tells of what was done to a child.
func announceChild[S any](ctx context.Context, r *reconciler, ws *WebServer, child events.Object, result apply.Result[S]) {
	log := logr.FromContextOrDiscard(ctx)
	object := child.Kind + " " + child.Name
	switch result.Outcome {
	case apply.Created:
		log.Info("created", "child", child.Kind+" "+result.Live.Key().String())
		r.event(ws, events.Normal, "Create"+child.Kind, "created "+object, child)
	case apply.Applied:
		log.Info("applied", "child", child.Kind+" "+result.Live.Key().String(), "difference", result.Difference)
		r.event(ws, events.Normal, "Apply"+child.Kind, "changed "+object+", which differed in "+result.Difference, child)
	case apply.Foreign, apply.Contested, apply.Waiting, apply.Overtaken:
		log.Info(result.Outcome.String(), "message", result.Message)
	}
}

// announce tells of what a new status says that the one before it did not: once, where the status was written.
func (r *reconciler) announce(ctx context.Context, ws *WebServer, f *findings, after []conditions.Condition) {
	before := ws.Status.Conditions
	turned := func(conditionType string, to conditions.Status) (conditions.Condition, bool) {
		old, _ := conditions.Get(before, conditionType)
		now, _ := conditions.Get(after, conditionType)
		return now, now.Status == to && (old.Status != to || old.Reason != now.Reason)
	}
	if bad, ok := turned(conditions.Degraded, conditions.True); ok {
		logr.FromContextOrDiscard(ctx).Info("degraded", "reason", bad.Reason, "message", bad.Message)
		child := childObject(ws, deployments, f.deployment) // the rollout of which has gone wrong
		if f.problem != nil {
			child = f.problem.child
		}
		r.event(ws, events.Warning, bad.Reason, bad.Message, child)
	}
	if good, ok := turned(conditions.Ready, conditions.True); ok {
		r.event(ws, events.Normal, "Ready", good.Message, events.Object{})
	}
	if _, ok := turned(conditions.Paused, conditions.True); ok {
		r.event(ws, events.Normal, "Paused", "nothing is changed until the annotation "+conditions.PausedAnnotation+" is removed", events.Object{})
	}
	if old, _ := conditions.Get(before, conditions.Paused); old.Status == conditions.True {
		if _, ok := turned(conditions.Paused, conditions.False); ok {
			r.event(ws, events.Normal, "Resumed", "changes are made again", events.Object{})
		}
	}
}
