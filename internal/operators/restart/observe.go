package restart

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"skiff/internal/conditions"
	"skiff/internal/kube"
)

// problem is what keeps a trigger from doing its work.
type problem struct {
	reason  string
	message string // ends with the next step
	stalled bool   // nothing happens any more until somebody changes something
	passing bool   // it is over soon, and nobody has to do anything
}

// invalid is a spec that makes no rule.
func invalid(err error) *problem {
	return &problem{reason: "InvalidSpec", message: err.Error() + "; correct the RestartTrigger", stalled: true}
}

// circular is a trigger whose restarts come back to it.
func circular(way []kube.Key) *problem {
	if len(way) == 2 {
		return &problem{reason: "SelfReference", stalled: true, message: "cycle " + cycleText(way) +
			": the source matches the pods of a target, so that each restart would be followed by another; narrow spec.source.selector"}
	}
	return &problem{reason: "Cycle", stalled: true, message: "cycle " + cycleText(way) +
		": the pods of a target of each are source pods of the next, so that restarts would never end; narrow the selector of one of them"}
}

// failed is a request that did not work. Its message is the same for each attempt, because a new message is a write.
func failed(err error, stalled bool) *problem {
	text := "the API server cannot be reached" // an error of the connection names ports that differ each time
	if s := kube.AsStatus(err); s != nil {
		text = s.Error()
	}
	p := &problem{reason: "RequestFailed", message: text + "; skiff keeps trying", stalled: stalled}
	if kube.IsForbidden(err) {
		p.reason, p.message = "Forbidden", text+"; grant it, skiff keeps trying"
	}
	return p
}

// noSource says why the source pods are not known.
func noSource(namespace string, err error) *problem {
	return &problem{reason: "SourceOutOfScope", stalled: true,
		message: fmt.Sprintf("spec.source.namespace: skiff does not watch %s (%s); add it to --watch-namespaces or choose another", namespace, root(err))}
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
		if s.Pending != nil && !r.suspended && d.problem.harmless() && s.Round == nil && s.due(r, now) > 0 {
			at := stamp(now.Add(s.due(r, now)))
			if before := t.Status.NextRestartTime; before != nil && !before.Before(at.Add(-time.Second)) && !before.After(at.Add(time.Second)) {
				at = *before // the same, but for what rounding makes of it
			}
			s.NextRestartTime = &at
		}
	}
	list := judge(t, r, d, s.NextRestartTime)
	for i := range list {
		list[i].ObservedGeneration = t.Generation
	}
	s.Conditions = conditions.Update(t.Status.Conditions, list, now)
	return s
}

// harmless says whether restarts go on in spite of a problem.
func (p *problem) harmless() bool { return p == nil || !p.stalled }

// Reasons of conditions where all is well.
const (
	asExpected = "AsExpected"
	armed      = "Armed"
)

// judge returns the conditions, without generation and time.
func judge(t *RestartTrigger, r *rule, d *decision, next *time.Time) []conditions.Condition {
	ready := condition(conditions.Ready, true, armed, "")
	progressing := condition(conditions.Progressing, false, armed, "nothing is waiting and nothing is under way")
	degraded := condition(conditions.Degraded, false, asExpected, "nothing to do")
	stalled := condition(conditions.Stalled, false, asExpected, "nothing to do")
	paused := pausedFor(t)
	if r != nil {
		ready.Message = fmt.Sprintf("watches pods with %s for %s", r.selector, reasonList(r.on))
	}
	if paused.Status == conditions.True {
		ready = condition(conditions.Ready, false, paused.Reason, paused.Message)
	}
	switch s := &d.state; {
	case s.Round != nil:
		text := fmt.Sprintf("restarting %s: %s", r.targetNames(), s.Round.Note)
		progressing = condition(conditions.Progressing, true, "Restarting", text)
		ready = condition(conditions.Ready, false, "Restarting", text)
	case s.Pending != nil && next != nil:
		progressing = condition(conditions.Progressing, true, "Pending", fmt.Sprintf("%s; the restart is due at %s",
			s.Pending.Note, next.Format(time.RFC3339)))
	case s.Pending != nil:
		progressing = condition(conditions.Progressing, false, "Held", s.Pending.Note+"; the restart is made when nothing keeps it any more")
	}
	if w := d.waiting; w != nil {
		progressing = condition(conditions.Progressing, true, w.reason, w.message)
		if !w.passing {
			ready = condition(conditions.Ready, false, w.reason, w.message)
			degraded = condition(conditions.Degraded, true, w.reason, w.message)
		}
	}
	if p := d.problem; p != nil {
		ready = condition(conditions.Ready, false, p.reason, p.message)
		degraded = condition(conditions.Degraded, true, p.reason, p.message)
		if p.stalled {
			stalled = condition(conditions.Stalled, true, p.reason, p.message)
			progressing = condition(conditions.Progressing, false, p.reason, p.message)
		}
	}
	return []conditions.Condition{ready, progressing, degraded, stalled, paused}
}

// pausedFor is the condition Paused: spec.suspend and the annotation that all kinds have do the same.
func pausedFor(t *RestartTrigger) conditions.Condition {
	c := conditions.PausedFor(t.Annotations)
	if c.Status != conditions.True && t.Spec.Suspend {
		c = condition(conditions.Paused, true, "Suspended", "nothing is restarted; what happens meanwhile makes one restart when spec.suspend is false again")
	}
	return c
}

func reasonList(on []Reason) string {
	names := make([]string, len(on))
	for i, r := range on {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

func condition(conditionType string, status bool, reason, message string) conditions.Condition {
	return conditions.Condition{Type: conditionType, Status: conditions.Of(status), Reason: reason, Message: message}
}
