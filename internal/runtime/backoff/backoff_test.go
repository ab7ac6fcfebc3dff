package backoff

import (
	"testing"
	"time"
)

func TestPausesDoubleUpToMax(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 10 * time.Second}
	last := time.Duration(0)
	for failures, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		want *= time.Second
		if last = b.Next(last); b.After(failures) != want || last != want {
			t.Errorf("after %d failures: %s, next %s, want %s", failures, b.After(failures), last, want)
		}
	}
	for _, failures := range []int{62, 63, 64, 1 << 20} {
		if d := b.After(failures); d != b.Max {
			t.Errorf("after %d failures: %s", failures, d)
		}
	}
}

func TestJitterKeepsWithinItsBounds(t *testing.T) {
	half, full := Backoff{Min: time.Second, Max: time.Second, Jitter: 0.5}, Backoff{Min: time.Second, Max: time.Second,
		Jitter: 1}
	different := map[time.Duration]bool{}
	for range 1000 {
		h, f, s := half.After(3), full.After(3), Spread(time.Second, 0.2)
		if h < time.Second/2 || h > time.Second || f < 0 || f > time.Second || s < time.Second ||
			s > 1200*time.Millisecond {
			t.Fatalf("half %s, full %s, spread %s", h, f, s)
		}
		different[h] = true
	}
	if len(different) < 100 {
		t.Errorf("%d different pauses of 1000", len(different))
	}
	if Spread(0, 0.5) != 0 || Spread(-1, 0.5) != -1 {
		t.Error("a wait that is over was spread")
	}
}
