// Package announce records a reconcile's actions on the children of an object, in Events and in the log.
//
// The package has the words, the same for skiff's own operators and for hooks: an Event for all children with the same
// action. Other news about an object are the caller's. The package runs inside Reconcile, on the worker's
// goroutine.
package announce

import (
	"context"
	"strings"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Announcer records the actions on the children of an object.
type Announcer struct {
	Events   *events.Recorder // nil: only in the log
	Resource kube.Resource
	Object   kube.Object
}

// NodePortChanged is the reason of an Event about a Service with another node port than before.
const NodePortChanged = "NodePortChanged"

// action is the action of a controller, a required field of events.k8s.io/v1.
const action = "Reconcile"

// Event records an Event about the object, and about a child unless the child is nil.
func (a Announcer) Event(t events.Type, reason, note string, about *apply.Result) {
	e := events.Event{Regarding: events.ObjectOf(a.Resource, a.Object), Type: t, Reason: reason, Action: action,
		Note: note}
	switch {
	case about == nil:
	case about.Live != nil:
		e.Related = events.ObjectOf(about.Resource, about.Live)
	default:
		e.Related = events.Object{APIVersion: about.Resource.APIVersion(), Kind: about.Resource.Kind,
			Namespace: about.Key.Namespace, Name: about.Key.Name}
	}
	a.Events.Record(e)
}

// verbs are the outcomes with an Event, and the reason and the beginning of the note of each Event.
var verbs = []struct {
	outcome      apply.Outcome
	reason, past string
}{
	{apply.Created, "Create", "created "},
	{apply.Applied, "Apply", "changed "},
	{apply.Adopted, "Adopt", "adopted "},
	{apply.Deleted, "Delete", "deleted "},
	{apply.Replaced, "Replace", "deleted "},
	{apply.Rolled, "Roll", "deleted "},
	{apply.Released, "Release", "released "},
}

// Actions records the actions, with an Event for all created children, an Event for all changed children, and so on: a
// user sees a single action, and each Event costs as much as a child.
func (a Announcer) Actions(ctx context.Context, all []apply.Result) {
	log := logr.FromContextOrDiscard(ctx)
	for _, v := range verbs {
		var what []string
		var last *apply.Result
		for i := range all {
			if r := &all[i]; r.Outcome == v.outcome && !replaced(r) {
				details := []any{"child", r.Resource.Kind + " " + r.Key.String()}
				if len(r.Differences) > 0 {
					details = append(details, "differences", apply.List(r.Differences))
				}
				log.Info(r.Outcome.String(), details...)
				what, last = append(what, describe(r)), r
			}
		}
		switch len(what) {
		case 0:
		case 1:
			a.Event(events.Normal, v.reason+last.Resource.Kind, v.past+what[0], last)
		default:
			a.Event(events.Normal, v.reason, v.past+strings.Join(what, " and "), nil)
		}
	}
	a.replacements(ctx, all)
	for i := range all {
		switch r := &all[i]; r.Outcome {
		case apply.Foreign, apply.Contested, apply.Waiting, apply.Conflict, apply.PortTaken, apply.NoNodePort:
			log.Info(r.Outcome.String(), "child", r.Resource.Kind+" "+r.Key.String(), "message", r.Why().Note())
		case apply.Created:
			if r.Problem != nil { // links to the old node port are dead
				log.Info("node port changed", "message", r.Why().Note())
				a.Event(events.Warning, NodePortChanged, r.Why().Note(), r)
			}
		}
	}
}

// replaced says that a child is of a kind made from a template.
func replaced(r *apply.Result) bool { return r.Declared != "" || r.Revision != "" }

// replacements records the actions on children made from a template: all creations in an Event about the last child,
// so that the next Event of the kind is not counted as a repetition.
func (a Announcer) replacements(ctx context.Context, all []apply.Result) {
	log := logr.FromContextOrDiscard(ctx)
	var created []string
	var last *apply.Result
	for _, v := range verbs {
		for i := range all {
			r := &all[i]
			if r.Outcome != v.outcome || !replaced(r) {
				continue
			}
			kind, name, note := strings.ToLower(r.Resource.Kind), r.Key.Name, r.Why().Note()
			if r.Outcome == apply.Created {
				note = "of revision " + r.Declared
				created, last = append(created, name), r
			}
			past := strings.TrimSpace(v.past)
			log.Info(past, kind, name, "reason", v.reason+r.Resource.Kind, "note", note,
				"uid", r.Live.ObjectMeta().UID)
			switch r.Outcome {
			case apply.Created:
			case apply.Replaced:
				a.Event(events.Warning, v.reason+r.Resource.Kind, past+" "+kind+" "+name+": "+note, r)
			default:
				a.Event(events.Normal, v.reason+r.Resource.Kind, past+" "+kind+" "+name+": "+note, r)
			}
		}
	}
	if last == nil {
		return
	}
	what := strings.ToLower(last.Resource.Kind)
	if len(created) > 1 {
		what += "s"
	}
	note := "created " + what + " " + strings.Join(created, ", ") + ": of revision " + last.Declared
	a.Event(events.Normal, "Create"+last.Resource.Kind, note, last)
}

// describe names a child, and the reason of the action.
func describe(r *apply.Result) string {
	what := r.Resource.Kind + " " + r.Key.Name
	switch r.Outcome {
	case apply.Applied:
		if r.Uncached {
			return what + ", which is not held in memory"
		}
		return what + ", which differed in " + apply.List(r.Differences)
	case apply.Adopted:
		return what + ", which had no owner"
	case apply.Deleted:
		return what + ", which is not declared any more"
	case apply.Released:
		return what + ", which is not declared any more and has lost the label " + apply.ManagedByLabel
	}
	return what
}
