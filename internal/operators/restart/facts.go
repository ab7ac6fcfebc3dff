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
		{Name: "Watches", Value: watched(t)},
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
		Value: fmt.Sprintf("%s for %s of %s", last.Target, last.Reason, subject(last.Pod, last.Source))}
}

// watched says how many pods are watched, and which ConfigMaps and Secrets.
func watched(t *RestartTrigger) string {
	s := &t.Status
	if s.Selector == "" && s.ConfigNames != "" {
		return s.ConfigNames
	}
	text := fmt.Sprintf("%d pods in %s: %s", s.MatchingPods, sourceNamespace(t), s.Selector)
	if s.ConfigNames != "" {
		text += "; " + s.ConfigNames
	}
	return text
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
		out.Value, out.At = fmt.Sprintf("under way for %s of %s", s.Round.Reason,
			subject(s.Round.Pod, s.Round.Source)), s.Round.Time
		return out
	case s.Pending != nil && s.NextRestartTime != nil:
		out.Value, out.At = fmt.Sprintf("for %s of %s", s.Pending.Reason,
			subject(s.Pending.Pod, s.Pending.Source)), *s.NextRestartTime
		return out
	case s.Pending != nil:
		out.Value = fmt.Sprintf("for %s of %s, when what the conditions name is over", s.Pending.Reason,
			subject(s.Pending.Pod, s.Pending.Source))
		return out
	}
	rl.raise(r.floors)
	changed := s.State // as if a pod changed now
	changed.Pending = &Pending{First: now, Last: now}
	wait, limit := changed.due(rl, now)
	what := "a pod"
	if len(rl.wanted) > 0 {
		what = "a source"
	}
	if limit == debounce {
		out.Value = short(wait) + " after the next change of " + what
		return out
	}
	out.Value, out.At = "after a change of "+what+", when the "+limit+" is over", now.Add(wait)
	return out
}
