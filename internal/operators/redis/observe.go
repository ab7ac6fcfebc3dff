package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/controller"
)

// findings are what came of one round.
type findings struct {
	want    *desired            // nil: the spec is not valid, or the Redis is being deleted
	pods    []apply.Result      // of the declared ones, in order
	surplus []apply.Result      // of those that are to go
	problem *conditions.Problem // the first and worst; nil: none
	settled bool                // there is nothing to report: the Redis is gone, or as good as gone
	failed  failure             // the first; it is problem if there is no other
	errs    []error
}

// failure is a failed request about an object of a kind.
type failure struct {
	kind string
	err  error
}

func (f *findings) fail(kind string, err error) {
	if f.failed.err == nil {
		f.failed = failure{kind, err}
	}
	f.errs = append(f.errs, err)
}

// explain makes a problem of what failed. What passes by itself in a moment is none.
func (f *findings) explain(ctx context.Context) {
	if f.failed.err == nil || f.problem != nil {
		return
	}
	if next := controller.NextOf(ctx, errors.Join(f.errs...)); !next.Brief {
		f.problem = conditions.Failed(f.failed.kind, f.failed.err, next.Step, next.Stalled)
	}
}

// problemOf returns the problem that lies in the outcome of the Service, nil if there is none.
func problemOf(o apply.Outcome, message string) *conditions.Problem {
	switch o {
	case apply.Foreign:
		return nameTaken(message)
	case apply.Contested:
		return &conditions.Problem{Reason: "Contested", Message: message + "; find out what does, skiff tries again within a minute"}
	case apply.Held:
		return &conditions.Problem{Reason: conditions.Paused, Message: message + "; remove the annotation " + conditions.PausedAnnotation + " to go on", Passing: true}
	case apply.Waiting:
		return &conditions.Problem{Reason: "Waiting", Message: message + "; skiff looks again every few seconds", Passing: true}
	}
	return nil
}

func nameTaken(message string) *conditions.Problem {
	return &conditions.Problem{Reason: "NameTaken",
		Message: message + "; delete it or give the Redis another name, skiff looks again every minute"}
}

// observe returns the status that follows from what was found, and after which time it may be another one although
// nothing has happened: a pod has then been ready, or not ready, for long enough.
func observe(rd *Redis, f *findings, now time.Time) (Status, time.Duration) {
	s := Status{ObservedGeneration: rd.Generation, Selector: selector(rd.Name)}
	for _, r := range slices.Concat(f.pods, f.surplus) {
		p := podOf(&r)
		if p == nil || r.Outcome == apply.Released {
			continue
		}
		s.Replicas++
		if serves(&r) {
			s.ReadyReplicas++
		}
		if f.want != nil && !r.Deleting && r.Revision == f.want.revision {
			s.UpdatedReplicas++
		}
		s.Members = append(s.Members, Member{Name: p.Name, UID: p.UID, IP: p.Status.PodIP,
			Ready: serves(&r), Revision: r.Revision})
	}
	st := standingOf(rd, f, &s, now)
	set := judge(rd, f, &st)
	s.Conditions = set.After(rd.Status.Conditions, rd.Generation, now)
	return s, st.wait
}

// podOf returns the pod as the cache has it, nil if there is none.
func podOf(r *apply.Result) *pod {
	p, _ := r.Live.(*pod)
	return p
}

// stays says that there is a pod which is not being deleted.
func stays(r *apply.Result) bool { return r.Live != nil && !r.Deleting }

// serves says that the pod answers.
func serves(r *apply.Result) bool {
	if !stays(r) {
		return false
	}
	_, ready := podOf(r).ready()
	return ready
}

// judge returns the conditions, without generation and time.
func judge(rd *Redis, f *findings, st *standing) conditions.Set {
	set := conditions.NewSet(rd.Annotations)
	set.Ready = conditions.New(conditions.Ready, st.done, st.reason, st.message)
	set.Progressing = conditions.New(conditions.Progressing, !st.done && !st.stuck, st.reason, st.message)
	if st.stuck {
		set.Degraded = conditions.New(conditions.Degraded, true, st.reason, st.message)
	}
	if conditions.IsPaused(rd.Annotations) && !rd.Deleting() {
		set.Progressing = conditions.New(conditions.Progressing, false, conditions.Paused, set.Paused.Message)
	}
	set.Report(f.problem)
	return set
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
		return standing{reason: "Unknown", message: "what is wanted is not known; correct the spec"}
	}
	num := int32(f.want.num)
	look := fmt.Sprintf("; look at the pods with `kubectl describe pods -l %s`", selector(rd.Name))
	available, st := examine(f.want, f.pods, now)
	st.message += look
	existing, foreign := int32(0), int32(0)
	for i := range f.pods {
		switch r := &f.pods[i]; {
		case stays(r):
			existing++
		case r.Outcome == apply.Foreign:
			foreign++
		}
	}
	switch {
	case st.stuck:
	case len(f.surplus) > 0:
		st.reason, st.message = "ScalingDown", fmt.Sprintf("%d pods are to go, one at a time", len(f.surplus))
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

// examine counts the pods that are available, and finds the one that stands most in the way: of the wanted revision
// before others, the highest first, which is the order of the roll that it stops.
func examine(d *desired, pods []apply.Result, now time.Time) (available int32, st standing) {
	current := false // st is about a pod of the wanted revision
	for i := range pods {
		r := &pods[i]
		reason, message, wait := "", "", time.Duration(0)
		switch {
		case r.Ending != "":
			reason, message = podEnded, "pod "+r.Key.Name+": "+r.Ending
		case !stays(r):
			continue
		case serves(r):
			if !r.Settling {
				available++
			}
			continue
		default:
			if reason, message, wait = faultOf(podOf(r), now); reason != "" {
				message = "pod " + r.Key.Name + " is not ready: " + join(reason, message)
			}
		}
		st.wait = apply.Earlier(st.wait, wait)
		if isCurrent := r.Live == nil || r.Revision == d.revision; reason != "" && (isCurrent || !current) {
			current = isCurrent
			st.stuck, st.reason, st.message = true, reason, message
		}
	}
	return available, st
}
