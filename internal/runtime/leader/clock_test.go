package leader

import (
	"context"
	"strings"
	"testing"
	"time"
	"unsafe"

	"skiff/internal/testcluster/apiserver"
)

// moveClock has the wall clock move by d since a time was taken, and the monotonic clock not: in the time as it is
// kept, the wall clock's part is d earlier.
func moveClock(t *testing.T, at *time.Time, d time.Duration) {
	t.Helper()
	if !strings.Contains(at.String(), " m=") {
		t.Fatalf("%s is kept without the monotonic clock", at)
	}
	const secondBit = 30 // of the first word of such a time.Time
	*(*uint64)(unsafe.Pointer(at)) -= uint64(int64(d/time.Second)) << secondBit
	if moved := time.Until(at.Round(0)); (moved + d).Abs() > time.Minute {
		t.Fatalf("the clock has moved by %s, want %s", -moved, d)
	}
}

// The times in a bubble of synctest have no monotonic part: this test runs in real time, and waits for nothing.
//
// Rules: FI-16, LE-02
func TestALeaderAndAStandbyKeepTheirTimesWhenTheirClocksJump(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		w := &world{t: t, api: apiserver.New(apiserver.Options{})}
		a, b := w.new("a", Options{}), w.new("b", Options{})
		ctx, stop := context.WithCancel(t.Context())
		began, ended := make(chan struct{}), make(chan error, 1)
		go func() { // waited for below
			ended <- a.Run(ctx, func(ctx, _ context.Context) {
				close(began)
				<-ctx.Done()
			})
		}()
		<-began
		if err := b.get(ctx); err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		moveClock(t, &a.sent, jump)
		a.mu.Unlock()
		moveClock(t, &b.seen, jump)
		if err := a.Held(); err != nil || a.Check() != nil {
			t.Errorf("after a jump of %s: %v", jump, err)
		}
		if left := a.left(); left <= 0 || left > DefaultRenewDeadline {
			t.Errorf("after a jump of %s the leader has %s left", jump, left)
		}
		if wait := time.Until(b.expires()); wait <= 0 || wait > DefaultLeaseDuration {
			t.Errorf("after a jump of %s the standby waits for %s", jump, wait)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, p := range []*candidate{a, b} {
			p.pipe.Close()
			p.o.Client.Close()
		}
		w.api.Close()
	}
}

// Rules: FI-16
func TestTheClockOfTheServerDoesNotMatter(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.start("b")
		for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
			remove := w.api.Inject(apiserver.Fault{Clock: jump})
			time.Sleep(time.Minute)
			remove()
		}
		if len(w.terms) != 1 || w.leader() != "a" {
			t.Errorf("terms: %v", w.terms)
		}
		a.end()
		b.end()
	})
}
