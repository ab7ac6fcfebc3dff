package restart

import (
	"fmt"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// facts are the things to know about a trigger beside the conditions: the pods watched, the targets, the last
// restarts, and when the next restart may be. All follow from the status, so a standby has the facts, too.
func (r *reconciler) facts(object kube.Object) []controller.Fact {
	t := object.(*RestartTrigger)
	s := &t.Status
	return []controller.Fact{
		{Name: "Watches", Value: fmt.Sprintf("%d pods in %s: %s", s.MatchingPods, sourceNamespace(t), s.Selector)},
		{Name: "Restarts", Value: s.TargetNames},
		lastRestart(s.LastRestart),
		r.nextRestart(t, time.Now()),
	}
}

func lastRestart(last *Restart) controller.Fact {
	if last == nil {
		return controller.Fact{Name: "Last restart", Value: "none yet"}
	}
	return controller.Fact{Name: "Last restart", At: last.Time,
		Value: fmt.Sprintf("%s for %s of pod %s", last.Target, last.Reason, last.Pod)}
}

// nextRestart says when the next restart may be.
func (r *reconciler) nextRestart(t *RestartTrigger, now time.Time) controller.Fact {
	out := controller.Fact{Name: "Next restart"}
	s := &t.Status
	rl, err := newRule(t)
	switch {
	case err != nil:
		out.Value = "none: the spec is invalid"
		return out
	case rl.suspended:
		out.Value = "none: the trigger is suspended"
		return out
	case s.Round != nil:
		out.Value, out.At = fmt.Sprintf("under way for %s of pod %s", s.Round.Reason, s.Round.Pod), s.Round.Time
		return out
	case s.Pending != nil && s.NextRestartTime != nil:
		out.Value, out.At = fmt.Sprintf("for %s of pod %s", s.Pending.Reason, s.Pending.Pod), *s.NextRestartTime
		return out
	case s.Pending != nil:
		out.Value = fmt.Sprintf("for %s of pod %s, when what the conditions name is over", s.Pending.Reason,
			s.Pending.Pod)
		return out
	}
	rl.raise(r.floors)
	changed := s.State // as if a pod changed now
	changed.Pending = &Pending{First: now, Last: now}
	wait, limit := changed.due(rl, now)
	if limit == debounce {
		out.Value = short(wait) + " after the next change of a pod"
		return out
	}
	out.Value, out.At = "after a change of a pod, when the "+limit+" is over", now.Add(wait)
	return out
}
