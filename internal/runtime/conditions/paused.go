package conditions

import (
	"fmt"
	"strconv"

	"skiff/internal/runtime/kube"
)

// PausedAnnotation on a custom resource, with a true value, stops skiff from changing anything for it. What was seen
// is still reported, and a deletion is still carried out: a paused object must not be one that cannot be got rid of.
const PausedAnnotation = "skiff.dev/paused"

// Paused is the type of the condition that shows it. It is neither good nor bad.
const Paused = "Paused"

// NotABoolean is the reason of Paused where the annotation cannot be understood.
const NotABoolean = "NotABoolean"

// Flag returns the value of an annotation that is true or false, in any form that strconv.ParseBool accepts; false
// where it is not set. The error says that it is neither.
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
	paused, _ := Flag(annotations, PausedAnnotation) // PausedFor tells of the error
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
