package conditions

import (
	"fmt"
	"time"

	"skiff/internal/runtime/health"
)

// Progress is how far an object is on the way to its spec. All conditions follow from Progress, except for what is in
// the way of writing children (see Set.Report).
type Progress struct {
	Done           bool          // everything in the spec is there
	Stuck          bool          // waiting does not help
	Failed         bool          // something is wrong
	health.Problem               // what is missing; of Done, the state in words
	Recheck        time.Duration // Progress may change after this time although nothing happens; 0: no
}

// Set returns the conditions of an object that is so far.
func (p Progress) Set() Set {
	set := NewSet(nil)
	note := p.Note()
	set.Ready = New(Ready, p.Done, p.Reason, note)
	set.Progressing = New(Progressing, !p.Done && !p.Stuck, p.Reason, note)
	if p.Failed {
		set.Degraded = New(Degraded, true, p.Reason, note)
	}
	if !p.Done {
		why := p.Problem // not &p.Problem, which would allocate for each object that is done, too
		set.Problem = &why
	}
	set.Recheck = p.Recheck
	return set
}

// Rollout is the pod counts in the status of a workload.
type Rollout struct {
	Kind                            string // of the workload: "Deployment"
	Want, Updated, Total, Available int32
	Observed                        bool   // the counts are about the present spec
	Follow, Look                    string // next steps: to follow the rollout, and to look at the pods
}

// Progress reads the counts as `kubectl rollout status` does: those of an older spec say nothing.
func (r Rollout) Progress() Progress {
	of := func(reason, step, format string, args ...any) Progress {
		return Progress{Problem: health.Problem{Reason: reason, Public: fmt.Sprintf(format, args...), Next: step,
			Severity: health.Passing}}
	}
	switch {
	case !r.Observed:
		return of("RollingOut", r.Follow, "the %s controller has not seen the change yet", r.Kind)
	case r.Updated < r.Want:
		return of("RollingOut", r.Follow, "%d of %d pods are updated", r.Updated, r.Want)
	case r.Total > r.Want:
		return of("RollingOut", r.Follow, "%s", DeletingSurplus(int(r.Total-r.Want)))
	case r.Available < r.Want:
		return of("PodsUnavailable", r.Look, "%d of %d pods are available", r.Available, r.Want)
	}
	p := of("Complete", "", "%d of %d pods are available", r.Available, r.Want)
	p.Done = true
	return p
}

// DeletingSurplus says that surplus pods are being deleted.
func DeletingSurplus(pods int) string {
	return "deleting " + health.Count(pods, "surplus pod", "surplus pods")
}
