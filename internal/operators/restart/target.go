package restart

import (
	"fmt"
	"strings"
	"time"

	"skiff/internal/operators/workload"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// restartedAt is the annotation of the pod template that `kubectl rollout restart` sets. A new value is a new
// template, which the cluster rolls out.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// liveTarget is the part read of a target of any kind.
type liveTarget struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               struct {
		workload.Spec
		Template struct {
			Metadata struct {
				Labels      kube.Labels `json:"labels"`
				Annotations kube.Labels `json:"annotations"`
			} `json:"metadata"`
		} `json:"template"`
	} `json:"spec"`
	Status workload.Status `json:"status"`
}

// target is a target as it was last read.
type target struct {
	TargetRef
	reading
	other string // the RestartTrigger, not ours, of a restart under way; "": none
}

// old says that the target was not read just now.
func (t target) old(now time.Time) bool { return t.at.Before(now) }

// annotated returns the time in the restart annotation of the pod template; zero if it has none.
func (t target) annotated() time.Time {
	v, _ := t.live.Spec.Template.Metadata.Annotations.Get(restartedAt)
	at, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return time.Time{}
	}
	return at
}

// restarted says that the target was restarted in the round of a time, or later.
func (t target) restarted(at, now time.Time) bool {
	set := t.annotated()
	return set.Equal(at) || set.After(at) && !isAhead(set, now)
}

// maxPodLabels bounds the labels of a target's pods in the status, in bytes.
const maxPodLabels = 4 << 10

// podLabels returns the labels of the target's pods as they are stored, "" if there is none.
func (t target) podLabels() string {
	if t.live == nil {
		return ""
	}
	return labels.FormatSet(t.live.Spec.Template.Metadata.Labels, maxPodLabels)
}

// Why a target cannot be restarted now.
const (
	rollingOut   = "RollingOut"
	unavailable  = "TargetUnavailable"
	targetPaused = "TargetPaused"
	onDelete     = "TargetNotRolling"
)

// The faults of a target, as reasons of Degraded.
const (
	targetMissing = "TargetMissing"
	reverted      = "Reverted"
	partitioned   = "Partitioned"
)

// halted says that only a user can have the target roll out, so that other targets do not wait.
func (t target) halted() bool {
	return t.live != nil && (t.live.Spec.Paused || t.live.Spec.Strategy.Type == "OnDelete")
}

// partial says which pods a StatefulSet replaces at a restart, "": all.
func (t target) partial() string {
	partition := int32(0)
	if t.live != nil && t.Kind == "StatefulSet" && !t.halted() {
		partition = t.live.Spec.Strategy.RollingUpdate.Partition
	}
	if partition <= 0 {
		return ""
	}
	want, _, _, _ := workload.Counts(t.Kind, &t.live.Spec.Spec, &t.live.Status)
	return fmt.Sprintf("a restart of %s replaces %d of %d pods: spec.updateStrategy.rollingUpdate.partition is %d; "+
		"set it to 0 to have all of them replaced", t, max(0, want-partition), want, partition)
}

// busy says why the target cannot be restarted now, and how a reader sees that; "": possible. The status is read as
// `kubectl rollout status` does: a status of an older generation says nothing.
func (t target) busy() (reason, message string) {
	w := t.live
	stage := workload.StageOf(t.Kind, w.Generation, &w.Spec.Spec, &w.Status)
	switch {
	case w.Spec.Paused:
		return targetPaused, fmt.Sprintf("%s is paused", t)
	case w.Spec.Strategy.Type == "OnDelete":
		return onDelete,
			fmt.Sprintf("%s has the update strategy OnDelete: its pods change only when they are deleted", t)
	case stage == workload.Unseen:
		return rollingOut, fmt.Sprintf("the change of %s has not been seen by its controller yet", t)
	case w.Deleting():
		return unavailable, fmt.Sprintf("%s is being deleted", t)
	case stage == workload.Rolling: // without numbers: each would be a write of the status
		return rollingOut, fmt.Sprintf("%s rolls out, follow it with `kubectl rollout status %[1]s`", t)
	case stage == workload.Unavailable:
		return unavailable, fmt.Sprintf("not all pods of %s are available", t)
	}
	return "", ""
}

// templateHashLabel is on every pod of a Deployment. The name of the pod's ReplicaSet is the name of the Deployment
// and the value of the label.
const templateHashLabel = "pod-template-hash"

// ownerOf returns the workload of a pod by labels and owners; false: none that could be a target. The Deployment of a
// ReplicaSet is found by the ReplicaSet's name, which is made of the Deployment's name and the hash, also a label of
// the pod: neither a request nor a right on ReplicaSets is needed.
func ownerOf(m *kube.Meta) (TargetRef, bool) {
	o, ok := m.Controller()
	switch {
	case !ok:
		return TargetRef{}, false
	case o.Kind != "ReplicaSet":
		return TargetRef{Kind: o.Kind, Name: o.Name}, targetKinds[o.Kind].Kind != ""
	}
	h, _ := m.Labels.Get(templateHashLabel)
	name, ok := strings.CutSuffix(o.Name, "-"+h)
	return TargetRef{Kind: "Deployment", Name: name}, ok && h != "" && name != ""
}

// lasting says whether the pod's name can come back when the pod is gone: the name of a pod of a StatefulSet or a
// Redis, or of a bare pod.
func (p *pod) lasting() bool {
	o, _ := p.Controller()
	return o.Kind != "ReplicaSet" && o.Kind != "DaemonSet" && o.Kind != "Job" && o.Kind != "ReplicationController"
}
