package simulate

import (
	"testing"
	"time"

	"skiff/internal/runtime/patch"
)

// newestOf is the replica set of the present template, named, with all its pods available or not.
func newestOf(replicas, available int) *replicaSet {
	rs := setOf(replicas, available)
	rs.Name = "web-1"
	return rs
}

func progressOf(s deploymentStatus) deploymentCondition {
	c, _ := conditionOf(s.Conditions, progressing)
	return c
}

func TestProgressingReportsEachStageOfARollout(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	d := deploymentOf(3, "1", "0")
	d.Generation = 2
	for _, c := range []struct {
		name           string
		after          time.Duration
		newest, old    *replicaSet
		status, reason string
		updated        time.Duration // since start
	}{
		{"a new replica set", 0, newestOf(1, 0), setOf(3, 3), "True", setCreated, 0},
		{"nothing new", 10 * time.Second, newestOf(1, 0), setOf(3, 3), "True", setCreated, 0},
		{"a pod more", 20 * time.Second, newestOf(1, 1), setOf(3, 3), "True", setUpdated, 20 * time.Second},
		{"an old pod less", 30 * time.Second, newestOf(1, 1), setOf(2, 2), "True", setUpdated, 30 * time.Second},
		{"just before the deadline", 629 * time.Second, newestOf(1, 1), setOf(2, 2), "True",
			setUpdated, 30 * time.Second},
		{"the deadline", 630 * time.Second, newestOf(1, 1), setOf(2, 2), "False", timedOut, 630 * time.Second},
		{"still stuck", 700 * time.Second, newestOf(1, 1), setOf(2, 2), "False", timedOut, 630 * time.Second},
		{"moving again", 800 * time.Second, newestOf(2, 2), setOf(1, 1), "True", setUpdated, 800 * time.Second},
		{"arrived", 900 * time.Second, newestOf(3, 3), setOf(0, 0), "True", setAvailable, 900 * time.Second},
		{"a pod lost", 950 * time.Second, newestOf(3, 2), setOf(0, 0), "True", setAvailable, 900 * time.Second},
		{"a pod lost for long", 9000 * time.Second, newestOf(3, 2), setOf(0, 0), "True",
			setAvailable, 900 * time.Second},
	} {
		s := statusOf(d, c.newest, []*replicaSet{c.old}, start.Add(c.after))
		p := progressOf(s)
		if p.Status != c.status || p.Reason != c.reason {
			t.Errorf("%s: Progressing is %s %s, want %s %s", c.name, p.Status, p.Reason, c.status, c.reason)
		}
		if want := start.Truncate(time.Second).Add(c.updated); !p.LastUpdateTime.Equal(want) {
			t.Errorf("%s: lastUpdateTime is %v, want %v", c.name, p.LastUpdateTime, want)
		}
		if s.ObservedGeneration != 2 {
			t.Errorf("%s: observedGeneration is %d, want 2", c.name, s.ObservedGeneration)
		}
		d.Status = s
	}
}

func TestANewTemplateBeginsANewRolloutAfterAFinishedOne(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := deploymentOf(3, "1", "0")
	d.Status = statusOf(d, newestOf(3, 3), nil, now)
	next := setOf(0, 0)
	next.Name = "web-2"
	p := progressOf(statusOf(d, next, []*replicaSet{newestOf(3, 3)}, now.Add(time.Hour)))
	if p.Reason != setCreated || !p.LastUpdateTime.Equal(now.Add(time.Hour)) || !p.LastTransitionTime.Equal(now) {
		t.Errorf("Progressing is %+v, want %s, updated now and not changed in status", p, setCreated)
	}
}

func TestAvailableCountsWhatMayBeMissing(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		unavailable string
		available   int
		want        string
	}{{"0", 3, "True"}, {"0", 2, "False"}, {"1", 2, "True"}, {"1", 1, "False"}} {
		d := deploymentOf(3, "1", c.unavailable)
		s := statusOf(d, newestOf(3, c.available), nil, now)
		a, _ := conditionOf(s.Conditions, available)
		if a.Status != c.want {
			t.Errorf("with %d of 3 available and %s allowed to miss, Available is %s, want %s", c.available,
				c.unavailable, a.Status, c.want)
		}
		if s.UnavailableReplicas != 3-c.available {
			t.Errorf("unavailableReplicas is %d, want %d", s.UnavailableReplicas, 3-c.available)
		}
	}
}

func TestAnUnchangedStatusIsNotWrittenAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, newest := range []*replicaSet{nil, newestOf(1, 0), newestOf(3, 3)} {
		for _, isPaused := range []bool{false, true} {
			d := deploymentOf(3, "1", "0")
			d.Spec.Paused = isPaused
			d.Status = statusOf(d, newest, nil, now)
			next, was := statusOf(d, newest, nil, now.Add(time.Minute)).object(), d.Status.object()
			if !patch.Equal(next, was) {
				t.Errorf("a minute later the status is %v, was %v", next, was)
			}
		}
	}
}
