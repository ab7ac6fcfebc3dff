package leader

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// Rules: LE-06, LE-07, LE-08
func TestAStoppedLeaderIsReplacedWithinASecond(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.start("b")
		time.Sleep(time.Minute)
		if w.leader() != "a" {
			t.Errorf("%q leads, want the first", w.leader())
		}
		a.linger = 20 * time.Second // the work of a leader that drains; the lease is renewed meanwhile
		stopped := time.Now()
		if err := a.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(stopped); took != a.linger {
			t.Errorf("a ended after %s, its work after %s", took, a.linger)
		}
		w.wantLeader("b", time.Second)
		if err := b.end(); err != nil {
			t.Error(err)
		}
		spec := w.spec()
		if spec["holderIdentity"] != "" ||
			spec["leaseDurationSeconds"] != int64(1) && spec["leaseDurationSeconds"] != 1.0 {
			t.Errorf("after a release the lease is %v", spec)
		}
	})
}

// Rules: LE-01, LE-02, LE-05
func TestAKilledLeaderIsReplacedWhenItsLeaseHasExpired(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.start("a"), w.new("b", Options{})
		w.wantLeader("a", 0)
		b.start()
		time.Sleep(time.Minute)
		killed := time.Now()
		a.kill()
		w.wantLeader("", DefaultRenewDeadline)
		if err := a.Held(); err == nil {
			t.Error("the old leader thinks that it leads")
		}
		w.wantLeader("b", DefaultLeaseDuration+2*time.Second-time.Since(killed))
		a.pipe.Blackhole(false)
		time.Sleep(time.Minute)
		if w.leader() != "b" || a.Leading() {
			t.Errorf("%q leads after a is back", w.leader())
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
		w.wantLeader("a", time.Second) // in the same process, as if nothing had happened
		a.end()
	})
}

// Rules: LE-01
func TestTheClockOfTheHolderDoesNotMatter(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		run(t, func(w *world) {
			renewed := func() string { return time.Now().Add(skew).UTC().Format(microTime) }
			w.create(map[string]any{"holderIdentity": "other", "leaseDurationSeconds": 7, "renewTime": renewed()})
			a := w.start("a")
			for range 20 {
				time.Sleep(6900 * time.Millisecond)
				if w.leader() != "" {
					t.Fatal("a lease that is renewed in time was taken")
				}
				w.patch(map[string]any{"spec": map[string]any{"renewTime": renewed()}})
			}
			w.patch(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}) // no renewal
			time.Sleep(6900 * time.Millisecond)
			if w.leader() != "" {
				t.Fatal("taken too early")
			}
			w.wantLeader("a", time.Second)
			a.end()
		})
	}
}

// Rules: LE-02, LE-05
func TestALeaderWhoseAnswersAreLateStopsBeforeOthersMayBegin(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.start("b")
		time.Sleep(time.Minute)
		// The renewals arrive, and b sees each of them; but a does not know, and must not count on it.
		remove := w.api.Inject(apiserver.Fault{UserAgent: "a", Verb: "patch", AnswerDelay: 5 * time.Second})
		time.Sleep(DefaultRenewDeadline)
		w.wantLeader("", 0)
		if a.Leading() {
			t.Error("a leads on without an answer")
		}
		remove()
		w.wantLeader("a", DefaultLeaseDuration) // nobody else: the lease is a's own
		a.end()
		b.end()
	})
}

// Rules: LE-02
func TestTheTimeOfALeaderCountsFromWhenItSentTheRenewal(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		w.api.Inject(apiserver.Fault{UserAgent: "a", Verb: "patch", AnswerDelay: 1900 * time.Millisecond})
		time.Sleep(time.Minute)
		a.kill()
		w.wantLeader("", DefaultRenewDeadline)
		var sent time.Time
		for _, r := range w.api.Requests() {
			if r.Method == http.MethodPatch && r.Status == http.StatusOK {
				sent = r.Time
			}
		}
		if worked := w.last().to.Sub(sent); worked > DefaultRenewDeadline {
			t.Errorf("it led for %s after the server had its last renewal, want %s at most", worked,
				DefaultRenewDeadline)
		}
		a.pipe.Blackhole(false)
		a.end()
	})
}

