package reload

import (
	"fmt"
	"time"

	"skiff/internal/operators/workload"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
)

const (
	// DefaultDebounce is longer than the pauses within one change of several sources (a release of Helm), and short
	// enough not to look like a fault.
	DefaultDebounce = 5 * time.Second
	// maxQuiet is how many debounces a restart waits for the sources to become quiet: one that never does must not
	// prevent restarts for ever.
	maxQuiet = 10
	// recheck is how often is looked at what a restart waits for and of which no event tells.
	recheck = 30 * time.Second
	// rivalPatience is how long Reloader has to restart a workload before skiff does: several times what it takes, and
	// short where somebody who may create a Deployment makes one that only looks like Reloader.
	rivalPatience = 30 * time.Second
	// skew is how far another machine's clock may be ahead. A later time is nobody's: it must not stop restarts.
	skew = 5 * time.Minute
)

// Reasons of Problems.
const (
	invalid     = "InvalidAnnotation"
	held        = "Paused"
	debouncing  = "Pending"
	coolingDown = "Cooldown"
	notItsTurn  = "WaitsForTurn"
	ordered     = "WaitsForOther"
	stopped     = "OtherFailed"
	ownFailed   = "RolloutFailed"
	rivalRuns   = "RivalController"
)

// facts are all that a decision about a workload depends on.
type facts struct {
	kind     string
	w        *theWorkload
	wants    wants
	contents map[string]*content // by source; none: it does not exist
	others   []other             // that come first, in the order of wants.after
	failed   func(changes []change) *failure
	debounce time.Duration
	now      time.Time
}

// other is a workload that is restarted first.
type other struct {
	ref
	exists, circular      bool
	changed, rolls, fails bool
}

// failure is a restart of another workload that has failed with the content that this one is to be restarted for.
type failure struct {
	ref
	source entry
	at     time.Time
}

// decision is what to do now.
type decision struct {
	write   *state // what the annotation is to say; nil: it does
	restart bool   // together with that, once it is the workload's turn
	changes []change
	wait    time.Duration // look again after this time; 0: at the next change
	cause   string        // of that look
	when    string        // the restart is to come; "": none is
	problem *health.Problem
}

// decide returns what to do with a workload, and notes in p what a later look has to know.
func decide(f *facts, p *pending) decision {
	changes, next := compare(f.w, f.wants.entries, f.contents)
	d := decision{changes: changes, problem: f.fault()}
	p.see(changes, f.w.Generation, f.now)
	if len(changes) == 0 {
		if _, known := stateOf(f.w); !next.same(f.w) && (known || len(next.Sources) > 0) {
			d.write = &next
		}
		return d
	}
	if want, _, _, _ := workload.Counts(f.kind, &f.w.Spec.Spec, &f.w.Status.Status); want == 0 {
		d.write, d.changes = &next, nil // what starts later starts with the present content
		return d
	}
	if f.wants.rival != nil && f.w.Generation != p.generation {
		d.write, d.changes = &next, nil // the other has restarted it
		return d
	}
	if !d.waits(f, p) {
		d.write, d.restart = &next, true
		return d
	}
	if before := next.without(changes, f.w); !before.same(f.w) {
		d.write = &before
	}
	return d
}

