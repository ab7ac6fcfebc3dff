package redis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// pod is a pod as it is cached: what its controller decides by, and what tells a user why it is not ready.
type pod struct {
	kube.Meta `json:"metadata"`
	Status    podStatus `json:"status"`
}

type podStatus struct {
	Phase                 string            `json:"phase"`
	Reason                string            `json:"reason"` // Evicted, NodeLost ...
	Message               string            `json:"message"`
	PodIP                 string            `json:"podIP"`
	Conditions            []podCondition    `json:"conditions"`
	InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
	ContainerStatuses     []containerStatus `json:"containerStatuses"`
}

type podCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

type containerStatus struct {
	Name  string `json:"name"`
	State struct {
		Waiting struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Terminated terminated `json:"terminated"`
	} `json:"state"`
	LastState struct {
		Terminated terminated `json:"terminated"`
	} `json:"lastState"`
}

type terminated struct {
	Reason   string `json:"reason"`
	ExitCode int    `json:"exitCode"`
}

// condition returns the condition of a type, the zero value if there is none.
func (p *pod) condition(conditionType string) podCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return podCondition{}
}

// ready says whether the pod answers, by its readiness probe, and since when.
func (p *pod) ready() (since time.Time, ok bool) {
	if _, ended := p.ended(); ended || p.Deleting() {
		return since, false
	}
	c := p.condition("Ready")
	return c.LastTransitionTime, c.Status == "True"
}

// ended says how the pod's containers have stopped for good, and false if they have not: it failed, was evicted or
// rejected by its node, or its template lets it complete.
func (p *pod) ended() (how string, ok bool) {
	if p.Status.Phase != "Failed" && p.Status.Phase != "Succeeded" {
		return "", false
	}
	if p.Status.Reason != "" {
		return join(p.Status.Reason, p.Status.Message), true
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if end := c.State.Terminated; end.Reason != "" && (end.ExitCode != 0 || p.Status.Phase == "Succeeded") {
			return end.describe(c.Name), true
		}
	}
	return p.Status.Phase, true
}

// describe says how a container ended.
func (t terminated) describe(container string) string {
	return fmt.Sprintf("container %s ended with exit code %d (%s)", container, t.ExitCode, cmp.Or(t.Reason, "Error"))
}

// join makes "reason: message" of what there is of both.
func join(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// patience is how long a pod may take to become ready before that is reported as a fault. Redis starts within a
// second; pulling an image takes some ten; loading a snapshot of some gigabytes takes about a minute.
const patience = time.Minute

// podEnded is the reason of a pod that has ended.
const podEnded = "PodEnded"

// faultOf says what is wrong with a pod that should be ready and is not: a reason and a text that stay the same as
// long as the fault does. No reason: nothing yet; if it is still not ready after wait, that is a fault.
func faultOf(p *pod, now time.Time) (reason, message string, wait time.Duration) {
	if how, ok := p.ended(); ok {
		return podEnded, how, 0
	}
	if c := p.condition("PodScheduled"); c.Status == "False" {
		return word(cmp.Or(c.Reason, "Unscheduled")), c.Message, 0
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch w := c.State.Waiting; w.Reason {
		case "", "ContainerCreating", "PodInitializing":
		case "CrashLoopBackOff":
			// The kubelet's own text counts the seconds of the back-off.
			return w.Reason, c.LastState.Terminated.describe(c.Name), 0
		default:
			return word(w.Reason), "container " + join(c.Name, w.Message), 0
		}
	}
	since := p.CreationTimestamp
	ready := p.condition("Ready")
	if ready.LastTransitionTime.After(since) {
		since = ready.LastTransitionTime
	}
	if wait := since.Add(patience).Sub(now); wait > 0 {
		return "", "", wait
	}
	return "PodNotReady", cmp.Or(ready.Message, "it has not been ready for more than "+patience.String()), 0
}

// reasonPattern is that of a condition's reason (meta/v1 Condition).
var reasonPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,62}[A-Za-z0-9_])?$`)
})

// word returns a reason that a kubelet gives as one that the API server takes in a condition.
func word(reason string) string {
	if reasonPattern().MatchString(reason) {
		return reason
	}
	return "PodNotReady"
}