// Rules: LE-03, LE-12
func TestDurationsWithWhichTwoCouldLeadAreRefused(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		lease, renew, retry time.Duration
		say                 string
	}{
		{0, 0, 0, ""},
		{15 * s, 10 * s, 2 * s, ""},
		{60 * s, 40 * s, 5 * s, ""},
		{15 * s, 14 * s, 2 * s, "LeaseDuration 15s: must be more than 18.4s (the renew deadline of " +
			"14s and 4.4s for a retry and its request): otherwise two processes could lead at once"},
		{10 * s, 10 * s, 2 * s, "LeaseDuration 10s: must be more than 14.4s (the renew deadline of " +
			"10s and 4.4s for a retry and its request): otherwise two processes could lead at once"},
		{1500 * time.Millisecond, s, s / 10, "LeaseDuration 1.5s: want whole seconds, at least 1s"},
		{s / 2, s / 4, s / 10, "LeaseDuration 500ms: want whole seconds, at least 1s"},
		{-s, 10 * s, 2 * s, "LeaseDuration -1s: want whole seconds, at least 1s"},
		{25 * time.Hour, 10 * s, 2 * s, "LeaseDuration 25h0m0s: want at most 24h0m0s"},
		{15 * s, 2 * s, 2 * s, "RenewDeadline 2s: must be more than 1.2 times the retry period of 2s"},
		{15 * s, -s, 2 * s, "RenewDeadline -1s: must be more than 1.2 times the retry period of 2s"},
		{15 * s, 10 * s, -s, "RetryPeriod -1s: must be more than 0"},
	} {
		_, err := New(Options{Namespace: "n", Name: "l", LeaseDuration: tt.lease, RenewDeadline: tt.renew,
			RetryPeriod: tt.retry})
		if tt.say == "" && err != nil || tt.say != "" && (err == nil || err.Error() != tt.say) {
			t.Errorf("%s %s %s: error %v\nwant %s", tt.lease, tt.renew, tt.retry, err, tt.say)
		}
	}
	_, err := New(Options{Namespace: "n"})
	if err == nil || !strings.Contains(err.Error(), "needs the namespace and the name of a lease") {
		t.Errorf("error %v", err)
	}
}

// Rules: LE-11
func TestNoTwoProcessesHaveTheSameIdentity(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		e, err := New(Options{Namespace: "n", Name: "l", Log: logr.Discard()})
		if err != nil || seen[e.o.Identity] {
			t.Fatalf("identity %q again, or error %v", e.o.Identity, err)
		}
		seen[e.o.Identity] = true
	}
}

// Rules: LE-04, LE-13
func TestOneOfManyWinsEachTimeAndTheyDoNotAskAtOnce(t *testing.T) {
	run(t, func(w *world) {
		w.create(map[string]any{"holderIdentity": "other", "leaseDurationSeconds": 3600, "renewTime": now()})
		var all []*candidate
		for i := range 100 {
			all = append(all, w.start(strings.Repeat("x", i%10)+string(rune('a'+i/10))))
		}
		time.Sleep(time.Minute)
		w.api.ForgetRequests()
		w.patch(map[string]any{"spec": map[string]any{"holderIdentity": ""}})
		time.Sleep(2 * time.Second)
		if w.leader() == "" {
			t.Fatal("nobody leads")
		}
		moments := map[time.Time]int{}
		for _, r := range w.api.Requests() {
			if r.Method == http.MethodGet && !r.Watch() {
				moments[r.Time.Truncate(10*time.Millisecond)]++
			}
		}
		for at, n := range moments {
			if n > 30 {
				t.Errorf("%d of 100 candidates asked within 10 ms, at %s", n, at)
			}
		}
		for _, p := range all {
			p.end()
		}
	})
}

