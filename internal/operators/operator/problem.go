package operator

import (
	"context"
	"errors"
	"time"

	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
)

// findings are what came of one round.
type findings struct {
	kind    string // of the custom resource
	seen    Seen
	problem *health.Problem // the first and worst; nil: none
	about   *apply.Result   // the child that problem, or failed, is about; nil: none
	failed  error           // of the first child that failed; it becomes problem if there is no other
	note    string          // something that could not be done as declared, and is all right; "": nothing
	paused  *health.Problem // what differs and is left so because the custom resource is paused; nil: nothing
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
	return written && f.problem == nil && f.failed == nil && f.note == "" && f.paused == nil && !f.stale
}

func (f *findings) err() error { return errors.Join(f.errs...) }

// add takes in what came of one child. special replaces the usual problem if it is not nil.
func (f *findings) add(r *apply.Result, special *health.Problem) {
	if r.Outcome == apply.Paused && f.paused == nil {
		f.paused = r.Problem
	}
	if r.Outcome == apply.Created && r.Problem != nil {
		f.note = r.Problem.Note()
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
		f.problem = health.OfWrite(kind, f.failed, next.Step, next.Severity())
	}
}

// problemOf returns the Problem in the outcome of a child of a custom resource of that kind, nil if there is none. The
// Problem of the child itself names fields and objects; here is added what that means to the custom resource.
func problemOf(kind string, r *apply.Result) *health.Problem {
	p := r.Why()
	switch r.Outcome {
	case apply.Foreign:
		if p.Reason != apply.NotAdopted {
			p.Reason = "NameTaken"
		}
		p.Next = "delete it or give the " + kind + " another name, skiff looks again"
	case apply.Contested:
		p.Reason = "Contested"
		p.Next = "stop it, or set " + conditions.PausedAnnotation + ": \"true\"; skiff tries again"
	case apply.Waiting:
		p.Reason, p.Severity, p.Next = "Waiting", health.Passing, "skiff looks again"
	case apply.PortTaken:
		p.Reason, p.Next = "NodePortRefused", "free it, skiff looks again"
	case apply.NoNodePort:
		p.Reason, p.Next = "NoNodePort", "delete a Service that has one, skiff tries again"
	default:
		return nil
	}
	return &p
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
	if f.paused != nil {
		p := *f.paused
		p.Reason, p.Next, p.Severity = conditions.Paused, paused.Message, health.Passing
		set.Report(&p)
		set.Progressing = conditions.New(conditions.Progressing, false, p.Reason, p.Note())
	}
	if p := f.problem; p != nil && (len(f.seen) == 0 || f.seen[0].Live == nil) {
		set.Progressing = conditions.New(conditions.Progressing, p.Severity == health.Passing, p.Reason, p.Note())
	}
	set.Report(f.problem)
	if set.Problem == nil && paused.Status == conditions.True {
		set.Problem = &health.Problem{Reason: paused.Reason, Public: paused.Message}
	}
}
