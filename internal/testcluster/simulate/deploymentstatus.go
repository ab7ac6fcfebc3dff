package simulate

import (
	"slices"
	"strconv"
	"strings"
	"time"
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

// deploymentStatus is the part of a Deployment's status that the next status follows from.
type deploymentStatus struct {
	replicaSetStatus
	UpdatedReplicas int `json:"updatedReplicas"`
}

func (s *deploymentStatus) add(rs *replicaSet) {
	s.Replicas += rs.Status.Replicas
	s.ReadyReplicas += rs.Status.ReadyReplicas
	s.AvailableReplicas += rs.Status.AvailableReplicas
	s.TerminatingReplicas += rs.Status.TerminatingReplicas
}

// statusOf computes the status of d from its replica sets.
func statusOf(d *workload, was deploymentStatus, newest *replicaSet, old []*replicaSet) object {
	var s deploymentStatus
	sets := slices.Clone(old)
	if newest != nil {
		sets = append([]*replicaSet{newest}, old...)
		s.UpdatedReplicas = newest.Status.Replicas
	}
	for _, rs := range sets {
		s.add(rs)
	}
	list := []any{availability(d, was, s), progress(d, was, newest, s)}
	for _, rs := range sets {
		if c := rs.Status.Conditions.of(replicaFailure); c != nil && len(list) == 2 { // the first failure
			list = append(list, was.Conditions.updated(replicaFailure, c["status"], c["reason"], c["message"]))
		}
	}
	return object{"observedGeneration": d.Generation, "replicas": orNull(s.Replicas),
		"updatedReplicas": orNull(s.UpdatedReplicas), "readyReplicas": orNull(s.ReadyReplicas),
		"availableReplicas": orNull(s.AvailableReplicas), "terminatingReplicas": int64(s.TerminatingReplicas),
		"unavailableReplicas": orNull(max(0, max(sumReplicas(sets), d.replicas())-s.AvailableReplicas)),
		"conditions":          list}
}

func availability(d *workload, was, s deploymentStatus) object {
	unavailable := 0
	if d.Spec.Strategy.Type != "Recreate" {
		_, unavailable, _ = rollingBounds(d) // 0 after an error, which the rollout reports
	}
	if s.AvailableReplicas >= d.replicas()-unavailable {
		return was.Conditions.updated(available, "True", "MinimumReplicasAvailable",
			"Deployment has minimum availability.")
	}
	return was.Conditions.updated(available, "False", "MinimumReplicasUnavailable",
		"Deployment does not have minimum availability.")
}

// progress returns the condition Progressing. The message names the newest replica set, so that a later call knows
// whether the old condition is about the same rollout.
func progress(d *workload, was deploymentStatus, newest *replicaSet, s deploymentStatus) object {
	old, name := was.Conditions.of(progressing), ""
	if newest != nil {
		name = strconv.Quote(newest.Name)
	}
	about, _ := old["message"].(string)
	status, reason, message := "True", setUpdated, "ReplicaSet "+name+" is progressing."
	switch {
	case d.Spec.Paused:
		status, reason, message = "Unknown", paused, "Deployment is paused"
	case newest == nil && old != nil:
		return old
	case newest == nil:
		message = "Deployment is progressing."
	case s.complete(d):
		reason, message = setAvailable, "ReplicaSet "+name+" has successfully progressed."
	case !strings.Contains(about, name):
		reason, message = setCreated, "Created new replica set "+name
	case old["reason"] == setAvailable:
		return old // the rollout is complete; Available reports later failures of pods
	case s.moved(was):
		next := was.Conditions.updated(progressing, status, reason, message)
		next["lastUpdateTime"] = wireTime(time.Now())
		return next
	case old["reason"] == timedOut || untilTimeout(d, old) <= 0:
		status, reason, message = "False", timedOut, "ReplicaSet "+name+" has timed out progressing."
	default:
		return old
	}
	return was.Conditions.updated(progressing, status, reason, message)
}

// untilTimeout returns how long a rollout with the condition Progressing may go on without progress.
func untilTimeout(d *workload, c object) time.Duration {
	return time.Until(timeOf(c["lastUpdateTime"])) +
		time.Duration(valueOr(d.Spec.ProgressDeadlineSeconds, defaultProgressDeadline))*time.Second
}

// deadline requeues a rollout without progress for the time of the deadline, because no event will trigger the
// reconcile.
func deadline(d *workload, was deploymentStatus) time.Duration {
	c := was.Conditions.of(progressing)
	if c == nil || d.Spec.Paused || c["reason"] == setAvailable || c["reason"] == timedOut {
		return 0
	}
	// If the deadline has passed already, the event of the status that was just written triggers the next reconcile.
	return max(untilTimeout(d, c), time.Second)
}

func (s deploymentStatus) complete(d *workload) bool {
	want := d.replicas()
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

// moved reports whether the rollout made progress since an old status: more new or ready pods, or fewer old ones.
func (s deploymentStatus) moved(old deploymentStatus) bool {
	return s.UpdatedReplicas > old.UpdatedReplicas || s.ReadyReplicas > old.ReadyReplicas ||
		s.AvailableReplicas > old.AvailableReplicas || s.Replicas-s.UpdatedReplicas < old.Replicas-old.UpdatedReplicas
}
