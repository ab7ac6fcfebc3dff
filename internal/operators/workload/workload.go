// Package workload reads how far a Deployment, StatefulSet or DaemonSet is rolled out, for the controllers that
// restart such workloads. A reader's struct embeds [Spec] and [Status], beside the other fields of interest.
//
// The functions are pure and run on the goroutines of their callers.
package workload

import (
	"fmt"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// Kinds are the kinds with a pod template and a controller that rolls the template out.
var Kinds = map[string]kube.Resource{
	"Deployment":  {Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"},
	"StatefulSet": {Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet"},
	"DaemonSet":   {Group: "apps", Version: "v1", Plural: "daemonsets", Kind: "DaemonSet"},
}

// Spec is the part of the spec on which a rollout depends, of any kind: fields that a kind does not have stay zero.
type Spec struct {
	Replicas *int32   `json:"replicas"` // nil: a DaemonSet
	Paused   bool     `json:"paused"`
	Strategy Strategy `json:"updateStrategy"`
}

// Strategy is that of a StatefulSet or a DaemonSet. (A Deployment's is called otherwise, and always rolls.)
type Strategy struct {
	Type          string `json:"type"`
	RollingUpdate struct {
		Partition int32 `json:"partition"`
	} `json:"rollingUpdate"`
}

// Status is the part of the status that tells how far a rollout is, of any kind.
type Status struct {
	ObservedGeneration Generation `json:"observedGeneration"`
	Replicas           int32      `json:"replicas"` // old and new
	UpdatedReplicas    int32      `json:"updatedReplicas"`
	ReadyReplicas      int32      `json:"readyReplicas"`
	AvailableReplicas  int32      `json:"availableReplicas"`
	CurrentRevision    string     `json:"currentRevision"` // of a StatefulSet
	UpdateRevision     string     `json:"updateRevision"`
	Desired            int32      `json:"desiredNumberScheduled"` // of a DaemonSet
	Updated            int32      `json:"updatedNumberScheduled"`
	Available          int32      `json:"numberAvailable"`
}

// Generation is the generation of a spec that a controller has seen. A Rollout of Argo has the number as a string.
type Generation int64

// UnmarshalJSON reads 3 or "3".
func (g *Generation) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	if err != nil {
		return fmt.Errorf("%.100s is not a generation", text)
	}
	*g = Generation(n)
	return nil
}

// Counts returns how many pods there should be, and how many are updated, there at all, and available.
func Counts(kind string, spec *Spec, s *Status) (want, updated, total, available int32) {
	if kind == "DaemonSet" {
		return s.Desired, s.Updated, s.Desired, s.Available
	}
	want = 1 // the API's default
	if spec.Replicas != nil {
		want = *spec.Replicas
	}
	updated, total, available = s.UpdatedReplicas, s.Replicas, s.AvailableReplicas
	if kind == "StatefulSet" {
		// A partition keeps the lower ordinals at the old revision, for as long as it stands.
		updated = min(want, updated+min(want, spec.Strategy.RollingUpdate.Partition)) // it may be any number
		available = s.ReadyReplicas
	}
	return want, updated, total, available
}

// Stage is how far a rollout is.
type Stage int

// The stages, in their order.
const (
	Unseen      Stage = iota // the workload's controller has not seen the last change yet: the status is older
	Rolling                  // pods of an older template are left, or pods of the new template missing
	Unavailable              // all pods are of the new template, and some are not available
	RolledOut
)

// StageOf returns how far a workload of a kind and generation is rolled out, as `kubectl rollout status` sees it.
func StageOf(kind string, generation int64, spec *Spec, s *Status) Stage {
	if int64(s.ObservedGeneration) < generation {
		return Unseen
	}
	want, updated, total, available := Counts(kind, spec, s)
	switch {
	case updated < want, total > want,
		kind == "StatefulSet" && spec.Strategy.RollingUpdate.Partition == 0 && s.UpdateRevision != s.CurrentRevision:
		return Rolling
	case available < want:
		return Unavailable
	}
	return RolledOut
}
