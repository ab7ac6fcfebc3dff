package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

func deploymentOf(replicas int, surge, unavailable string) *workload {
	d := &workload{}
	d.Name, d.UID = "web", "u"
	d.Spec.Replicas = &replicas
	d.Spec.Strategy.RollingUpdate.MaxSurge = kube.Raw(surge)
	d.Spec.Strategy.RollingUpdate.MaxUnavailable = kube.Raw(unavailable)
	return d
}

func setOf(replicas, available int) *replicaSet {
	rs := &replicaSet{workload: &workload{}}
	rs.Spec.Replicas = &replicas
	rs.Status = replicaSetStatus{Replicas: replicas, ReadyReplicas: available, AvailableReplicas: available}
	return rs
}

// simulatedSet is a replica set with its pods, which its status may lag behind.
type simulatedSet struct {
	*replicaSet
	pods, ready int
	broken      bool // no pod ever becomes ready
}

func play(replicas, available int) *simulatedSet {
	return &simulatedSet{replicaSet: setOf(replicas, available), pods: replicas, ready: available}
}

// follow performs one event that is due and reports whether there was one: pods are created and deleted (those that
// are not ready first), one becomes ready, or the status is written.
func (p *simulatedSet) follow(r *rand.Rand) bool {
	status := replicaSetStatus{Replicas: p.pods, ReadyReplicas: p.ready, AvailableReplicas: p.ready}
	resized, started := p.pods == p.replicas(), p.broken || p.ready == p.pods
	written := reflect.DeepEqual(status, p.Status)
	switch i := r.IntN(3); {
	case i == 0 && !resized, started && written && !resized:
		p.pods = p.replicas()
		p.ready = min(p.ready, p.pods)
	case i == 1 && !started, written && !started:
		p.ready++
	case !written:
		p.Status = status
	default:
		return !resized || !started
	}
	return true
}

// modelSets has all replica sets of a deployment, the newest first.
type modelSets []*simulatedSet

func (w modelSets) sets() (newest *replicaSet, old []*replicaSet) {
	for _, p := range w[1:] {
		old = append(old, p.replicaSet)
	}
	return w[0].replicaSet, old
}

func (w modelSets) sum(of func(*simulatedSet) int) (n int) {
	for _, p := range w {
		n += of(p)
	}
	return n
}

// known returns how many pods are known to be ready and remain so after the surplus is deleted. Pods that became ready
// only now may be among the deleted ones.
func (p *simulatedSet) known() int { return min(p.ready, p.Status.AvailableReplicas, p.replicas()) }

func TestARollingUpdateStaysWithinItsBoundsAndArrives(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		want := r.IntN(12)
		d := deploymentOf(want, fmt.Sprint(r.IntN(4)), fmt.Sprint(r.IntN(4)))
		surge, unavailable, err := rollingBounds(d)
		if err != nil {
			t.Fatal(err)
		}
		have := r.IntN(12)
		w := modelSets{play(0, 0), play(have, r.IntN(have+1)), play(r.IntN(3), 0)}
		w[0].broken = r.IntN(4) == 0
		most := max(want+surge, w.sum((*simulatedSet).replicas))
		for round := 0; ; round++ {
			if round > 10_000 {
				t.Fatalf("seed %d: no end", seed)
			}
			newest, old := w.sets()
			s, err := nextStep(d, newest, old)
			if err != nil {
				t.Fatal(err)
			}
			if s != nil && r.IntN(2) == 0 {
				before := w.sum((*simulatedSet).known)
				s.set.Spec.Replicas = &s.to
				if n := w.sum((*simulatedSet).replicas); n > most {
					t.Fatalf("seed %d: %d pods, at most %d are allowed", seed, n, most)
				}
				if n := w.sum((*simulatedSet).known); n < min(before, want-unavailable) {
					t.Fatalf("seed %d: a step to %d leaves %d of %d pods ready, %d may be missing", seed,
						s.to, n, want, unavailable)
				}
				continue
			}
			busy := false
			for _, i := range r.Perm(len(w)) {
				busy = w[i].follow(r) || busy
			}
			if s == nil && !busy {
				break
			}
		}
		left := w[1].replicas() + w[2].replicas()
		if !w[0].broken && (w[0].replicas() != want || left != 0) {
			t.Fatalf("seed %d: ended with %d new and %d old pods, want %d and 0", seed, w[0].replicas(), left, want)
		}
	}
}

func TestABrokenNewRevisionKeepsEnoughOldPods(t *testing.T) {
	d := deploymentOf(4, "1", "1")
	r := rand.New(rand.NewPCG(1, 0))
	w := modelSets{play(0, 0), play(4, 4)}
	w[0].broken = true
	for range 1000 {
		newest, old := w.sets()
		s, err := nextStep(d, newest, old)
		if err != nil {
			t.Fatal(err)
		}
		if s != nil {
			s.set.Spec.Replicas = &s.to
		}
		w[0].follow(r)
		w[1].follow(r)
	}
	if w[1].ready != 3 || w[0].pods != 2 {
		t.Errorf("%d old pods are ready and there are %d new ones, want 3 and 2", w[1].ready, w[0].pods)
	}
}

