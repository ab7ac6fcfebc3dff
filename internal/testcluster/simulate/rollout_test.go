package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"skiff/internal/runtime/kube"
)

func deploymentOf(replicas int, surge, unavailable string) *deployment {
	d := &deployment{}
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
	resized, started, told := p.pods == p.replicas(), p.broken || p.ready == p.pods, status == p.Status
	switch i := r.IntN(3); {
	case i == 0 && !resized, started && told && !resized:
		p.pods = p.replicas()
		p.ready = min(p.ready, p.pods)
	case i == 1 && !started, told && !started:
		p.ready++
	case !told:
		p.Status = status
	default:
		return !resized || !started
	}
	return true
}

// setWorld has all replica sets of a deployment, the newest first.
type setWorld []*simulatedSet

func (w setWorld) sets() (newest *replicaSet, old []*replicaSet) {
	for _, p := range w[1:] {
		old = append(old, p.replicaSet)
	}
	return w[0].replicaSet, old
}

func (w setWorld) sum(of func(*simulatedSet) int) (n int) {
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
		w := setWorld{play(0, 0), play(have, r.IntN(have+1)), play(r.IntN(3), 0)}
		w[0].broken = r.IntN(4) == 0
		most := max(want+surge, w.sum((*simulatedSet).replicas))
		for turn := 0; ; turn++ {
			if turn > 10_000 {
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
	w := setWorld{play(0, 0), play(4, 4)}
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
