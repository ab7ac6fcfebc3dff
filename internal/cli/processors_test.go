package cli

import (
	"runtime"
	"testing"
	"time"
)

func TestTheNumberOfProcessorsFollowsTheLoad(t *testing.T) {
	for _, c := range []struct {
		n, most int
		share   float64
		want    int
	}{
		{8, 8, 0.1, 4}, {3, 8, 0.2, 1}, {1, 8, 0.01, 1},
		{1, 8, 0.9, 2}, {2, 8, 0.9, 4}, {4, 6, 1, 6}, {8, 8, 1, 8}, {1, 1, 1, 1},
		{4, 8, 0.5, 4}, {1, 8, 0.7, 1}, {2, 8, 0.26, 2},
	} {
		if got := fit(c.n, c.most, c.share); got != c.want {
			t.Errorf("%d of %d, %g used: got %d, want %d", c.n, c.most, c.share, got, c.want)
		}
	}
	for n := 1; n < 8; n++ {
		if more := fit(n, 8, busyShare+0.01); fit(more, 8, busyShare*float64(n)/float64(more)) < more {
			t.Errorf("%d processors become %d, and fewer again under the same load", n, more)
		}
	}
}

func TestProcessorsAreGivenUpAtRestAndTakenBackUnderLoad(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	token := new([64]byte) // its finalizer is only run here
	defer runtime.SetFinalizer(token, nil)
	p := &processors{most: 4, asked: time.Now()}
	look := func() int {
		runtime.SetFinalizer(token, nil)
		p.collected(token)
		return runtime.GOMAXPROCS(0)
	}
	look()
	for _, want := range []int{2, 1, 1} {
		p.total -= 1e6 // as if as many seconds had passed with nothing to do
		if got := look(); got != want {
			t.Errorf("at rest: %d processors, want %d", got, want)
		}
	}
	for _, want := range []int{2, 4, 4} {
		p.total, p.used = p.total-1e6, p.used-1e6
		if got := look(); got != want {
			t.Errorf("under load: %d processors, want %d", got, want)
		}
	}
}

func TestGOMAXPROCSInTheEnvironmentWins(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	if fitProcessors() {
		t.Error("GOMAXPROCS is set, and the number of processors follows the load")
	}
}

func TestMoreProcessorsAreUsedWhenTheLimitHasBeenRaised(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	now := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	p := &processors{most: 1} // the limit at the start
	token := new([64]byte)    // its finalizer is only run here
	for want := 1; want < now; {
		want = min(2*want, now)
		p.total, p.used = p.total-1e6, p.used-1e6 // as if as many seconds had passed under load
		p.collected(token)
		runtime.SetFinalizer(token, nil)
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Fatalf("the limit is %d now: %d processors, want %d", now, got, want)
		}
	}
}
