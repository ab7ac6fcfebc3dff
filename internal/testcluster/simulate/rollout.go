package simulate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// step is one resize of a replica set.
type step struct {
	set *replicaSet
	to  int
}

// nextStep returns the next step of a rollout from the old replica sets to the newest, nil if no step is possible now.
// One step at a time is enough: the event of the changed replica set triggers the next one, and no pod is counted
// twice meanwhile.
func nextStep(d *deployment, newest *replicaSet, old []*replicaSet) (*step, error) {
	if d.Spec.Paused {
		return nil, nil
	}
	if d.Spec.Strategy.Type == "Recreate" {
		return recreateStep(d, newest, old), nil
	}
	surge, unavailable, err := rollingBounds(d)
	if err != nil {
		return nil, err
	}
	if s := growNewest(d, newest, old, surge); s != nil {
		return s, nil
	}
	return shrinkOld(d, newest, old, unavailable), nil
}

// recreateStep stops all old pods before it starts new ones.
func recreateStep(d *deployment, newest *replicaSet, old []*replicaSet) *step {
	for _, rs := range old {
		if rs.replicas() > 0 {
			return &step{rs, 0}
		}
	}
	if slices.ContainsFunc(old, func(rs *replicaSet) bool { return rs.Status.Replicas > 0 }) {
		return nil
	}
	return resize(newest, d.replicas())
}

func resize(rs *replicaSet, to int) *step {
	if rs.replicas() == to {
		return nil
	}
	return &step{rs, to}
}

// growNewest scales the newest replica set up as far as the surge allows, or down to the wanted number.
func growNewest(d *deployment, newest *replicaSet, old []*replicaSet, surge int) *step {
	want, have := d.replicas(), newest.replicas()
	if have > want {
		return &step{newest, want}
	}
	room := want + surge - have - sumReplicas(old)
	return resize(newest, have+max(0, min(room, want-have)))
}

// shrinkOld scales down an old replica set while enough other pods are available. Unavailable pods go first: they
// serve nothing, and a broken old revision must not block its replacement.
func shrinkOld(d *deployment, newest *replicaSet, old []*replicaSet, unavailable int) *step {
	least := d.replicas() - unavailable
	newNotAvailable := newest.replicas() - newest.available()
	spare := sumReplicas(old) + newest.replicas() - least - newNotAvailable
	if spare <= 0 {
		return nil
	}
	for _, rs := range old {
		if sick := rs.replicas() - rs.available(); sick > 0 {
			return &step{rs, rs.replicas() - min(sick, spare)}
		}
	}
	available := newest.available()
	for _, rs := range old {
		available += rs.available()
	}
	for _, rs := range old {
		if n := min(rs.replicas(), available-least); n > 0 {
			return &step{rs, rs.replicas() - n}
		}
	}
	return nil
}

func sumReplicas(sets []*replicaSet) int {
	n := 0
	for _, rs := range sets {
		n += rs.replicas()
	}
	return n
}

// rollingBounds returns maxSurge and maxUnavailable in pods. Percentages are rounded in the safe direction. If both
// are zero no step would be possible, so that one pod may be unavailable, as in the real controller.
func rollingBounds(d *deployment) (surge, unavailable int, err error) {
	r := d.Spec.Strategy.RollingUpdate
	surge, err = intOrPercent(r.MaxSurge, d.replicas(), true)
	if err != nil {
		return 0, 0, fmt.Errorf("deployment %s: maxSurge: %w", d.Key(), err)
	}
	unavailable, err = intOrPercent(r.MaxUnavailable, d.replicas(), false)
	if err != nil {
		return 0, 0, fmt.Errorf("deployment %s: maxUnavailable: %w", d.Key(), err)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, d.replicas()), nil
}

// intOrPercent reads 3, or "25%" of a total. A missing value means 25%, the default of the API.
func intOrPercent(raw kube.Raw, whole int, up bool) (int, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		text = "25%"
	}
	digits, percent := strings.CutSuffix(text, "%")
	number, err := strconv.ParseInt(digits, 10, 32)
	n := int(number)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("want a number or a percentage, have %s", text)
	}
	if !percent {
		return n, nil
	}
	n *= whole
	if up {
		n += 99
	}
	return n / 100, nil
}

// Condition types and reasons of a Deployment that kubectl and other controllers read. `kubectl rollout status` fails
// on timedOut.
const (
	available    = "Available"
	progressing  = "Progressing"
	setCreated   = "NewReplicaSetCreated"
	setUpdated   = "ReplicaSetUpdated"
	setAvailable = "NewReplicaSetAvailable"
	timedOut     = "ProgressDeadlineExceeded"
	paused       = "DeploymentPaused"
)

// report updates the status of d if it differs from the state of its replica sets.
func (c *deployments) report(ctx context.Context, d *deployment, newest *replicaSet,
	old []*replicaSet, now time.Time) error {
	next := statusOf(d, newest, old, now).object()
	if same, _ := patch.Covered(nil, next, d.Status.object()); same {
		return nil
	}
	return c.change(ctx, deploymentResource, d, false, "status", object{"status": next})
}

// object returns the status as it is sent.
func (s deploymentStatus) object() object {
	conditions := make([]any, len(s.Conditions))
	for i, c := range s.Conditions {
		conditions[i] = object{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
			"lastUpdateTime": wireTime(c.LastUpdateTime), "lastTransitionTime": wireTime(c.LastTransitionTime)}
	}
	return object{"observedGeneration": s.ObservedGeneration, "replicas": orNull(s.Replicas),
		"updatedReplicas": orNull(s.UpdatedReplicas), "readyReplicas": orNull(s.ReadyReplicas),
		"availableReplicas":   orNull(s.AvailableReplicas),
		"unavailableReplicas": orNull(s.UnavailableReplicas), "conditions": conditions}
}