// waits says whether a restart has to wait for something else than its turn, and for what.
func (d *decision) waits(f *facts, p *pending) bool {
	switch {
	case conditions.IsPaused(f.w.Annotations):
		d.hold(0, "", held, "when "+conditions.PausedAnnotation+" is removed")
		return true
	case f.w.Spec.Paused:
		d.hold(0, "", held, "when its rollout is resumed")
		return true
	}
	if rest := p.last.Add(rivalPatience).Sub(f.now); f.wants.rival != nil && rest > 0 {
		d.hold(rest, "waits for Reloader", rivalRuns, "when Reloader has not restarted it within "+rivalPatience.String())
		return true
	}
	if due, when := f.due(p); due > 0 {
		d.hold(due, "debounce over", debouncing, when)
		return true
	}
	if at := f.w.reloadedAt(); !at.After(f.now.Add(skew)) {
		if rest := min(at.Add(f.wants.cooldown).Sub(f.now), f.wants.cooldown); rest > 0 {
			d.hold(rest, "cooldown over", coolingDown, "when the cooldown of "+f.wants.cooldown.String()+" is over")
			return true
		}
	}
	for _, o := range f.others {
		switch {
		case !o.exists, o.circular:
		case o.fails:
			d.hold(recheck, "rechecks "+o.String(), stopped, fmt.Sprintf("after %s, whose restart has failed", o))
			d.problem.Severity = health.Stalled
			return true
		case o.changed, o.rolls:
			d.hold(recheck, "rechecks "+o.String(), ordered, fmt.Sprintf("after %s", o))
			return true
		}
	}
	if bad := f.failed(d.changes); bad != nil {
		d.hold(recheck, "rechecks "+bad.String(), stopped,
			fmt.Sprintf("when %s has rolled out, whose restart for %s has failed", bad, bad.source.source()))
		d.problem.Severity = health.Stalled
		d.problem.Next = fmt.Sprintf("correct it, or go on with kubectl annotate -n %s --overwrite %s %s %s=%s",
			f.w.Namespace, bad.source.kind, bad.source.name, ResumeAnnotation, bad.at.Format(time.RFC3339))
		return true
	}
	return false
}

// due returns how long a restart waits for more changes, and how people are told.
func (f *facts) due(p *pending) (wait time.Duration, when string) {
	if period := f.wants.period; period > 0 {
		return p.first.Add(period).Sub(f.now), "when " + period.String() + " have passed since the first change"
	}
	return min(p.last.Add(f.debounce).Sub(f.now), p.first.Add(maxQuiet*f.debounce).Sub(f.now)),
		"when its sources have been quiet for " + f.debounce.String()
}

// hold has the restart wait, at most for a time unless that is 0. What a user has to correct is said first.
func (d *decision) hold(wait time.Duration, cause, reason, when string) {
	d.wait, d.cause, d.when = wait, cause, when
	if d.problem == nil || d.problem.Severity != health.Stalled || reason == stopped {
		d.problem = &health.Problem{Reason: reason, Severity: health.Passing, Public: "is restarted " + when}
	}
}

// fault returns what is wrong with a workload's annotations, or with its last restart; nil: nothing.
func (f *facts) fault() *health.Problem {
	if f.wants.rival != nil {
		return &health.Problem{Reason: rivalRuns, Public: "is left to Reloader, which runs as well, and restarted " +
			"when Reloader has not done it " + rivalPatience.String() + " after a change",
			Quoted: "Deployment " + f.wants.rival.String(),
			Next:   "scale Reloader to 0, or run skiff without --reloader-annotations"}
	}
	for _, bad := range f.wants.faults {
		return &health.Problem{Reason: invalid, Severity: health.Stalled, Public: "the annotation " + bad.annotation +
			" is not valid", Quoted: bad.text, Next: "correct it, the rest of it counts"}
	}
	for _, o := range f.others {
		switch {
		case o.circular:
			return &health.Problem{Reason: invalid, Severity: health.Stalled, Public: fmt.Sprintf(
				"the annotation %s: %s comes after this one as well; their order does not count", AfterAnnotation, o)}
		case !o.exists:
			return &health.Problem{Reason: invalid, Severity: health.Stalled, Public: fmt.Sprintf(
				"the annotation %s: there is no %s that has opted in; nothing waits for it", AfterAnnotation, o)}
		}
	}
	if _, failed := f.w.progress(f.kind, f.now); failed {
		return &health.Problem{Reason: ownFailed, Public: "has not rolled out since its restart at " +
			f.w.reloadedAt().Format(time.RFC3339), Next: "look with kubectl rollout status -n " + f.w.Namespace + " " +
			ref{f.kind, f.w.Name}.String()}
	}
	return nil
}