// Rules: LE-12, LE-15
func TestALeaseKeepsWhatOthersHaveWrittenAndCountsTransitions(t *testing.T) {
	run(t, func(w *world) {
		w.create(map[string]any{"holderIdentity": "", "leaseTransitions": 4, "strategy": "OldestEmulationVersion"})
		a := w.start("a")
		w.wantLeader("a", time.Second)
		first := w.spec()
		if first["strategy"] != "OldestEmulationVersion" || first["acquireTime"] != first["renewTime"] ||
			first["acquireTime"] != time.Now().UTC().Format(microTime) {
			t.Errorf("the lease is %v at %s", first, now())
		}
		w.patch(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}})
		time.Sleep(time.Minute)
		second := w.spec()
		if w.leader() != "a" || len(w.terms) != 1 {
			t.Errorf("an annotation cost the lease: %v", w.terms)
		}
		if second["acquireTime"] != first["acquireTime"] || second["renewTime"] == first["renewTime"] {
			t.Errorf("after a minute the lease is %v, it was %v", second, first)
		}
		for _, spec := range []map[string]any{first, second} {
			if n := spec["leaseTransitions"]; n != int64(5) && n != 5.0 {
				t.Errorf("transitions: %v, want 5", n)
			}
		}
		a.end()
	})
}

// Rules: LE-14
func TestADeletedLeaseIsMadeAgainByItsHolderAndTakenByNobodyElse(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.start("b")
		for range 5 {
			time.Sleep(7 * time.Second)
			w.delete()
			time.Sleep(3 * time.Second)
			if w.leader() != "a" || w.spec()["holderIdentity"] != "a" {
				t.Errorf("%q leads, lease %v", w.leader(), w.spec())
			}
		}
		w.delete()
		a.kill() // and it cannot be made again
		w.wantLeader("b", DefaultLeaseDuration+2*time.Second)
		a.pipe.Blackhole(false)
		b.end()
		a.end()
	})
}

// Rules: LE-15
func TestALeaderMakesRoomForThePreferredHolder(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.start("b")
		time.Sleep(time.Minute)
		w.patch(map[string]any{"spec": map[string]any{"preferredHolder": "b", "strategy": "OldestEmulationVersion"}})
		w.wantLeader("b", 2*DefaultRetryPeriod+time.Second)
		time.Sleep(time.Minute)
		w.patch(map[string]any{"spec": map[string]any{"preferredHolder": "nobody"}})
		time.Sleep(DefaultLeaseDuration)
		w.wantLeader("", 0)
		time.Sleep(DefaultLeaseDuration) // it did not come
		if w.leader() == "" {
			t.Error("nobody leads")
		}
		a.end()
		b.end()
	})
}

// Rules: LE-07
func TestALeaseThatAnotherHoldsIsNotReleased(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		time.Sleep(time.Second)
		w.patch(map[string]any{"spec": map[string]any{"holderIdentity": "other"}})
		if err := a.end(); err != nil {
			t.Error(err)
		}
		if got := w.spec()["holderIdentity"]; got != "other" {
			t.Errorf("the holder is %q", got)
		}
	})
}

// Rules: LE-07
func TestAReleaseThatFailsIsToldAndBounded(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		a.kill()
		began := time.Now()
		err := a.end()
		if err == nil || !strings.HasPrefix(err.Error(), "release lease default/skiff: ") ||
			!strings.HasSuffix(err.Error(), "; the next leader waits until it expires") ||
			time.Since(began) > releaseTimeout {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
	})
}

// Rules: LE-05
func TestAnotherHolderEndsTheWorkAtTheNextRenewal(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		w.patch(map[string]any{"spec": map[string]any{"holderIdentity": "other", "renewTime": now()}})
		w.wantLeader("", DefaultRetryPeriod)
		w.wantLeader("a", DefaultLeaseDuration+time.Second) // the other does not renew it
		a.end()
	})
}

