package redis

import (
	"fmt"
	"time"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/kube"
)

// problem is what keeps a Redis from being what it declares.
type problem struct {
	reason  string
	message string // ends with the next step, or the next retry
	stalled bool   // nothing happens any more until somebody changes something
	passing bool   // it is on its way to being solved, and nobody has to do anything
}

// reportAfter is the number of failures in a row after which a failure that should pass by itself is reported: a few hundred
// milliseconds of backoff, which a restart of the API server's leader takes longer than.
const reportAfter = 6

// fail adds the problem that lies in a failed request about an object of a kind. Its message is the same for each attempt,
// because a new message is a write.
func (f *findings) fail(kind string, err error, attempt int) {
	if f.problem != nil {
		return
	}
	switch {
	case apply.Refused(err):
		f.problem = &problem{reason: kind + "Refused", message: reasonFor(err) + "; correct the Redis", stalled: true}
	case kube.IsTransient(err) && attempt < reportAfter:
	case attempt+1 >= controller.StallAfter:
		f.problem = &problem{reason: kind + "Failed", stalled: true,
			message: reasonFor(err) + "; skiff tries again every few minutes, and at once when the Redis changes"}
	default:
		f.problem = &problem{reason: kind + "Failed", message: reasonFor(err) + "; skiff keeps trying"}
	}
}

// problemOf returns the problem that lies in the outcome of the Service, nil if there is none.
func problemOf(o apply.Outcome, message string) *problem {
	switch o {
	case apply.Foreign:
		return nameTaken(message)
	case apply.Contested:
		return &problem{reason: "Contested", message: message + "; find out what does, skiff tries again within a minute"}
	case apply.Held:
		return &problem{reason: conditions.Paused, message: message + "; remove the annotation " + conditions.PausedAnnotation + " to go on", passing: true}
	case apply.Waiting:
		return &problem{reason: "Waiting", message: message + "; skiff looks again every few seconds", passing: true}
	}
	return nil
}

func nameTaken(message string) *problem {
	return &problem{reason: "NameTaken",
		message: message + "; delete it or give the Redis another name, skiff looks again every minute"}
}

// reasonFor is the server's own text. An error of the connection names ports that differ each time.
func reasonFor(err error) string {
	if s := kube.AsStatus(err); s != nil {
		return s.Error()
	}
	return "the API server cannot be reached"
}

// observe returns the status that follows from what was found, and after which time it may be another one although nothing
// has happened: a pod has then been ready, or not ready, for long enough.
func observe(rd *Redis, f *findings, now time.Time) (Status, time.Duration) {
	s := Status{ObservedGeneration: rd.Generation, Selector: selector(rd.Name)}
	for _, slot := range f.slots {
		if slot.pod == nil {
			continue
		}
		p := slot.pod
		s.Replicas++
		if slot.serves() {
			s.ReadyReplicas++
		}
		if f.want != nil && slot.up() && p.revision() == f.want.revision {
			s.UpdatedReplicas++
		}
		s.Members = append(s.Members, Member{Name: p.Name, UID: p.UID, IP: p.Status.PodIP, Ready: slot.serves(), Revision: p.revision()})
	}
	list, wait := judge(rd, f, &s, now)
	for i := range list {
		list[i].ObservedGeneration = rd.Generation
	}
	s.Conditions = conditions.Update(rd.Status.Conditions, list, now)
	return s, wait
}

// Reasons of conditions where all is well.
const asExpected = "AsExpected"

