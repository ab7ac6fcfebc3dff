package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Set is the conditions of all of skiff's kinds, without generation and time.
type Set struct {
	Ready, Progressing, Degraded, Stalled, Paused Condition

	Terminating bool // the object is being deleted, whatever else is true of it

	Recheck time.Duration // conditions may change after this time although nothing happens; 0: no

	// Problem is why the object is not ready, in the words of the conditions; nil: none is known. A reader without the
	// right to see the object gets the Public part.
	Problem *health.Problem
}

// AsExpected is the reason of Degraded and Stalled where all is well.
const AsExpected = "AsExpected"

// NewSet returns the conditions of an object with nothing wrong. Ready and Progressing are to be filled in.
func NewSet(annotations kube.Labels) Set {
	return Set{
		Degraded: New(Degraded, false, AsExpected, "nothing is wrong"),
		Stalled:  New(Stalled, false, AsExpected, "not stalled"),
		Paused:   PausedFor(annotations),
	}
}

// NotWatched returns the conditions of an object whose namespace cannot be watched, for the reason in why: earlier
// conditions may not be true any more.
func NotWatched(annotations kube.Labels, why string) Set {
	of := func(kind string, status Status) Condition {
		return Condition{Type: kind, Status: status, Reason: "NotWatched",
			Message: "the present state is not known: " + why}
	}
	return Set{Ready: of(Ready, Unknown), Progressing: of(Progressing, Unknown), Degraded: of(Degraded, Unknown),
		Stalled: of(Stalled, True), Paused: PausedFor(annotations)}
}

// TooLarge returns the conditions of an object that skiff leaves alone, because the object or a child takes more
// memory than there is; reason and message name which.
func TooLarge(reason, message string) Set {
	of := func(kind string, status Status) Condition {
		return Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	return Set{Ready: of(Ready, Unknown), Progressing: of(Progressing, Unknown), Degraded: of(Degraded, Unknown),
		Stalled: of(Stalled, True), Paused: of(Paused, Unknown)}
}

// maxFinalizers bounds the finalizers that a message names.
const maxFinalizers = 3

// HeldBy returns the conditions of an object that is being deleted, and that nothing holds but finalizers of others.
func HeldBy(annotations kube.Labels, finalizers []string) Set {
	named := strings.Join(finalizers[:min(len(finalizers), maxFinalizers)], ", ")
	if more := len(finalizers) - maxFinalizers; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	p := Progress{Stuck: true, Problem: health.Problem{Reason: Terminating, Severity: health.Passing,
		Public: "being deleted, and held by finalizers that other controllers have to remove: " + named}}
	set := p.Set()
	set.Paused, set.Terminating = PausedFor(annotations), true
	return set
}

// Report lays a Problem over what was seen; nil changes nothing.
func (s *Set) Report(p *health.Problem) {
	if p == nil {
		return
	}
	s.Problem = p
	s.Ready = New(Ready, false, p.Reason, p.Note())
	if p.Severity != health.Passing {
		s.Degraded = New(Degraded, true, p.Reason, p.Note())
	}
	if p.Severity == health.Stalled {
		s.Stalled = New(Stalled, true, p.Reason, p.Note())
		s.Progressing = New(Progressing, false, p.Reason, p.Note())
	}
}

// Reported returns the conditions of an object whose status is written by others, made of a Problem; one without a
// reason is none.
func Reported(annotations kube.Labels, p health.Problem) []Condition {
	set := NewSet(annotations)
	set.Ready = New(Ready, true, AsExpected, "nothing is wrong")
	set.Progressing = New(Progressing, false, AsExpected, "nothing is under way")
	if p.Reason != "" {
		set.Report(&p)
	}
	return set.After(nil, 0, p.Since)
}

// After returns the conditions of an object that had old; see Update. A message stands in one condition only, because
// `kubectl describe` shows all of the conditions one below the other.
func (s *Set) After(old []Condition, generation int64, now time.Time) []Condition {
	want := []Condition{s.Ready, s.Progressing, s.Degraded, s.Stalled, s.Paused}
	if s.Degraded.Status == True && s.Stalled.Status == False {
		want[3].Message = "not stalled: skiff keeps trying"
	}
	for i := 1; i < len(want); i++ {
		for _, earlier := range want[:i] {
			if earlier.Message == want[i].Message {
				want[i].Message = see(earlier.Type)
				break
			}
		}
	}
	return Update(old, want, generation, now)
}

// see is a message that refers to the condition of another type.
func see(conditionType string) string { return "see the condition " + conditionType }

// Refers says whether the message of a condition refers to another condition of the list, and to which.
func Refers(list []Condition, c Condition) (to Condition, ok bool) {
	i := slices.IndexFunc(list, func(other Condition) bool { return c.Message == see(other.Type) })
	if i < 0 {
		return Condition{}, false
	}
	return list[i], true
}

// Message returns the message of the condition of a type, or of the condition that the message refers to.
func Message(list []Condition, conditionType string) string {
	c, _ := Get(list, conditionType)
	if to, ok := Refers(list, c); ok {
		return to.Message
	}
	return c.Message
}

// State returns one word for all conditions, the column STATUS of `kubectl get`: Terminating, Ready, Progressing, or
// the reason of the worst condition.
func (s *Set) State() string {
	switch {
	case s.Terminating:
		return Terminating
	case s.Stalled.Status == True:
		return s.Stalled.Reason
	case s.Degraded.Status == True:
		return s.Degraded.Reason
	case s.Paused.Status == True:
		return Paused
	case s.Ready.Status == True:
		return Ready
	case s.Progressing.Status == True:
		return Progressing
	}
	return s.Ready.Reason
}

// EventsOf returns the Events for a change of conditions, with Type, Reason and Note: something is wrong, all is well,
// changes are not made any more, or made again. The caller records them where the status was written, so once.
func EventsOf(before, after []Condition) []events.Event {
	turned := func(conditionType string, to Status) (now Condition, was Status, news bool) {
		old, _ := Get(before, conditionType)
		now, _ = Get(after, conditionType)
		return now, old.Status, now.Status == to && (old.Status != to || old.Reason != now.Reason)
	}
	var news []events.Event
	if c, _, ok := turned(Degraded, True); ok {
		news = append(news, events.Event{Type: events.Warning, Reason: c.Reason, Note: Message(after, Degraded)})
	}
	if c, _, ok := turned(Ready, True); ok {
		news = append(news, events.Event{Type: events.Normal, Reason: Ready, Note: c.Message})
	}
	if _, _, ok := turned(Paused, True); ok {
		news = append(news, events.Event{Type: events.Normal, Reason: Paused,
			Note: "nothing is changed until the annotation " + PausedAnnotation + " is removed"})
	}
	if c, _, ok := turned(Paused, Unknown); ok {
		news = append(news, events.Event{Type: events.Warning, Reason: c.Reason, Note: c.Message})
	}
	if _, was, ok := turned(Paused, False); ok && was == True {
		news = append(news, events.Event{Type: events.Normal, Reason: "Resumed", Note: "changes are made again"})
	}
	return news
}
