package leader

import (
	"testing"
	"time"
)

// wantStanding compares what a process knows of who leads, the times as ages; a negative age is in the future, and
// unset stands for the zero time.
func (p *candidate) wantStanding(when string, leading bool, holder string, renewed, expires, lost time.Duration) {
	p.w.t.Helper()
	got := p.Standing()
	if got.Leading != leading || got.Holder != holder {
		p.w.t.Errorf("%s: leading %v, holder %q, want %v, %q", when, got.Leading, got.Holder, leading, holder)
	}
	for _, at := range []struct {
		what string
		time time.Time
		want time.Duration
	}{{"renewed", got.Renewed, renewed}, {"expires", got.Expires, expires}, {"lost", got.Lost, lost}} {
		age := time.Since(at.time)
		if at.time.IsZero() {
			age = unset
		}
		if age < at.want || age > at.want+DefaultRetryPeriod && at.want != unset {
			p.w.t.Errorf("%s: %s %s ago, want %s and at most a retry period more", when, at.what, age, at.want)
		}
	}
}

const unset = -time.Hour

// Rules: LE-05, LE-10
func TestALeaderThatIsCutOffSaysSinceWhenItDoesNotLeadAndNeverThatItLeads(t *testing.T) {
	run(t, func(w *world) {
		t := w.t
		b := w.new("b", Options{})
		b.wantStanding("before it has seen the lease", false, "", unset, unset, unset)
		a := w.start("a")
		w.wantLeader("a", 0)
		b.start()
		time.Sleep(time.Minute)
		a.wantStanding("the leader", true, "a", 0, -DefaultLeaseDuration, unset)
		b.wantStanding("the standby", false, "a", 0, -DefaultLeaseDuration, unset)

		a.kill()
		b.kill()
		time.Sleep(7 * time.Second)
		a.wantStanding("7 s after the cut", true, "a", 7*time.Second, 7*time.Second-DefaultLeaseDuration, unset)
		time.Sleep(33 * time.Second)
		a.wantStanding("40 s after the cut", false, "a", 40*time.Second, 40*time.Second-DefaultLeaseDuration,
			40*time.Second-DefaultRenewDeadline)
		b.wantStanding("the standby then", false, "a", 40*time.Second, 40*time.Second-DefaultLeaseDuration, unset)
		if c := a.Contact(); time.Since(c.Since) < 38*time.Second {
			t.Errorf("requests have waited for %s (%s, %v), want 40 s", time.Since(c.Since), c.Waiting, c.Err)
		}

		b.pipe.Blackhole(false)
		// The request that is under way now is lost with its connection: it ends after DefaultRenewDeadline, and the
		// next is a retry period later, or two.
		w.wantLeader("b", 2*DefaultLeaseDuration)
		a.pipe.Blackhole(false)
		time.Sleep(2 * DefaultLeaseDuration)
		a.wantStanding("when it is back", false, "b", 0, -DefaultLeaseDuration, unset)
		for _, p := range []*candidate{a, b} {
			if err := p.end(); err != nil {
				t.Error(err)
			}
		}
	})
}
