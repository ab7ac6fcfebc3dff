package redis

import (
	"fmt"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
)

// observe returns the status and the conditions that follow from what was seen.
func observe(rd *Redis, seen operator.Seen, now time.Time) (Status, conditions.Set) {
	s := Status{Selector: operator.Selector(app, rd.Name)}
	var declared, surplus []*apply.Result // of the pods
	for i := range seen {
		switch r := &seen[i]; {
		case r.Resource != pods || r.Outcome == apply.Released:
		case r.Declared != "":
			declared = append(declared, r)
		default:
			surplus = append(surplus, r)
		}
	}
	for _, r := range append(declared[:len(declared):len(declared)], surplus...) {
		p := podOf(r)
		if p == nil {
			continue
		}
		s.Replicas++
		if serves(r) {
			s.ReadyReplicas++
		}
		if current(r) {
			s.UpdatedReplicas++
		}
		s.Members = append(s.Members,
			Member{Name: p.Name, UID: p.UID, IP: p.Status.PodIP, Ready: serves(r), Revision: r.Revision})
	}
	st := standingOf(rd, declared, surplus, &s, now)
	set := judge(rd, &st)
	set.Recheck = st.wait
	return s, set
}

// podOf returns the pod as the cache has it, nil if there is none.
func podOf(r *apply.Result) *pod {
	p, _ := r.Live.(*pod)
	return p
}

// stays says that there is a pod which is not being deleted.
func stays(r *apply.Result) bool { return r.Live != nil && !r.Deleting }

// current says that there is a pod of the declared revision.
func current(r *apply.Result) bool { return stays(r) && r.Revision == r.Declared }

// serves says that the pod answers.
func serves(r *apply.Result) bool {
	if !stays(r) {
		return false
	}
	_, ready := podOf(r).ready()
	return ready
}

// judge returns the conditions, without generation and time.
func judge(rd *Redis, st *standing) conditions.Set {
	set := conditions.NewSet(rd.Annotations)
	set.Ready = conditions.New(conditions.Ready, st.done, st.reason, st.message)
	set.Progressing = conditions.New(conditions.Progressing, !st.done && !st.stuck, st.reason, st.message)
	if st.stuck {
		set.Degraded = conditions.New(conditions.Degraded, true, st.reason, st.message)
	}
	if conditions.IsPaused(rd.Annotations) && !rd.Deleting() {
		set.Progressing = conditions.New(conditions.Progressing, false, conditions.Paused, set.Paused.Message)
	}
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

// standingOf compares the pods with what is declared.
func standingOf(rd *Redis, declared, surplus []*apply.Result, s *Status, now time.Time) standing {
	if rd.Deleting() {
		return standing{reason: "Deleting",
			message: fmt.Sprintf("deleting pods one at a time, %d left", s.Replicas)}
	}
	num := int32(len(declared))
	look := fmt.Sprintf("; look at the pods with `kubectl describe pods -l %s`", s.Selector)
	available, st := examine(declared, now)
	st.message += look
	existing, foreign := int32(0), int32(0)
	for _, r := range declared {
		switch {
		case stays(r):
			existing++
		case r.Outcome == apply.Foreign:
			foreign++
		}
	}
	switch {
	case st.stuck:
	case len(surplus) > 0:
		st.reason, st.message = "ScalingDown", operator.DeletingSurplus(len(surplus))+", one at a time"
	case existing+foreign < num:
		st.reason, st.message = "PodsMissing", fmt.Sprintf("%d of %d pods are there", existing, num)
	case s.UpdatedReplicas+foreign < num:
		st.reason = "RollingOut"
		st.message = fmt.Sprintf("%d of %d pods are of revision %s; "+
			"the others follow one at a time, the highest first", s.UpdatedReplicas, num, declared[0].Declared)
	case available+foreign < num:
		st.reason, st.message = "PodsNotReady", fmt.Sprintf("%d of %d pods are available", available, num)+look
	case foreign > 0:
		st.stuck, st.reason = true, "NameTaken"
		st.message = fmt.Sprintf("%d of %d pods are there, the names of the others are taken", existing, num)
	default:
		return standing{done: true, reason: "Complete",
			message: fmt.Sprintf("%d of %d pods are ready on port %d", num, num, rd.Spec.Port)}
	}
	return st
}

// examine counts the pods that are available, and finds the one that stands most in the way: of the declared revision
// before others, the highest first, which is the order of the roll that it stops.
func examine(declared []*apply.Result, now time.Time) (available int32, st standing) {
	newest := false // st is about a pod of the declared revision
	for _, r := range declared {
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
		if ours := r.Live == nil || r.Revision == r.Declared; reason != "" && (ours || !newest) {
			newest = ours
			st.stuck, st.reason, st.message = true, reason, message
		}
	}
	return available, st
}
