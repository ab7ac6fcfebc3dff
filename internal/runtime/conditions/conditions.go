// Package conditions holds the status conditions of skiff's custom resources (meta/v1 Condition), which a user reads
// in `kubectl describe` and waits for with `kubectl wait`.
//
// The job is the part that every operator needs in the same form: one condition per type, a transition time that moves
// only when the status does, whole seconds, messages of bounded length (conditions.go); what a Problem makes of
// conditions, and which changes are worth an Event (set.go). An operator says what is true of an object; packages
// apply and events write conditions and Events to the server.
//
// Place on the event path: inside Reconcile. Pure functions on the caller's goroutine; arguments are never changed,
// because old conditions come from the cache and are shared.
package conditions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// Status is the value of a condition.
type Status string

// The three values that the API conventions allow.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
)

// The types that skiff's kinds share. Ready and Progressing are good when true, the others bad.
const (
	Ready       = "Ready"       // everything in the spec was seen to be there
	Progressing = "Progressing" // the cluster is on its way to the spec
	Degraded    = "Degraded"    // something is wrong, and the message says what
	Stalled     = "Stalled"     // there will be no progress until a user changes something
)

// Terminating is the state, and the reason of Ready, of an object that is being deleted, as kubectl says of a pod.
const Terminating = "Terminating"

// Condition is an observation of a custom resource, in the form of the API conventions.
type Condition struct {
	Type               string    `json:"type"`
	Status             Status    `json:"status"`
	ObservedGeneration int64     `json:"observedGeneration"` // of the spec that was observed
	LastTransitionTime time.Time `json:"lastTransitionTime"` // of Status, not of Reason or Message; whole seconds, UTC
	Reason             string    `json:"reason"`             // one CamelCase word for programs
	Message            string    `json:"message"`            // for people; ends with the next step or the next retry
}

// New returns a condition without generation and time.
func New(conditionType string, status bool, reason, message string) Condition {
	c := Condition{Type: conditionType, Status: False, Reason: reason, Message: message}
	if status {
		c.Status = True
	}
	return c
}

// maxMessage bounds a message in bytes. The API allows 32 KiB; but a server's 422 about a large template repeats the
// template, of which the beginning says enough.
const maxMessage = 1024

// Update returns the conditions after an observation of a generation: those of want in their order, then the ones of
// old whose type want does not name. A condition whose status is as before keeps its transition time; any other gets
// now.
func Update(old, want []Condition, generation int64, now time.Time) []Condition {
	out := make([]Condition, 0, max(len(old), len(want)))
	for _, c := range want {
		c.ObservedGeneration = generation
		c.LastTransitionTime = now.UTC().Truncate(time.Second)
		if before, ok := Get(old, c.Type); ok && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
		c.Message = Clip(c.Message)
		out = append(out, c)
	}
	for _, c := range old {
		if _, ok := Get(want, c.Type); !ok {
			out = append(out, c)
		}
	}
	return out
}

// Get returns the condition of a type.
func Get(list []Condition, conditionType string) (Condition, bool) {
	i := slices.IndexFunc(list, func(c Condition) bool { return c.Type == conditionType })
	if i < 0 {
		return Condition{}, false
	}
	return list[i], true
}

// Clip cuts the middle out of a message that is too long: the beginning names the event, and the end the next step.
func Clip(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const gap, tail = " ... ", maxMessage / 4
	head := maxMessage - tail - len(gap)
	return strings.ToValidUTF8(message[:head], "") + gap + strings.ToValidUTF8(message[len(message)-tail:], "")
}

// PausedAnnotation on a custom resource, with a true value, stops skiff from changing anything for the object. The
// status is still written, and a deletion is still carried out: a paused object can always be removed.
const PausedAnnotation = "skiff.dev/paused"

// Paused is the type of the condition for PausedAnnotation, neither good nor bad.
const Paused = "Paused"

// NotABoolean is the reason of Paused where the annotation cannot be understood.
const NotABoolean = "NotABoolean"

// Flag returns the value of a boolean annotation, in any form that strconv.ParseBool accepts; false where the
// annotation is not set. The error names a value that is neither true nor false.
func Flag(annotations kube.Labels, name string) (bool, error) {
	v, ok := annotations.Get(name)
	if !ok {
		return false, nil
	}
	set, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("the annotation %s is %q and has to be \"true\" or \"false\"", name, v)
	}
	return set, nil
}

// IsPaused says whether an object with these annotations is paused.
func IsPaused(annotations kube.Labels) bool {
	paused, _ := Flag(annotations, PausedAnnotation) // PausedFor has the error
	return paused
}

// PausedFor returns the condition Paused for an object with these annotations, without generation and time.
func PausedFor(annotations kube.Labels) Condition {
	switch paused, err := Flag(annotations, PausedAnnotation); {
	case err != nil:
		return Condition{Type: Paused, Status: Unknown, Reason: NotABoolean,
			Message: err.Error() + "; until then changes are made"}
	case paused:
		return New(Paused, true, "Annotated",
			"nothing is changed; remove the annotation "+PausedAnnotation+" to go on")
	}
	return New(Paused, false, "NotAnnotated", "not paused")
}
