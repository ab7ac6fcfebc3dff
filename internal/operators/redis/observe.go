package redis

import (
	"fmt"
	"slices"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
)

// observe returns the status that follows from what was seen, and how far the pods are.
func observe(rd *Redis, seen operator.Seen, now time.Time) (Status, conditions.Progress) {
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
	s.Ready = fmt.Sprintf("%d/%d", s.ReadyReplicas, len(declared))
	return s, progressOf(rd, declared, surplus, &s, now)
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
	_, ready := podOf(r).Ready()
	return ready
}

// progressOf compares the pods with what is declared.
func progressOf(rd *Redis, declared, surplus []*apply.Result, s *Status, now time.Time) conditions.Progress {
	if rd.Deleting() {
		p := health.Problem{Reason: conditions.Terminating, Severity: health.Passing,
			Public: fmt.Sprintf("deleting pods one at a time, %d left", s.Replicas)}
		if i := slices.IndexFunc(surplus, func(r *apply.Result) bool { return r.Deleting }); i >= 0 {
			p.Public += ", waiting for pod " + surplus[i].Key.Name + " to end"
		}
		return conditions.Progress{Problem: p}
	}
	num := int32(len(declared))
	look := operator.LookAtPods(rd.Namespace, s.Selector)
	available, p := examine(declared, now)
	p.Next = look
	existing, foreign := int32(0), int32(0)
	for _, r := range declared {
		switch {
		case stays(r):
			existing++
		case r.Outcome == apply.Foreign:
			foreign++
		}
	}
	is := func(reason, next, format string, args ...any) {
		p.Problem = health.Problem{Reason: reason, Public: fmt.Sprintf(format, args...), Next: next,
			Severity: health.Passing}
	}
	switch {
	case p.Failed:
	case len(surplus) > 0:
		is("ScalingDown", "", "%s, one at a time", conditions.DeletingSurplus(len(surplus)))
	case existing+foreign < num:
		is("PodsMissing", "", "%d of %d pods are there", existing, num)
	case s.UpdatedReplicas+foreign < num:
		is("RollingOut", "the others follow one at a time, the highest first", "%d of %d pods are of revision %s",
			s.UpdatedReplicas, num, declared[0].Declared)
	case available+foreign < num:
		is("PodsNotReady", look, "%d of %d pods are available", available, num)
	case foreign > 0:
		p.Failed, p.Stuck = true, true
		is("NameTaken", "", "%d of %d pods are there, the names of the others are taken", existing, num)
	default:
		p = conditions.Progress{Done: true}
		is("Complete", "", "%d of %d pods are ready on port %d", num, num, rd.Spec.Port)
	}
	return p
}

// examine counts the pods that are available, and finds the one that stands most in the way: of the declared revision
// before others, the highest first, which is the order of the roll that it stops.
func examine(declared []*apply.Result, now time.Time) (available int32, p conditions.Progress) {
	newest := false // p is about a pod of the declared revision
	for _, r := range declared {
		var fault health.Problem
		var wait time.Duration
		switch {
		case r.Ending != "":
			fault = health.Problem{Reason: operator.PodEnded, Quoted: r.Ending, Public: fmt.Sprintf("pod %s keeps "+
				"ending, and the next one is created after a pause of %s", r.Key.Name, r.Pause)}
		case !stays(r):
			continue
		case serves(r):
			if !r.WaitsMinReady {
				available++
			}
			continue
		default:
			if fault.Reason, fault.Quoted, wait = operator.FaultOf(podOf(r), now); fault.Reason != "" {
				fault.Public = "pod " + r.Key.Name + " is not ready: " + fault.Reason
			}
		}
		p.Recheck = apply.Earlier(p.Recheck, wait)
		if ours := r.Live == nil || r.Revision == r.Declared; fault.Reason != "" && (ours || !newest) {
			newest = ours
			p.Failed, p.Stuck, p.Problem = true, true, fault
		}
	}
	return available, p
}