// Rules: LE-10, LE-16
func TestWorkThatDoesNotEndFailsTheCheckAndIsNotStartedTwice(t *testing.T) {
	run(t, func(w *world) {
		a := w.new("a", Options{})
		a.stuck = make(chan struct{})
		a.start()
		w.wantLeader("a", 0)
		time.Sleep(time.Minute)
		if a.Check() != nil || a.Held() != nil {
			t.Errorf("a healthy leader: %v, %v", a.Check(), a.Held())
		}
		synctest.Wait() // for the renewal of this very moment
		a.mu.Lock()
		sent := a.sent
		a.mu.Unlock()
		a.kill()
		time.Sleep(time.Until(sent.Add(DefaultRenewDeadline - time.Millisecond)))
		if a.Held() != nil {
			t.Error(a.Held())
		}
		time.Sleep(time.Millisecond)
		if err := a.Held(); err == nil || err.Error() != "this process does not lead any more: it renewed the "+
			"lease 10s ago" {
			t.Errorf("at the deadline: %v", err)
		}
		synctest.Wait() // for the end of the renewal that got no answer, which is due at this very moment
		a.pipe.Blackhole(false)
		time.Sleep(DefaultLeaseDuration + lateTolerance - DefaultRenewDeadline)
		if a.Check() != nil {
			t.Error(a.Check())
		}
		time.Sleep(time.Second)
		if err := a.Check(); err == nil || err.Error() != "lease default/skiff was renewed 36s ago, and the "+
			"work of the leader has not ended" {
			t.Errorf("check: %v", err)
		}
		if len(w.terms) != 1 {
			t.Errorf("terms: %v", w.terms)
		}
		close(a.stuck)
		w.wantLeader("a", time.Second)
		if a.Check() != nil {
			t.Error(a.Check())
		}
		a.end()
	})
}

func TestAStandbyThatMayNotWatchAsksEveryFewSeconds(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		w.api.Inject(apiserver.Fault{UserAgent: "b", Verb: "watch", Reply: &apiserver.Reply{Code: 403,
			Reason: "Forbidden", Message: "no"}})
		b := w.start("b")
		w.api.ForgetRequests()
		time.Sleep(time.Minute)
		n := 0
		for _, r := range w.api.Requests() {
			if r.UserAgent == "b" {
				n++
			}
		}
		if n > 65 {
			t.Errorf("%d requests of the standby in a minute", n)
		}
		a.end()
		w.wantLeader("b", DefaultRetryPeriod*13/10)
		b.end()
	})
}

func TestAStandbySendsOnlyItsWatch(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.start("b")
		time.Sleep(time.Minute)
		w.api.ForgetRequests()
		time.Sleep(10 * time.Minute)
		for _, r := range w.api.Requests() {
			if r.UserAgent == "b" {
				t.Errorf("the standby sent %s %s", r.Method, r.Path)
			}
		}
		b.end()
		a.end()
	})
}

// Rules: LE-18
func TestRenewalsDoNotWaitBehindAThousandWrites(t *testing.T) {
	run(t, func(w *world) {
		work, done := w.somebody()
		defer done()
		// the writes stay where they are
		w.api.Inject(apiserver.Fault{Resource: "configmaps", Cut: apiserver.Blackhole})
		ctx, stop := context.WithCancel(w.t.Context())
		var writers sync.WaitGroup
		for i := range 1000 {
			writers.Go(func() {
				_ = work.Patch(ctx, kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"},
					kube.Key{Namespace: "default", Name: fmt.Sprint(i)}, kube.MergePatch, map[string]any{}, nil,
					kube.WriteOptions{})
			})
		}
		a := w.start("a")
		w.wantLeader("a", time.Second)
		for range 20 {
			time.Sleep(time.Second)
			if age := DefaultRenewDeadline - a.left(); age > DefaultRetryPeriod+time.Second {
				t.Errorf("the last renewal was %s ago", age)
			}
		}
		stop()
		writers.Wait()
		a.end()
	})
}