// statusOf computes the status of d from its replica sets.
func statusOf(d *deployment, newest *replicaSet, old []*replicaSet, now time.Time) deploymentStatus {
	s := deploymentStatus{ObservedGeneration: d.Generation}
	for _, rs := range old {
		s.add(rs)
	}
	wanted := sumReplicas(old)
	if newest != nil {
		s.add(newest)
		s.UpdatedReplicas = newest.Status.Replicas
		wanted += newest.replicas()
	}
	s.UnavailableReplicas = max(0, max(wanted, d.replicas())-s.AvailableReplicas)
	now = now.UTC().Truncate(time.Second)
	s.Conditions = []deploymentCondition{
		withTimes(d.Status.Conditions, availability(d, s), now),
		withTimes(d.Status.Conditions, progress(d, newest, s, now), now),
	}
	for _, rs := range append([]*replicaSet{newest}, old...) { // the first that fails
		if rs != nil && len(s.Conditions) == 2 {
			if failure, failed := conditionOf(rs.Status.Conditions, replicaFailure); failed {
				failure.LastUpdateTime = time.Time{}
				s.Conditions = append(s.Conditions, withTimes(d.Status.Conditions, failure, now))
			}
		}
	}
	return s
}

func (s *deploymentStatus) add(rs *replicaSet) {
	s.Replicas += rs.Status.Replicas
	s.ReadyReplicas += rs.Status.ReadyReplicas
	s.AvailableReplicas += rs.Status.AvailableReplicas
}

func availability(d *deployment, s deploymentStatus) deploymentCondition {
	unavailable := 0
	if d.Spec.Strategy.Type != "Recreate" {
		_, unavailable, _ = rollingBounds(d) // 0 after an error, which the rollout reports
	}
	if s.AvailableReplicas >= d.replicas()-unavailable {
		return deploymentCondition{Type: available, Status: "True", Reason: "MinimumReplicasAvailable",
			Message: "Deployment has minimum availability."}
	}
	return deploymentCondition{Type: available, Status: "False", Reason: "MinimumReplicasUnavailable",
		Message: "Deployment does not have minimum availability."}
}

// progress returns the condition Progressing. Its message names the newest replica set: by that a later call knows
// whether the old condition is about this rollout.
func progress(d *deployment, newest *replicaSet, s deploymentStatus, now time.Time) deploymentCondition {
	old, had := conditionOf(d.Status.Conditions, progressing)
	c := deploymentCondition{Type: progressing, Status: "True"}
	switch {
	case d.Spec.Paused:
		c.Status, c.Reason, c.Message = "Unknown", paused, "Deployment is paused"
	case newest == nil && had:
		return old
	case newest == nil:
		c.Reason, c.Message = setUpdated, "Deployment is progressing."
	case complete(d, s):
		c.Reason, c.Message = setAvailable, fmt.Sprintf("ReplicaSet %q has successfully progressed.", newest.Name)
	case !had || !strings.Contains(old.Message, strconv.Quote(newest.Name)):
		c.Reason, c.Message = setCreated, fmt.Sprintf("Created new replica set %q", newest.Name)
	case old.Reason == setAvailable:
		return old // the rollout is complete; Available reports pods that failed since
	case moved(d.Status, s):
		c.Reason, c.Message = setUpdated, fmt.Sprintf("ReplicaSet %q is progressing.", newest.Name)
		c.LastUpdateTime = now
	case now.Sub(old.LastUpdateTime) >= progressDeadline(d) || old.Reason == timedOut:
		c.Status, c.Reason, c.Message = "False", timedOut,
			fmt.Sprintf("ReplicaSet %q has timed out progressing.", newest.Name)
	default:
		return old
	}
	return c
}

func complete(d *deployment, s deploymentStatus) bool {
	want := d.replicas()
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

// moved reports whether the rollout made progress between two statuses: more new or ready pods, or fewer old ones.
func moved(old, now deploymentStatus) bool {
	return now.UpdatedReplicas > old.UpdatedReplicas || now.ReadyReplicas > old.ReadyReplicas ||
		now.AvailableReplicas > old.AvailableReplicas ||
		now.Replicas-now.UpdatedReplicas < old.Replicas-old.UpdatedReplicas
}

// withTimes sets the times of a condition. It keeps the old condition's times as far as nothing changed.
func withTimes(conditions []deploymentCondition, c deploymentCondition, now time.Time) deploymentCondition {
	old, had := conditionOf(conditions, c.Type)
	same := had && old.Status == c.Status
	if c.LastUpdateTime.IsZero() {
		c.LastUpdateTime = now
		if same && old.Reason == c.Reason && old.Message == c.Message {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	c.LastTransitionTime = now
	if same {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

func conditionOf(list []deploymentCondition, kind string) (deploymentCondition, bool) {
	i := slices.IndexFunc(list, func(c deploymentCondition) bool { return c.Type == kind })
	if i < 0 {
		return deploymentCondition{}, false
	}
	return list[i], true
}

func progressDeadline(d *deployment) time.Duration {
	return time.Duration(valueOr(d.Spec.ProgressDeadlineSeconds, defaultProgressDeadline)) * time.Second
}

// deadline requeues a rollout without progress for the time at which it exceeds its deadline, because no event will
// trigger that reconcile.
func deadline(d *deployment, now time.Time) time.Duration {
	c, ok := conditionOf(d.Status.Conditions, progressing)
	if !ok || d.Spec.Paused || c.Reason == setAvailable || c.Reason == timedOut {
		return 0
	}
	// If the deadline has passed already, the event of the status that was just written triggers the next reconcile.
	return max(c.LastUpdateTime.Add(progressDeadline(d)).Sub(now), time.Second)
}
