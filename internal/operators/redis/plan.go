package redis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// slot is one ordinal, and what is known of the pod under its name.
type slot struct {
	ordinal int
	name    string
	pod     *pod   // nil: there is none of ours
	ending  bool   // pod is being deleted, whether this copy shows it already or not
	foreign string // whose object is in the way; "": nobody's
}

// up says that the slot has a pod which is to stay.
func (s *slot) up() bool { return s.pod != nil && !s.ending }

// serves says that the pod answers.
func (s *slot) serves() bool { return s.up() && s.pod.ready() }

// step is one thing to do next.
type step struct {
	slot   *slot
	reason string // one of those below, for programs; what is done follows from it
	note   string // why, for people
}

// The reasons of steps, and of the Events about them.
const (
	createPod  = "CreatePod"
	deletePod  = "DeletePod"  // there are more than spec.num
	replacePod = "ReplacePod" // it ended
	rollPod    = "RollPod"    // it is of another template
)

// plan returns what to do next about the pods, none if there is nothing to do but to wait. slots must have all ordinals
// below d.num, and every other one that has a pod, in order.
//
// Pods that ended go at once, and missing ones are made at once: neither makes anything worse. What takes away a pod that
// may serve is done one at a time, the highest ordinal first, and each time only when the one before it is gone.
func plan(d *desired, slots []*slot, now time.Time) []step {
	var steps []step
	ending := false
	for _, s := range slots[:d.num] {
		switch {
		case s.foreign != "":
		case s.pod == nil:
			steps = append(steps, step{s, createPod, "of revision " + d.revision})
		case s.ending:
			ending = true
		case s.pod.ended():
			steps = append(steps, step{s, replacePod, "it has ended (" + endOf(s.pod) + ") and will be made again"})
		}
	}
	if surplus := slots[d.num:]; len(surplus) > 0 {
		if last := surplus[len(surplus)-1]; !slices.ContainsFunc(surplus, func(s *slot) bool { return s.ending }) {
			steps = append(steps, step{last, deletePod, fmt.Sprintf("spec.num is %d", d.num)})
		}
		return steps
	}
	if ending || len(steps) > 0 {
		return steps
	}
	if next := nextToRoll(d, slots, now); next != nil {
		return []step{{next, rollPod, fmt.Sprintf("to replace revision %s by %s", next.pod.revision(), d.revision)}}
	}
	return nil
}

// nextToRoll returns the pod that a roll replaces next, nil if there is none or the roll has to wait. All slots have a pod
// or a foreign one. A pod of the wanted revision that is not available stops the roll: the next one would fare no better,
// and this way all others still serve. Where a change of the spec has made that pod an old one, too, it goes first: it is
// of no use to anybody.
func nextToRoll(d *desired, slots []*slot, now time.Time) *slot {
	var next *slot
	for _, s := range slots {
		switch {
		case !s.up():
		case s.pod.revision() == d.revision:
			if ok, _ := s.pod.available(d.minReady, now); !ok {
				return nil
			}
		case next == nil || next.serves() || !s.serves():
			next = s
		}
	}
	return next
}

// planRemoval returns what to do next about the pods of a Redis that is being deleted: the highest goes first, and the next
// one when it is gone.
func planRemoval(slots []*slot) []step {
	left := slices.DeleteFunc(slices.Clone(slots), func(s *slot) bool { return s.pod == nil })
	if len(left) == 0 || slices.ContainsFunc(left, func(s *slot) bool { return s.ending }) {
		return nil
	}
	return []step{{left[len(left)-1], deletePod, "the Redis is being deleted"}}
}

// endOf says how a pod ended.
func endOf(p *pod) string {
	if p.Status.Reason == "" {
		return p.Status.Phase
	}
	return join(p.Status.Reason, p.Status.Message)
}

// join makes "reason: message" of what there is of both.
func join(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// patience is how long a pod may take to become ready before that is reported as a fault. Redis starts within a second;
// pulling an image takes some ten; loading a snapshot of some gigabytes takes about a minute.
const patience = time.Minute

// faultOf says what is wrong with a pod that should be ready and is not: a reason and a text that stay the same as long as
// the fault does. No reason: nothing yet; if it is still not ready after wait, that is a fault.
func faultOf(p *pod, now time.Time) (reason, message string, wait time.Duration) {
	if p.ended() {
		return "PodEnded", endOf(p), 0
	}
	if c := p.condition("PodScheduled"); c.Status == "False" {
		return word(cmp.Or(c.Reason, "Unscheduled")), c.Message, 0
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch w := c.State.Waiting; w.Reason {
		case "", "ContainerCreating", "PodInitializing":
		case "CrashLoopBackOff":
			// The kubelet's own text counts the seconds of the back-off.
			end := c.LastState.Terminated
			return w.Reason, fmt.Sprintf("container %s ended with exit code %d (%s)", c.Name, end.ExitCode, cmp.Or(end.Reason, "Error")), 0
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
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,62}[A-Za-z0-9_])?$`)

// word returns a reason of somebody else's making as one that the API server takes in a condition.
func word(reason string) string {
	if reasonPattern.MatchString(reason) {
		return reason
	}
	return "PodNotReady"
}
