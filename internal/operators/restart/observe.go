package restart

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// stalled is a Problem that only a user can end, by a step.
func stalled(reason, step, format string, args ...any) *health.Problem {
	return &health.Problem{Reason: reason, Severity: health.Stalled, Public: fmt.Sprintf(format, args...), Next: step}
}

// circular is a trigger whose restarts come back to it.
func circular(way []string) *health.Problem {
	if len(way) == 1 {
		return stalled("SelfReference", "narrow it",
			"the selector matches the pods of a target, so each restart would be followed by another")
	}
	cycle := strings.Join(append(slices.Clip(way), way[0]), " -> ")
	return stalled("Cycle", "narrow the selector of one of them", "cycle %s: the pods of a target of each are source "+
		"pods of the next, so restarts would never end", cycle)
}

// failed is a request that failed. A refusal is tried again as well: a webhook or a quota may be the cause.
func failed(err error, step string, severity health.Severity) *health.Problem {
	p := health.OfRequest(err, step)
	if p.Reason, p.Severity = "RequestFailed", severity; kube.IsForbidden(err) {
		p.Reason, p.Next = "Forbidden", "grant it, "+step
	}
	return &p
}

// noSource says why the source pods are not known.
func noSource(namespace string, err error) *health.Problem {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return stalled("SourceOutOfScope", "add it to --watch-namespaces or choose another",
		"spec.source.namespace: skiff does not watch %s (%s)", namespace, err)
}

// observe returns the status that follows from a decision, and why the trigger is not ready. r is nil where the
// trigger is refused.
func observe(t *RestartTrigger, r *rule, d *decision, matching int32, now time.Time) (s Status,
	why *health.Problem) {
	s = Status{State: d.state, Cycle: d.cycle}
	if r != nil {
		s.Selector, s.TargetNames, s.MatchingPods = r.selector.String(), join(",", r.targets), matching
		s.ConfigNames = r.configNames()
		if s.Pending != nil && s.Round == nil && !r.suspended &&
			(d.problem == nil || d.problem.Severity != health.Stalled) {
			s.NextRestartTime = next(t.Status.NextRestartTime, &s.State, r, now)
		}
	}
	set := conditionsOf(t, r, d, &s, now)
	s.Common = operator.CommonOf(&t.Status.Common, &set, t.Generation, now)
	return s, set.Problem
}

// next returns when the pending restart is due, nil if it is already. A difference of a second is rounding.
func next(before *time.Time, s *State, r *rule, now time.Time) *time.Time {
	wait, _ := s.due(r, now)
	if wait == 0 {
		return nil
	}
	at := stamp(now.Add(wait))
	if before != nil && at.Sub(*before).Abs() <= time.Second {
		at = *before
	}
	return &at
}

// Reasons of conditions.
const (
	armed      = "Armed"
	noMatching = "NoMatchingPods"
	restarting = "Restarting"
	pending    = "Pending"
	held       = "Held"
	waiting    = "WaitsForTarget"

	sourceMissing  = "SourceMissing"
	tooManySources = "TooManySources"
	notServed      = "SourceNotServed"
)

