package simulate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
)

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
	return c.change(ctx, deploymentResource, d, false, "status", map[string]any{"status": next})
}

// object returns the status as it is sent.
func (s deploymentStatus) object() map[string]any {
	conditions := make([]any, len(s.Conditions))
	for i, c := range s.Conditions {
		conditions[i] = map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
			"lastUpdateTime": wireTime(c.LastUpdateTime), "lastTransitionTime": wireTime(c.LastTransitionTime)}
	}
	return map[string]any{"observedGeneration": s.ObservedGeneration, "replicas": orNull(s.Replicas),
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
		settle(d.Status.Conditions, availability(d, s), now),
		settle(d.Status.Conditions, progress(d, newest, s, now), now),
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

// settle sets the times of a condition. It keeps the old condition's times as far as nothing changed.
func settle(conditions []deploymentCondition, c deploymentCondition, now time.Time) deploymentCondition {
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