// judge returns the conditions, without generation and time.
func judge(rd *Redis, f *findings, s *Status, now time.Time) ([]conditions.Condition, time.Duration) {
	st := standingOf(rd, f, s, now)
	ready := condition(conditions.Ready, st.done, st.reason, st.message)
	progressing := condition(conditions.Progressing, !st.done && !st.stuck, st.reason, st.message)
	degraded := condition(conditions.Degraded, false, asExpected, "nothing to do")
	stalled := condition(conditions.Stalled, false, asExpected, "nothing to do")
	if st.stuck {
		degraded = condition(conditions.Degraded, true, st.reason, st.message)
	}
	paused := conditions.PausedFor(rd.Annotations)
	if paused.Status == conditions.True && !rd.Deleting() {
		progressing = condition(conditions.Progressing, false, conditions.Paused, paused.Message)
	}
	if p := f.problem; p != nil {
		ready = condition(conditions.Ready, false, p.reason, p.message)
		if !p.passing {
			degraded = condition(conditions.Degraded, true, p.reason, p.message)
		}
		if p.stalled {
			stalled = condition(conditions.Stalled, true, p.reason, p.message)
			progressing = condition(conditions.Progressing, false, p.reason, p.message)
		}
	}
	return []conditions.Condition{ready, progressing, degraded, stalled, paused}, st.wait
}

func condition(conditionType string, status bool, reason, message string) conditions.Condition {
	return conditions.Condition{Type: conditionType, Status: conditions.Of(status), Reason: reason, Message: message}
}

// standing is how far the pods are.
type standing struct {
	done    bool // all pods are there, of the present template and available, and there are no others
	stuck   bool // a pod that should be ready is not, and that is not a matter of time
	reason  string
	message string
	wait    time.Duration // it may change by itself after this; 0: it does not
}

// standingOf compares the pods with what is wanted.
func standingOf(rd *Redis, f *findings, s *Status, now time.Time) standing {
	if rd.Deleting() {
		return standing{reason: "Deleting", message: fmt.Sprintf("%d pods are left, they go one at a time", s.Replicas)}
	}
	if f.want == nil {
		return standing{reason: "Unknown", message: "what is wanted is not known; correct the Redis"}
	}
	num := int32(f.want.num)
	look := fmt.Sprintf("; look at the pods with `kubectl describe pods -l %s`", selector(rd.Name))
	available, st := examine(f.want, f.slots, now)
	st.message += look
	existing, foreign := int32(0), int32(0)
	for _, slot := range f.slots[:f.want.num] {
		switch {
		case slot.up():
			existing++
		case slot.foreign != "":
			foreign++
		}
	}
	switch {
	case st.stuck:
	case int(s.Replicas) > 0 && len(f.slots) > f.want.num:
		st.reason, st.message = "ScalingDown", fmt.Sprintf("%d pods are to go, one at a time", len(f.slots)-f.want.num)
	case existing+foreign < num:
		st.reason, st.message = "PodsMissing", fmt.Sprintf("%d of %d pods are there", existing, num)
	case s.UpdatedReplicas+foreign < num:
		st.reason, st.message = "RollingOut", fmt.Sprintf("%d of %d pods are of revision %s; the others follow one at a time, the highest first", s.UpdatedReplicas, num, f.want.revision)
	case available+foreign < num:
		st.reason, st.message = "PodsNotReady", fmt.Sprintf("%d of %d pods are available", available, num)+look
	case foreign > 0: // it is somebody else's turn; the problem says whose
		st.stuck, st.reason, st.message = true, "NameTaken", fmt.Sprintf("%d of %d pods are there, the names of the others are taken", existing, num)
	default:
		return standing{done: true, reason: "Complete", message: fmt.Sprintf("%d of %d pods are ready on port %d", num, num, rd.Spec.Port)}
	}
	return st
}

// examine counts the pods that are available, and finds the one that stands most in the way: of the wanted revision before
// others, the highest first, which is the order of the roll that it stops.
func examine(d *desired, slots []*slot, now time.Time) (available int32, st standing) {
	current := false // st is about a pod of the wanted revision
	for _, s := range slots[:d.num] {
		if !s.up() {
			continue
		}
		ok, missing := s.pod.available(d.minReady, now)
		if ok {
			available++
		}
		st.wait = apply.Earlier(st.wait, missing)
		if s.pod.ready() {
			continue
		}
		reason, message, wait := faultOf(s.pod, now)
		st.wait = apply.Earlier(st.wait, wait)
		if isCurrent := s.pod.revision() == d.revision; reason != "" && (isCurrent || !current) {
			current = isCurrent
			st.stuck, st.reason, st.message = true, reason, "pod "+s.name+" is not ready: "+join(reason, message)
		}
	}
	return available, st
}
