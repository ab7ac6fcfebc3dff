package reload

import (
	"fmt"
	"strconv"
	"time"

	"skiff/internal/operators/workload"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
)

const (
	// DefaultDebounce is longer than the pauses within a change of several sources (a release of Helm), and short
	// enough not to look like a fault.
	DefaultDebounce = 5 * time.Second
	// maxQuiet is how many debounces a restart waits for the sources to become quiet: a source that never does must
	// not prevent restarts for ever.
	maxQuiet = 10
	// recheck is how often a waiting restart is looked at again where no event ends the wait.
	recheck = 30 * time.Second
	// rivalPatience is how long Reloader has to restart a workload before skiff does: several times as long as
	// Reloader takes, and short where somebody creates a Deployment that only looks like Reloader.
	rivalPatience = 30 * time.Second
	// skew is how far another machine's clock may be ahead. A later time must not stop restarts.
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
	rollingOut  = "RollingOut"
	stepping    = "StepsUnderWay"
	aborted     = "Aborted"
	ownFailed   = "RolloutFailed"
	rivalRuns   = "RivalController"
	contested   = "StateContested"
	missing     = "SourceMissing"
	behind      = "WatchBehind"
)

// facts are the input of a decision about a workload.
type facts struct {
	kind     string
	w        *target
	wants    wants
	contents map[string]*content // by source; none: no such source exists
	others   []other             // to be restarted first, in the order of wants.after
	failed   func(changes []change) *failure
	debounce time.Duration
	now      time.Time
}

// reloadedAt is reloadedAt of the workload.
func (f *facts) reloadedAt() time.Time { return f.w.reloadedAt(f.wants.inPlace, f.now) }

// other is a workload to be restarted first.
type other struct {
	ref
	exists, circular      bool
	changed, rolls, fails bool
}

// failure is a failed restart of another workload for the same content.
type failure struct {
	ref
	source entry
	at     time.Time
}

// decision says what to do now.
type decision struct {
	write   *state // the annotation to be written; nil: none
	restart bool   // together with write, in the workload's turn
	changes []change
	wait    time.Duration // until the next look; 0: look at the next change
	cause   string        // of that look
	when    string        // the restart is to come; "": none is
	problem *health.Problem
}

// decide decides about a workload, and notes in p whatever a later look has to know.
func decide(f *facts, p *pending) decision {
	changes, next := compare(f.w, f.wants, f.contents)
	if len(changes) == 0 {
		p.agreed = &next
	}
	changes = p.open(changes, f)
	d := decision{changes: changes, problem: f.fault()}
	p.see(changes, f)
	if len(changes) == 0 {
		d.record(f, p, &next)
		return d
	}
	if want, _, _, _ := workload.Counts(f.kind, &f.w.Spec.Spec, &f.w.Status.Status); want == 0 {
		d.record(f, p, &next) // pods that start later start with the present content
		d.changes, p.restarted = nil, nil
		return d
	}
	if f.replaced(p) {
		d.write, d.changes = &next, nil // by somebody else's rollout, such as Helm's or Reloader's
		return d
	}
	if !d.waits(f, p) {
		d.write, d.restart = &next, true
		return d
	}
	before := next.without(changes, f.w)
	d.record(f, p, &before)
	return d
}

// leaveAlone is what to do about a contest.
func (f *facts) leaveAlone() string {
	return "let whoever applies the workload leave the annotations " + f.wants.state + " and " + RestartAnnotation +
		" alone"
}

// record writes a state without a restart where the annotation says another one, unless somebody changes it each time.
func (d *decision) record(f *facts, p *pending, s *state) {
	rest := p.rest(f.w, f.now)
	if _, known := stateOf(f.w, s.name); !p.clears(f.w) && (s.same(f.w) || !known && len(s.Sources) == 0) {
		return
	}
	if rest == 0 {
		d.write = s
		return
	}
	if d.wait == 0 || rest < d.wait {
		d.wait, d.cause = rest, "writes its state again"
	}
	if p.fights > 0 && (d.problem == nil || d.problem.Reason == missing) {
		d.problem = &health.Problem{Reason: contested, Severity: health.Stalled, Next: f.leaveAlone(),
			Public: "another manager changes the annotation " + s.name +
				" each time; changes of sources may be missed"}
	}
}

// stall says that a held restart waits for a person, where the reason is the one said.
func (d *decision) stall(reason, next string) {
	if d.problem.Reason == reason {
		d.problem.Severity, d.problem.Next = health.Stalled, next
	}
}

// waitsForItself says whether a restart has to wait because of the workload's own rollout, of which another decides,
// and holds the restart.
func (d *decision) waitsForItself(f *facts, p *pending) bool {
	switch {
	case conditions.IsPaused(f.w.Annotations):
		d.hold(0, "", held, "when "+conditions.PausedAnnotation+" is removed")
		return true
	case f.w.Spec.Paused:
		d.hold(0, "", held, "when its rollout is resumed")
		return true
	case f.w.Status.Abort && !f.wants.inPlace: // a new template would be released at once
		d.hold(0, "", aborted, "when its rollout is aborted no more")
		d.stall(aborted, "kubectl argo rollouts retry rollout "+f.w.Name+" -n "+f.w.Namespace+
			", or put its template back")
		return true
	case f.stepsAnew(p): // and from the first step with another template
		d.hold(0, "", stepping, "unless the steps under way replace all pods")
		return true
	}
	rest := p.last.Add(failedAfter).Sub(f.now)
	if f.restartsAnew(p) {
		rest = timeOf(f.w.Spec.RestartAt).Add(slowest).Sub(f.now)
	}
	if rest > 0 && (f.rollsAnew(p) || f.restartsAnew(p)) {
		d.hold(min(rest, recheck), "rechecks its rollout", rollingOut,
			"unless the rollout under way replaces all pods")
		return true
	}
	if rest := p.last.Add(rivalPatience).Sub(f.now); f.wants.rival != nil && rest > 0 {
		d.hold(rest, "waits for Reloader", rivalRuns,
			"when Reloader has not restarted it within "+rivalPatience.String())
		return true
	}
	return false
}

