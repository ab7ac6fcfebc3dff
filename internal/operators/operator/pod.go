package operator

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// Pod has the fields of a pod that a controller decides by, and that tell a user why the pod is not ready.
type Pod struct {
	kube.Meta `json:"metadata"`
	Status    PodStatus `json:"status"`
}

// PodStatus has the fields that are read of the status of a pod.
type PodStatus struct {
	Phase                 string            `json:"phase"`
	Reason                string            `json:"reason"` // Evicted, NodeLost ...
	Message               string            `json:"message"`
	PodIP                 string            `json:"podIP"`
	Conditions            []PodCondition    `json:"conditions"`
	InitContainerStatuses []ContainerStatus `json:"initContainerStatuses"`
	ContainerStatuses     []ContainerStatus `json:"containerStatuses"`
}

// PodCondition is a condition of a pod.
type PodCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// ContainerStatus has the fields that are read of the status of a container.
type ContainerStatus struct {
	Name  string `json:"name"`
	State struct {
		Waiting struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Terminated Terminated `json:"terminated"`
	} `json:"state"`
	LastState struct {
		Terminated Terminated `json:"terminated"`
	} `json:"lastState"`
}

// Terminated is how a container ended.
type Terminated struct {
	Reason   string `json:"reason"`
	ExitCode int    `json:"exitCode"`
}

// Condition returns the condition of a type, the zero value if there is none.
func (p *Pod) Condition(conditionType string) PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return PodCondition{}
}

// Ready says whether the pod answers, by its readiness probe, and since when.
func (p *Pod) Ready() (since time.Time, ok bool) {
	if _, ended := p.Ended(); ended || p.Deleting() {
		return since, false
	}
	c := p.Condition("Ready")
	return c.LastTransitionTime, c.Status == "True"
}

// Ended says how the pod's containers have stopped for good, and false if they have not: the pod failed, was evicted
// or rejected by the node, or completed as the template allows.
func (p *Pod) Ended() (how string, ok bool) {
	if p.Status.Phase != "Failed" && p.Status.Phase != "Succeeded" {
		return "", false
	}
	if p.Status.Reason != "" {
		return Join(p.Status.Reason, p.Status.Message), true
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if end := c.State.Terminated; end.Reason != "" && (end.ExitCode != 0 || p.Status.Phase == "Succeeded") {
			return end.describe(c.Name), true
		}
	}
	return p.Status.Phase, true
}

// describe says how a container ended.
func (t Terminated) describe(container string) string {
	return fmt.Sprintf("container %s ended with exit code %d (%s)", container, t.ExitCode, cmp.Or(t.Reason, "Error"))
}

// Join makes "reason: message"; either may be empty.
func Join(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// Patience is how long a pod may take to become ready before a fault is reported. A small server starts within a
// second; pulling an image takes some ten; loading a snapshot of some gigabytes takes about a minute.
const Patience = time.Minute

// Reasons of pods that are not ready.
const (
	PodEnded    = "PodEnded"    // stopped for good
	podNotReady = "PodNotReady" // perhaps just slow
)

// FaultOf returns the fault of a pod that should be ready and is not: a reason and a text that stay the same as long
// as the fault does. No reason: no fault yet, but a fault if the pod is still not ready after wait.
func FaultOf(p *Pod, now time.Time) (reason, message string, wait time.Duration) {
	if how, ok := p.Ended(); ok {
		return PodEnded, how, 0
	}
	if c := p.Condition("PodScheduled"); c.Status == "False" {
		return word(cmp.Or(c.Reason, "Unscheduled")), strings.TrimSuffix(c.Message, "."), 0 // the next step follows
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch w := c.State.Waiting; w.Reason {
		case "", "ContainerCreating", "PodInitializing":
		case "CrashLoopBackOff":
			// The kubelet's own text counts the seconds of the back-off.
			return w.Reason, c.LastState.Terminated.describe(c.Name), 0
		default:
			return word(w.Reason), "container " + Join(c.Name, w.Message), 0
		}
	}
	since := p.CreationTimestamp
	ready := p.Condition("Ready")
	if ready.LastTransitionTime.After(since) {
		since = ready.LastTransitionTime
	}
	if wait := since.Add(Patience).Sub(now); wait > 0 {
		return "", "", wait
	}
	return podNotReady, cmp.Or(ready.Message, "it has not been ready for more than "+Patience.String()), 0
}

// reasonPattern matches a condition's reason (meta/v1 Condition).
var reasonPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,62}[A-Za-z0-9_])?$`)
})

// word returns the reason if the API server takes the reason in a condition, else podNotReady.
func word(reason string) string {
	if reasonPattern().MatchString(reason) {
		return reason
	}
	return podNotReady
}
