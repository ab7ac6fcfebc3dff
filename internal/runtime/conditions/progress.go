package conditions

import (
	"fmt"
	"time"
)

// Progress is how far an object is on its way to its spec. All of its conditions follow from it, but for what is in
// the way of writing its children (see Set.Report).
type Progress struct {
	Done            bool // all is there that the spec asks for
	Stuck           bool // waiting does not help
	Failed          bool // something is wrong
	Reason, Message string
	Recheck         time.Duration // it may be other after this time although nothing happens; 0: it may not
}

// Set returns the conditions of an object that is so far.
func (p Progress) Set() Set {
	set := NewSet(nil)
	set.Ready = New(Ready, p.Done, p.Reason, p.Message)
	set.Progressing = New(Progressing, !p.Done && !p.Stuck, p.Reason, p.Message)
	if p.Failed {
		set.Degraded = New(Degraded, true, p.Reason, p.Message)
	}
	set.Recheck = p.Recheck
	return set
}

// Rollout is what the status of a workload says of its pods.
type Rollout struct {
	Kind                            string // of the workload: "Deployment"
	Want, Updated, Total, Available int32
	Observed                        bool   // the counts are about the present spec
	Follow, Look                    string // for the user: how to follow the rollout, and how to look at the pods
}

// Progress reads the counts as `kubectl rollout status` does: those of an older spec say nothing.
func (r Rollout) Progress() Progress {
	count := func(n int32, what string) string { return fmt.Sprintf("%d of %d pods are %s", n, r.Want, what) }
	switch {
	case !r.Observed:
		return Progress{Reason: "RollingOut",
			Message: "the " + r.Kind + " controller has not seen the change yet" + r.Follow}
	case r.Updated < r.Want:
		return Progress{Reason: "RollingOut", Message: count(r.Updated, "updated") + r.Follow}
	case r.Total > r.Want:
		return Progress{Reason: "RollingOut", Message: DeletingSurplus(int(r.Total-r.Want)) + r.Follow}
	case r.Available < r.Want:
		return Progress{Reason: "PodsUnavailable", Message: count(r.Available, "available") + r.Look}
	}
	return Progress{Done: true, Reason: "Complete", Message: count(r.Available, "available")}
}

// DeletingSurplus says that surplus pods are being deleted.
func DeletingSurplus(pods int) string {
	if pods == 1 {
		return "deleting 1 surplus pod"
	}
	return fmt.Sprintf("deleting %d surplus pods", pods)
}
