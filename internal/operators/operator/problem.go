package operator

import (
	"context"
	"errors"
	"time"

	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
)

// findings are what came of one round.
type findings struct {
	kind    string // of the custom resource
	seen    Seen
	problem *conditions.Problem // the first and worst; nil: none
	about   *apply.Result       // the child that problem, or failed, is about; nil: none
	failed  error               // of the first child that failed; it becomes problem if there is no other
	note    string              // something that could not be done as declared, and is all right; "": nothing
	paused  string              // what differs and is left so because the custom resource is paused; "": nothing
	wait    time.Duration
	removed bool // the finalizer is off
	stale   bool // what was seen is out of date already: do not write it down
	errs    []error
}

// good says that children were written, as all of them are declared, and that there is nothing else to report. The
// status can then wait for the children of other custom resources: a thousand that are created at once have them all
// the earlier, and what the Deployment controller and the like do meanwhile makes one status of several.
func (f *findings) good() bool {
	written := false
	for i := range f.seen {
		o := f.seen[i].Outcome
		written = written || o == apply.Created || o == apply.Applied
	}
	return written && f.problem == nil && f.failed == nil && f.note == "" && f.paused == "" && !f.stale
}

func (f *findings) err() error { return errors.Join(f.errs...) }

// add takes in what came of one child. special replaces the usual problem if it is not nil.
func (f *findings) add(r *apply.Result, special *conditions.Problem) {
	if r.Outcome == apply.Paused && f.paused == "" {
		f.paused = r.Message
	}
	if r.Outcome == apply.Created && r.Message != "" {
		f.note = r.Message
	}
	f.wait = apply.Earlier(f.wait, r.Wait)
	f.stale = f.stale || r.Outcome == apply.Conflict
	if r.Err != nil {
		f.errs = append(f.errs, r.Err)
	}
	if f.problem != nil || f.failed != nil {
		return
	}
	if f.problem = special; special == nil {
		f.problem = problemOf(f.kind, r)
	}
	f.failed = r.Err
	if f.problem != nil || f.failed != nil {
		f.about = r
	}
}

// failOwner takes in the failure of a write to the custom resource itself. That it has changed is none: its event
// comes.
func (f *findings) failOwner(err error) {
	if errors.Is(err, apply.ErrConflict) {
		f.stale, f.wait = true, apply.Earlier(f.wait, soon)
		return
	}
	f.errs, f.failed = append(f.errs, err), err
}

// explain makes a problem of what failed. What is over in a moment is none, and not worth an Event.
func (f *findings) explain(ctx context.Context) {
	if f.failed == nil {
		return
	}
	next := controller.NextOf(ctx, f.err())
	f.stale = f.stale || next.Brief
	if f.problem == nil {
		kind := f.kind
		if f.about != nil {
			kind = f.about.Resource.Kind
		}
		f.problem = conditions.Failed(kind, f.failed, next.Step, next.Stalled)
	}
}

// Reasons of problems with children whose messages name them and their fields, and say nothing of what is in them.
const (
	nameTaken = "NameTaken"
	contested = "Contested"
	waiting   = "Waiting"
)

var public = []string{nameTaken, contested, waiting, conditions.Paused, "Annotated"}

// problemOf returns the problem that lies in what came of a child of a custom resource of that kind, nil if there is
// none.
func problemOf(kind string, r *apply.Result) *conditions.Problem {
	switch r.Outcome {
	case apply.Foreign:
		reason := nameTaken
		if r.Misfit {
			reason = "NotAdopted"
		}
		return &conditions.Problem{Reason: reason,
			Message: r.Message + "; delete it or give the " + kind + " another name, skiff looks again"}
	case apply.Contested:
		return &conditions.Problem{Reason: contested,
			Message: r.Message + "; stop it, or set " + conditions.PausedAnnotation + ": \"true\"; skiff tries " +
				"again"}
	case apply.Waiting:
		return &conditions.Problem{Reason: waiting, Message: r.Message + "; skiff looks again",
			Passing: true}
	case apply.PortTaken:
		return &conditions.Problem{Reason: "NodePortRefused",
			Message: "no node port: " + r.Message + "; free it, skiff looks again"}
	case apply.NoNodePort:
		return &conditions.Problem{Reason: "NoNodePort", Message: "the cluster has no free node port: " + r.Message +
			"; delete a Service that has one, skiff tries again"}
	}
	return nil
}

// nodePortChanged is the reason of Degraded where all is well, but has changed.
const nodePortChanged = announce.NodePortChanged

// mergeInto completes the conditions that follow from the children with what was in the way.
func (f *findings) mergeInto(set *conditions.Set, before []conditions.Condition, generation int64,
	paused conditions.Condition) {
	set.Paused = paused
	switch was, _ := conditions.Get(before, conditions.Degraded); {
	case set.Degraded.Status == conditions.True:
	case f.note != "":
		set.Degraded = conditions.New(conditions.Degraded, false, nodePortChanged, f.note)
	case was.Reason == nodePortChanged && was.ObservedGeneration == generation:
		set.Degraded = conditions.New(conditions.Degraded, false, was.Reason, was.Message) // it is still news
	}
	if f.paused != "" {
		message := f.paused + "; " + paused.Message
		set.Ready = conditions.New(conditions.Ready, false, conditions.Paused, message)
		set.Progressing = conditions.New(conditions.Progressing, false, conditions.Paused, message)
	}
	if p := f.problem; p != nil && (len(f.seen) == 0 || f.seen[0].Live == nil) {
		set.Progressing = conditions.New(conditions.Progressing, p.Passing, p.Reason, p.Message)
	}
	set.Report(f.problem)
}
