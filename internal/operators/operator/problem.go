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

// findings are the results of a reconcile.
type findings struct {
	kind    string // of the custom resource
	seen    Seen
	problem *health.Problem // the first and worst; nil: none
	about   *apply.Result   // the child that problem, or failed, is about; nil: none
	failed  error           // of a failed write; becomes problem if there is none
	note    string          // a harmless deviation from the declaration; "": none
	paused  *health.Problem // a difference left because the custom resource is paused; nil: none
	wait    time.Duration
	removed bool // the finalizer is off
	stale   bool // seen is out of date already: write no status
	errs    []error
}

// good says whether children were written as declared, with nothing else to report. The status can then wait for the
// children of other custom resources: if a thousand are created at once, all have children the earlier, and a single
// status covers the work of the Deployment controller and the like meanwhile.
func (f *findings) good() bool {
	written := false
	for i := range f.seen {
		o := f.seen[i].Outcome
		written = written || o == apply.Created || o == apply.Applied
	}
	return written && f.problem == nil && f.failed == nil && f.note == "" && f.paused == nil && !f.stale
}

func (f *findings) err() error { return errors.Join(f.errs...) }

// add takes in the result of a child. special, if not nil, replaces the usual problem.
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

// failOwner takes in the failure of a write to the custom resource itself. A conflict is no failure: the event of the
// change comes.
func (f *findings) failOwner(err error) {
	if errors.Is(err, apply.ErrConflict) {
		f.stale, f.wait = true, apply.Earlier(f.wait, soon)
		return
	}
	f.errs, f.failed = append(f.errs, err), err
}

// explain makes a problem of a failure. A failure that is over in a moment is not worth a status or an Event.
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

// problemOf returns the Problem in the outcome of a child of a custom resource of the kind, nil if there is none. The
// child's own Problem names fields and objects; problemOf adds the reason and the next step for the custom resource.
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

// nodePortChanged is the reason of Degraded=False where a node port could not be kept.
const nodePortChanged = announce.NodePortChanged

// mergeInto adds the findings to the conditions that follow from the children.
func (f *findings) mergeInto(set *conditions.Set, before []conditions.Condition, generation int64,
	paused conditions.Condition) {
	set.Paused = paused
	switch was, _ := conditions.Get(before, conditions.Degraded); {
	case set.Degraded.Status == conditions.True:
	case f.note != "":
		set.Degraded = conditions.New(conditions.Degraded, false, nodePortChanged, f.note)
	case was.Reason == nodePortChanged && was.ObservedGeneration == generation:
		set.Degraded = conditions.New(conditions.Degraded, false, was.Reason, was.Message) // still news
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
