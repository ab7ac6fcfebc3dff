package restart

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"skiff/internal/conditions"
	"skiff/internal/kube"
)

// invalid is a spec that makes no rule.
func invalid(err error) *conditions.Problem {
	return &conditions.Problem{Reason: "InvalidSpec", Message: err.Error() + "; correct the spec", Stalled: true}
}

// circular is a trigger whose restarts come back to it.
func circular(way []kube.Key) *conditions.Problem {
	if len(way) == 2 {
		return &conditions.Problem{Reason: "SelfReference", Stalled: true, Message: "cycle " + cycleText(way) +
			": the source matches the pods of a target, so that each restart would be followed by another; narrow spec.source.selector"}
	}
	return &conditions.Problem{Reason: "Cycle", Stalled: true, Message: "cycle " + cycleText(way) +
		": the pods of a target of each are source pods of the next, so that restarts would never end; narrow the selector of one of them"}
}

// failed is a request that did not work, given what follows from it. Its message is the same for each attempt, because a new
// message is a write.
func failed(err error, step string, stalled bool) *conditions.Problem {
	p := &conditions.Problem{Reason: "RequestFailed", Message: kube.Explain(err) + "; " + step, Stalled: stalled}
	if kube.IsForbidden(err) {
		p.Reason, p.Message = "Forbidden", kube.Explain(err)+"; grant it, "+step
	}
	return p
}

// noSource says why the source pods are not known.
func noSource(namespace string, err error) *conditions.Problem {
	return &conditions.Problem{Reason: "SourceOutOfScope", Stalled: true,
		Message: fmt.Sprintf("spec.source.namespace: skiff does not watch %s (%s); add it to --watch-namespaces or choose another", namespace, root(err))}
}

// root is the innermost text of an error.
func root(err error) string {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// observe returns the status that follows from a decision. r is nil where the spec makes no rule.
func observe(t *RestartTrigger, r *rule, d *decision, now time.Time) Status {
	s := Status{ObservedGeneration: t.Generation, State: d.state, Selector: t.Status.Selector, TargetNames: t.Status.TargetNames}
	if r != nil {
		s.Selector, s.TargetNames = r.selector.String(), r.targetNames()
		if s.Pending != nil && !r.suspended && (d.problem == nil || !d.problem.Stalled) && s.Round == nil && s.due(r, now) > 0 {
			at := stamp(now.Add(s.due(r, now)))
			if before := t.Status.NextRestartTime; before != nil && !before.Before(at.Add(-time.Second)) && !before.After(at.Add(time.Second)) {
				at = *before // the same, but for what rounding makes of it
			}
			s.NextRestartTime = &at
		}
	}
	set := judge(t, r, d, s.NextRestartTime)
	s.Conditions = set.After(t.Status.Conditions, t.Generation, now)
	return s
}

// armed is the reason of conditions where all is well.
const armed = "Armed"

// judge returns the conditions, without generation and time.
func judge(t *RestartTrigger, r *rule, d *decision, next *time.Time) conditions.Set {
	set := conditions.NewSet(t.Annotations)
	if set.Paused.Status != conditions.True && t.Spec.Suspend { // which does the same
		set.Paused = conditions.New(conditions.Paused, true, "Suspended",
			"nothing is restarted; what happens meanwhile makes one restart when spec.suspend is false again")
	}
	ready := func(ok bool, reason, message string) {
		set.Ready = conditions.New(conditions.Ready, ok, reason, message)
	}
	progressing := func(on bool, reason, message string) {
		set.Progressing = conditions.New(conditions.Progressing, on, reason, message)
	}
	progressing(false, armed, "nothing is waiting and nothing is under way")
	ready(true, armed, "")
	if r != nil {
		set.Ready.Message = fmt.Sprintf("watches pods with %s for %s", r.selector, reasonList(r.on))
	}
	if set.Paused.Status == conditions.True {
		ready(false, set.Paused.Reason, set.Paused.Message)
	}
	switch s := &d.state; {
	case s.Round != nil:
		text := fmt.Sprintf("restarting %s: %s", r.targetNames(), s.Round.Note)
		progressing(true, "Restarting", text)
		ready(false, "Restarting", text)
	case s.Pending != nil && next != nil:
		progressing(true, "Pending", fmt.Sprintf("%s; the restart is due at %s", s.Pending.Note, next.Format(time.RFC3339)))
	case s.Pending != nil:
		progressing(false, "Held", s.Pending.Note+"; the restart is made when nothing keeps it any more")
	}
	if w := d.waiting; w != nil {
		progressing(true, w.Reason, w.Message)
		if !w.Passing {
			set.Report(w)
		}
	}
	set.Report(d.problem)
	return set
}

func reasonList(on []Reason) string {
	names := make([]string, len(on))
	for i, r := range on {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