// waits says whether a restart has to wait for something else than a turn, and holds the restart.
func (d *decision) waits(f *facts, p *pending) bool {
	if d.waitsForItself(f, p) {
		return true
	}
	if due, when := f.due(p); due > 0 {
		d.hold(due, "debounce over", debouncing, when)
		return true
	}
	if at := f.reloadedAt(); !at.After(f.now.Add(skew)) {
		if rest := min(at.Add(f.wants.cooldown).Sub(f.now), f.wants.cooldown); rest > 0 {
			d.hold(rest, "cooldown over", coolingDown, "when the cooldown of "+f.wants.cooldown.String()+" is over")
			return true
		}
	}
	if rest := p.restartedAt.Add(patience << p.repeats).Sub(f.now); rest > 0 && p.again(d.changes) {
		d.hold(rest, "restarts it again", contested, "again in some time, as somebody has undone its last restart")
		d.stall(contested, f.leaveAlone())
		return true
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

// stepsAnew says whether a Rollout goes through the steps of a template that is newer than the last change of a
// source, or may be newer, where a process has found both.
func (f *facts) stepsAnew(p *pending) bool {
	phase := f.w.Status.Phase
	return f.kind == rollouts.Kind && (phase == "Progressing" || phase == "Paused") &&
		(p.before == nil || f.w.revision(f.kind) != p.revision)
}

// restartsAnew says whether somebody has restarted a Rollout in place since the last change of a source was seen. Argo
// compares the time with those at which the API server has created the pods, so the user's clock does not matter.
// Another template ends such a restart.
func (f *facts) restartsAnew(p *pending) bool {
	at := timeOf(f.w.Spec.RestartAt)
	return f.kind == rollouts.Kind && f.w.Spec.RestartAt != p.restartAt && at.After(p.last) && !at.After(f.now) &&
		f.w.revision(f.kind) == p.revision
}

// rollsAnew says whether somebody has changed the template since the last change of a source was seen, so that all
// pods are made anew. A second change may have undone the first, with pods from before; Reloader undoes none.
func (f *facts) rollsAnew(p *pending) bool {
	s, revision := &f.w.Spec.Strategy, f.w.revision(f.kind)
	before, _ := strconv.Atoi(p.revision)
	now, err := strconv.Atoi(revision)
	once := err != nil || f.wants.rival != nil || now == before+1
	return revision != p.revision && once && s.Type != "OnDelete" && s.RollingUpdate.Partition == 0
}

// replaced says whether all pods have been made anew in such a rollout. An unfinished rollout may be undone, and then
// pods are left that run with the old content.
func (f *facts) replaced(p *pending) bool {
	made := f.rollsAnew(p) || f.restartsAnew(p) && timeOf(f.w.Status.RestartedAt).Equal(timeOf(f.w.Spec.RestartAt))
	return made && f.w.rolledOut(f.kind)
}

// due returns how long a restart waits for more changes, and how people are told.
func (f *facts) due(p *pending) (wait time.Duration, when string) {
	if period := f.wants.period; period > 0 {
		return p.first.Add(period).Sub(f.now), "when " + period.String() + " have passed since the first change"
	}
	return min(p.last.Add(f.debounce).Sub(f.now), p.first.Add(maxQuiet*f.debounce).Sub(f.now)),
		"when its sources have been quiet for " + f.debounce.String()
}

// hold has the restart wait, at most for the given time unless the time is 0. A user's mistake is said first.
func (d *decision) hold(wait time.Duration, cause, reason, when string) {
	d.wait, d.cause, d.when = wait, cause, when
	if d.problem == nil || d.problem.Severity != health.Stalled || reason == stopped {
		d.problem = &health.Problem{Reason: reason, Severity: health.Passing, Public: "is restarted " + when}
	}
}

// fault returns a fault of the annotations of a workload, or of the last restart; nil: none.
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
	if _, failed := f.w.progress(f.kind, f.wants.inPlace, f.now); failed {
		return &health.Problem{Reason: ownFailed, Public: "has not rolled out since its restart at " +
			f.reloadedAt().Format(time.RFC3339), Next: "look with kubectl rollout status -n " + f.w.Namespace + " " +
			ref{f.kind, f.w.Name}.String()}
	}
	for _, e := range f.wants.entries {
		if e.named && hashOf(f.w.Namespace, e, f.contents[e.source()]) == "" {
			return &health.Problem{Reason: missing, Severity: health.Passing, Public: "is to be restarted for " +
				e.String() + ", which does not exist", Next: "create it, or correct the name"}
		}
	}
	return nil
}
