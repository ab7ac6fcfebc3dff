package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"skiff/internal/kube"
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
	rs := &replicaSet{}
	rs.Spec.Replicas = &replicas
	rs.Status = replicaSetStatus{Replicas: replicas, ReadyReplicas: available, AvailableReplicas: available}
	return rs
}

// world is the newest replica set and the old ones, whose pods come and go in random order.
type world struct {
	newest *replicaSet
	old    []*replicaSet
	broken bool // pods of the newest never become available
}

func (w *world) sets() []*replicaSet { return append([]*replicaSet{w.newest}, w.old...) }

func (w *world) available() (n int) {
	for _, rs := range w.sets() {
		n += rs.Status.AvailableReplicas
	}
	return n
}

// apply resizes a replica set and lets its pods follow: those that go are the ones that are not available.
func (w *world) apply(s *step) {
	s.set.Spec.Replicas = &s.to
	s.set.Status.Replicas = s.to
	s.set.Status.AvailableReplicas = min(s.set.Status.AvailableReplicas, s.to)
}

// settle makes one more pod available and says whether there was one.
func (w *world) settle() bool {
	for _, rs := range w.sets() {
		if rs == w.newest && w.broken {
			continue
		}
		if rs.Status.AvailableReplicas < rs.replicas() {
			rs.Status.AvailableReplicas++
			return true
		}
	}
	return false
}

func TestARollingUpdateStaysWithinItsBoundsAndArrives(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		want, surge, unavailable := r.IntN(12), r.IntN(4), r.IntN(4)
		d := deploymentOf(want, fmt.Sprint(surge), fmt.Sprint(unavailable))
		surge, unavailable, err := rollingBounds(d)
		if err != nil {
			t.Fatal(err)
		}
		have := r.IntN(12)
		w := &world{newest: setOf(0, 0), old: []*replicaSet{setOf(have, r.IntN(have+1)), setOf(r.IntN(3), 0)}, broken: r.IntN(4) == 0}
		most := max(want+surge, sumReplicas(w.sets()))
		for turn := 0; ; turn++ {
			if turn > 1000 {
				t.Fatalf("seed %d: no end after %d turns: %+v", seed, turn, w)
			}
			s, err := nextStep(d, w.newest, w.old)
			if err != nil {
				t.Fatal(err)
			}
			if s == nil {
				if w.settle() {
					continue
				}
				break
			}
			before := w.available()
			w.apply(s)
			if n := sumReplicas(w.sets()); n > most {
				t.Fatalf("seed %d: %d pods, at most %d are allowed", seed, n, most)
			}
			if n := w.available(); n < min(before, want-unavailable) {
				t.Fatalf("seed %d: a step to %d left %d of %d pods available, %d may be missing", seed, s.to, n, want, unavailable)
			}
			if r.IntN(2) == 0 {
				w.settle()
			}
		}
		if !w.broken && (w.newest.replicas() != want || sumReplicas(w.old) != 0) {
			t.Fatalf("seed %d: ended with %d new and %d old pods, want %d and 0", seed, w.newest.replicas(), sumReplicas(w.old), want)
		}
	}
}

func TestABrokenNewRevisionLeavesEnoughOldPodsAlone(t *testing.T) {
	d := deploymentOf(4, "1", "1")
	w := &world{newest: setOf(0, 0), old: []*replicaSet{setOf(4, 4)}, broken: true}
	for s, err := nextStep(d, w.newest, w.old); s != nil || err != nil; s, err = nextStep(d, w.newest, w.old) {
		if err != nil {
			t.Fatal(err)
		}
		w.apply(s)
	}
	if w.available() != 3 || w.newest.replicas() != 2 {
		t.Errorf("%d pods are available and %d are new, want 3 and 2", w.available(), w.newest.replicas())
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
			t.Errorf("rollingBounds(%d, %s, %s) = %d, %d, %v, want %d, %d", c.replicas, c.surge, c.unavailable, s, u, err, c.wantSurge, c.wantUn)
		}
	}
	for _, bad := range []string{`"x"`, `-1`, `"-5%"`, `{}`} {
		if _, _, err := rollingBounds(deploymentOf(3, bad, `1`)); err == nil {
			t.Errorf("maxSurge %s was taken", bad)
		}
	}
}