// conditionsOf returns the conditions, without generation and time.
func conditionsOf(t *RestartTrigger, r *rule, d *decision, s *Status, now time.Time) conditions.Set {
	set := conditions.NewSet(t.Annotations)
	if set.Paused.Status != conditions.True && t.Spec.Suspend { // which does the same
		set.Paused = conditions.New(conditions.Paused, true, "Suspended",
			"nothing is restarted; what happens meanwhile makes one restart when spec.suspend is false again")
	}
	ready := func(message string) { set.Ready = conditions.New(conditions.Ready, true, armed, message) }
	notReady := func(reason, public, quoted, next string) {
		set.Problem = &health.Problem{Reason: reason, Public: public, Quoted: quoted, Next: next,
			Severity: health.Passing}
		set.Ready = conditions.New(conditions.Ready, false, reason, set.Problem.Note())
	}
	progressing := func(on bool, reason, message string) {
		set.Progressing = conditions.New(conditions.Progressing, on, reason, message)
	}
	progressing(false, armed, "no restart is pending or under way")
	if r != nil {
		ready(r.watches() + r.raised)
		if s.MatchingPods == 0 && len(r.selector) > 0 {
			notReady(noMatching, "no pod in namespace "+r.namespace+" matches the selector", r.selector.String(),
				"resumes when one does")
		}
		if m := d.missing; m != nil {
			notReady(m.Reason, m.Public, m.Quoted, m.Next)
		}
	}
	if set.Paused.Status == conditions.True {
		notReady(set.Paused.Reason, set.Paused.Message, "", "")
	}
	switch {
	case r == nil: // refused: the problem says it all
	case s.Round != nil:
		text := fmt.Sprintf("restarting %s: %s", join(",", r.targets), s.Round.Note)
		progressing(true, restarting, text)
		notReady(restarting, text, "", "")
	case s.Pending != nil && s.NextRestartTime != nil:
		_, limit := s.due(r, now)
		progressing(true, pending, fmt.Sprintf("%s; %sthe restart is due at %s", s.Pending.Note, r.delayed(limit),
			s.NextRestartTime.Format(time.RFC3339)))
	case s.Pending != nil && r.suspended:
		progressing(false, held, s.Pending.Note+"; the restart runs when the trigger is no longer suspended or paused")
	case s.Pending != nil:
		progressing(false, held, s.Pending.Note+"; the restart is due")
	}
	if w := d.waiting; w != nil {
		progressing(true, w.Reason, "the restart waits: "+w.Note())
		if set.Ready.Status == conditions.True {
			ready(set.Ready.Message + "; a restart is pending and waits for its target")
			set.Ready.Reason = waiting
		}
		if w.Severity != health.Passing {
			set.Report(w)
		}
	}
	set.Report(d.problem)
	if d.crowd > 0 && set.Degraded.Status != conditions.True {
		set.Report(&health.Problem{Reason: tooManySources, Next: "name fewer, or make several RestartTriggers",
			Public: fmt.Sprintf("%d ConfigMaps, Secrets and keys are too many: only the first %d count", d.crowd,
				maxConfigs)})
	}
	if d.partial != "" && set.Degraded.Status != conditions.True {
		set.Degraded = conditions.New(conditions.Degraded, true, partitioned, d.partial)
		set.Problem = &health.Problem{Reason: partitioned, Public: d.partial}
	}
	return set
}

// watches lists the sources and the reasons for people.
func (r *rule) watches() string {
	var parts []string
	if len(r.selector) > 0 {
		parts = append(parts, fmt.Sprintf("pods with %s for %s", r.selector, join(", ", r.on)))
	}
	if len(r.wanted) > 0 {
		parts = append(parts, r.configNames())
	}
	return "watches " + strings.Join(parts, ", and ")
}

// delayed says which limit a restart waits for, besides the debounce.
func (r *rule) delayed(limit string) string {
	switch limit {
	case cooldown:
		return "cooldown " + short(r.cooldown) + ": "
	case budget:
		return fmt.Sprintf("the budget of %d per %s is used up: ", r.budget, short(r.per))
	}
	return ""
}

// matching returns how many pods match. Where the last pod has just gone, the number stays for a minute: the pod may
// be replaced.
func (m *memory) matching(before *Status, generation int64, d *decision, n int32, now time.Time) int32 {
	if n > 0 || before.MatchingPods == 0 || before.ObservedGeneration != generation {
		m.emptyAt = time.Time{}
		return n
	}
	if m.emptyAt.IsZero() {
		m.emptyAt = now.Add(recheck)
	}
	if wait := m.emptyAt.Sub(now); wait > 0 {
		d.again(wait, "rechecks which pods match")
		return before.MatchingPods
	}
	return 0
}