func TestRecreateStartsNothingBeforeTheOldPodsAreGone(t *testing.T) {
	d := deploymentOf(3, "", "")
	d.Spec.Strategy.Type = "Recreate"
	newest, old := setOf(0, 0), setOf(3, 3)
	if s, _ := nextStep(d, newest, []*replicaSet{old}); s == nil || s.set != old || s.to != 0 {
		t.Fatalf("the first step is %+v, want the old replica set to go to 0", s)
	}
	zero := 0
	old.Spec.Replicas = &zero
	if s, _ := nextStep(d, newest, []*replicaSet{old}); s != nil {
		t.Errorf("with %d old pods there is a step to %d", old.Status.Replicas, s.to)
	}
	old.Status = replicaSetStatus{}
	if s, _ := nextStep(d, newest, []*replicaSet{old}); s == nil || s.set != newest || s.to != 3 {
		t.Errorf("the last step is %+v, want the new replica set to go to 3", s)
	}
}

func TestAPausedDeploymentTakesNoStep(t *testing.T) {
	d := deploymentOf(3, "1", "1")
	d.Spec.Paused = true
	if s, err := nextStep(d, setOf(0, 0), []*replicaSet{setOf(3, 3)}); s != nil || err != nil {
		t.Errorf("nextStep = %+v, %v", s, err)
	}
}

func TestBoundsRoundInTheSafeDirection(t *testing.T) {
	for _, c := range []struct {
		replicas           int
		surge, unavailable string
		wantSurge, wantUn  int
	}{
		{10, `"25%"`, `"25%"`, 3, 2},
		{3, ``, ``, 1, 0},
		{1, `null`, `null`, 1, 0},
		{4, `0`, `0`, 0, 1},
		{3, `2`, `5`, 2, 3},
		{4, `"100%"`, `0`, 4, 0},
	} {
		s, u, err := rollingBounds(deploymentOf(c.replicas, c.surge, c.unavailable))
		if err != nil || s != c.wantSurge || u != c.wantUn {
			t.Errorf("rollingBounds(%d, %s, %s) = %d, %d, %v, want %d, %d", c.replicas, c.surge, c.unavailable, s, u,
				err, c.wantSurge, c.wantUn)
		}
	}
	for _, bad := range []string{`"x"`, `-1`, `"-5%"`, `{}`} {
		if _, _, err := rollingBounds(deploymentOf(3, bad, `1`)); err == nil {
			t.Errorf("maxSurge %s was taken", bad)
		}
	}
}

// newestOf is the replica set of the present template, named, with all its pods available or not.
func newestOf(replicas, available int) *replicaSet {
	rs := setOf(replicas, available)
	rs.Name = "web-1"
	return rs
}

// follow computes the next status of d, which gets it, and returns it as it is sent.
func (w *workload) follow(t *testing.T, newest *replicaSet, old ...*replicaSet) object {
	t.Helper()
	var was deploymentStatus
	err := readStatus(deploymentResource, w, w.Status, &was)
	next := statusOf(w, was, newest, old)
	if err == nil {
		w.Status, err = json.Marshal(next)
	}
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestProgressingReportsEachStageOfARollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
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
			time.Sleep(time.Until(start.Add(c.after)))
			s := d.follow(t, c.newest, c.old)
			wantOf(t, s, "observedGeneration = 2", "conditions 1 status = "+c.status,
				"conditions 1 reason = "+c.reason, "conditions 1 lastUpdateTime = "+wireTime(start.Add(c.updated)))
		}
	})
}

func TestANewTemplateBeginsANewRolloutAfterAFinishedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, start := deploymentOf(3, "1", "0"), wireTime(time.Now())
		d.follow(t, newestOf(3, 3))
		next := setOf(0, 0)
		next.Name = "web-2"
		time.Sleep(time.Hour)
		wantOf(t, d.follow(t, next, newestOf(3, 3)), "conditions 1 reason = "+setCreated,
			"conditions 1 lastUpdateTime = "+wireTime(time.Now()), "conditions 1 lastTransitionTime = "+start)
	})
}

func TestAvailableCountsWhatMayBeMissing(t *testing.T) {
	for _, c := range []struct {
		unavailable string
		available   int
		want        string
	}{{"0", 3, "True"}, {"0", 2, "False"}, {"1", 2, "True"}, {"1", 1, "False"}} {
		d := deploymentOf(3, "1", c.unavailable)
		missing := ""
		if c.available < 3 {
			missing = strconv.Itoa(3 - c.available)
		}
		wantOf(t, d.follow(t, newestOf(3, c.available)), "conditions 0 status = "+c.want,
			"unavailableReplicas = "+missing)
	}
}

func TestAnUnchangedStatusIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, newest := range []*replicaSet{nil, newestOf(1, 0), newestOf(3, 3)} {
			for _, isPaused := range []bool{false, true} {
				d := deploymentOf(3, "1", "0")
				d.Spec.Paused = isPaused
				was := d.follow(t, newest)
				time.Sleep(time.Minute)
				if next := d.follow(t, newest); !patch.Equal(next, was) {
					t.Errorf("a minute later the status is %v, was %v", next, was)
				}
			}
		}
	})
}
