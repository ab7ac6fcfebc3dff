package webserver

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

// childObject names the child of a WebServer as the object of an Event. live is nil where there is none, or none of ours.
func childObject(ws *WebServer, r kube.Resource, live kube.Object) events.Object {
	if live != nil {
		return events.ObjectOf(r, live)
	}
	name := ws.Name
	if r == services {
		name = serviceName(name)
	}
	return events.Object{APIVersion: r.APIVersion(), Kind: r.Kind, Namespace: ws.Namespace, Name: name}
}

// deploymentObject is childObject for the Deployment; a nil *deployment is no nil kube.Object.
func deploymentObject(ws *WebServer, d *deployment) events.Object {
	if d == nil {
		return childObject(ws, deployments, nil)
	}
	return childObject(ws, deployments, d)
}

// event records an Event about a WebServer, and about one of its children if that is not the zero value.
func (r *reconciler) event(ws *WebServer, t events.Type, reason, note string, child events.Object) {
	r.events.Record(events.Event{Regarding: events.ObjectOf(resource, ws), Related: child, Type: t, Reason: reason, Action: action, Note: note})
}

// deed is something that was done to a child.
type deed struct {
	child   events.Object
	created bool   // or changed
	what    string // "Deployment web", and where it differed
}

// do logs what was done about a child, and keeps what there is to tell of it.
func (f *findings) do(ctx context.Context, child events.Object, r apply.Result) {
	log := logr.FromContextOrDiscard(ctx)
	where, what := child.Kind+" "+child.Namespace+"/"+child.Name, child.Kind+" "+child.Name
	switch r.Outcome {
	case apply.Created:
		log.Info("created", "child", where)
		f.deeds = append(f.deeds, deed{child, true, what})
	case apply.Applied:
		log.Info("applied", "child", where, "differences", r.Differences)
		f.deeds = append(f.deeds, deed{child, false, what + ", which differed in " + apply.List(r.Differences)})
	case apply.Foreign, apply.Contested, apply.Waiting, apply.Overtaken:
		log.Info(r.Outcome.String(), "message", r.Message)
	}
}

// announceDeeds tells of what was done: in one Event for all children that were created, and in one for all that were changed,
// because it is one thing to whoever reads it, and each Event costs as much as a child.
func (r *reconciler) announceDeeds(ws *WebServer, deeds []deed) {
	for _, kind := range []struct {
		created      bool
		reason, verb string
	}{{true, "Create", "created "}, {false, "Apply", "changed "}} {
		var what []string
		var child events.Object
		for _, d := range deeds {
			if d.created == kind.created {
				what, child = append(what, d.what), d.child
			}
		}
		switch len(what) {
		case 0:
		case 1:
			r.event(ws, events.Normal, kind.reason+child.Kind, kind.verb+what[0], child)
		default:
			r.event(ws, events.Normal, kind.reason, kind.verb+strings.Join(what, " and "), events.Object{})
		}
	}
}

// announceNews tells of what a new status says that the one before it did not.
func (r *reconciler) announceNews(ctx context.Context, ws *WebServer, f *findings, after []conditions.Condition) {
	for _, n := range conditions.NewsOf(ws.Status.Conditions, after) {
		kind, child := events.Normal, events.Object{}
		if n.Warning {
			logr.FromContextOrDiscard(ctx).Info("degraded", "reason", n.Reason, "message", n.Note)
			kind, child = events.Warning, f.about
			if f.problem == nil { // the rollout has gone wrong
				child = deploymentObject(ws, f.deployment)
			}
		}
		r.event(ws, kind, n.Reason, n.Note, child)
	}
}