// postpone returns how long the write of a status with mere observations can wait: a second, or a minute if nothing
// but the number of pods has changed, which is different for a moment with each replaced pod.
func (m *memory) postpone(before, after *Status, d *decision, now time.Time) time.Duration {
	if d.restart >= 0 || reflect.DeepEqual(after, before) || !reflect.DeepEqual(after.news(), before.news()) {
		m.recordAt = time.Time{}
		return 0
	}
	wait, counted := time.Second, *after
	if counted.MatchingPods = before.MatchingPods; reflect.DeepEqual(&counted, before) {
		wait = recheck
	}
	if at := now.Add(wait); m.recordAt.IsZero() || at.Before(m.recordAt) {
		m.recordAt = at
	}
	if wait = m.recordAt.Sub(now); wait <= 0 {
		m.recordAt = time.Time{}
	}
	return wait
}

// news is the status without mere observations: the pods seen, and messages.
func (s Status) news() Status {
	s.MatchingPods, s.Seen, s.SeenConfigs, s.Suppressed, s.Pending, s.NextRestartTime = 0, "", "", 0, nil, nil
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].Message = ""
	}
	return s
}

// record records an Event.
func (r *run) record(e events.Event) {
	e.Action = "Restart" // what this controller was doing; events.k8s.io/v1 demands it
	r.recorder.Record(e)
}

func (r *run) ref() events.Object { return events.ObjectOf(resource, r.t) }

// announce records a restart, on the target and on the trigger.
func (r *run) announce(ref TargetRef, live *liveTarget, round *Round) {
	trigger, restarted := r.ref(), events.ObjectOf(targetKinds[ref.Kind], live)
	r.record(events.Event{Regarding: restarted, Related: trigger, Type: events.Normal, Reason: "Restarted",
		Note: "restarted by RestartTrigger " + r.t.Name + ": " + round.Note})
	r.record(events.Event{Regarding: trigger, Related: restarted, Type: events.Normal, Reason: "Restarted",
		Note: "restarted " + ref.String() + ": " + round.Note})
}

// recordNews records the new parts of the conditions: a problem, and the reason for which a restart waits. A trigger
// that is ready again after each restart, or paused, is no news.
func (r *run) recordNews(ctx context.Context, d *decision, before, after []conditions.Condition) {
	log := logr.FromContextOrDiscard(ctx)
	for _, n := range conditions.EventsOf(before, after) {
		if n.Type == events.Warning {
			log.Info("degraded", "reason", n.Reason, "message", n.Note)
			n.Regarding = r.ref()
			r.record(n)
		}
	}
	was, _ := conditions.Get(before, conditions.Progressing)
	is, _ := conditions.Get(after, conditions.Progressing)
	if is.Reason != pending {
		r.delay = ""
	}
	switch {
	case d.waiting != nil && is.Message != was.Message:
		log.Info("the restart waits", "reason", is.Reason, "message", is.Message)
	case is.Reason == pending:
		_, limit := d.state.due(r.rule, r.now)
		said := r.delay == "" && was.Reason == pending // by the process before
		delayed := limit != debounce && r.delay != limit && !said
		if r.delay = limit; delayed || was.Reason != pending {
			log.Info("restart pending", "message", is.Message)
		}
		if delayed {
			r.record(events.Event{Regarding: r.ref(), Type: events.Normal, Reason: "RestartDelayed", Note: is.Message})
		}
	}
}

// newRestarts returns the counters of restarts by their results.
func newRestarts() *metrics.Counts {
	return metrics.NewCounts(&metrics.Family{Name: "skiff_restart_total", Kind: metrics.CounterKind,
		Help: "Restarts of targets that were sent, by result; one that failed is tried again."},
		"result", "restarted", "target_changed", "failed")
}

// resultOf is the result of a restart that was sent.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "restarted"
	case kube.IsNotFound(err), kube.IsConflict(err):
		return "target_changed"
	}
	return "failed"
}
