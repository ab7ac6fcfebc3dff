package conditions

import "skiff/internal/kube"

// PausedAnnotation on a custom resource, with the value "true", stops skiff from changing anything for it. What was seen
// is still reported, and a deletion is still carried out: a paused object must not be one that cannot be got rid of.
const PausedAnnotation = "skiff.dev/paused"

// Paused is the type of the condition that shows it. It is neither good nor bad.
const Paused = "Paused"

// IsPaused says whether an object with these annotations is paused.
func IsPaused(annotations kube.Labels) bool {
	v, _ := annotations.Get(PausedAnnotation)
	return v == "true"
}

// PausedFor returns the condition Paused for an object with these annotations, without generation and time.
func PausedFor(annotations kube.Labels) Condition {
	if IsPaused(annotations) {
		return New(Paused, true, "Annotated", "nothing is changed; remove the annotation "+PausedAnnotation+" to go on")
	}
	return New(Paused, false, "NotAnnotated", "set the annotation "+PausedAnnotation+": \"true\" to keep skiff from changing anything")
}
