package e2e

import (
	"context"
	"testing"
	"time"
)

// Eventually polls cond until it is true and fails the test when limit has passed. what says what is waited for; cond
// also says what it saw, and the last of that is printed on failure.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() (done bool, saw string)) {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(100 * time.Millisecond) // a tenth of what a user would notice, few enough requests
	defer tick.Stop()
	for {
		done, saw := cond()
		if done {
			return
		}
		if time.Since(start) > limit {
			t.Fatalf("%s: not within %s; last seen: %s", what, limit, saw)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: test is over: %v", what, t.Context().Err())
		case <-tick.C:
		}
	}
}

// Throughout polls cond for the whole window and fails the test as soon as it is false.
func Throughout(t testing.TB, window time.Duration, what string, cond func() (holds bool, saw string)) {
	t.Helper()
	end := time.After(window)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if holds, saw := cond(); !holds {
			t.Fatalf("%s: no longer true; seen: %s", what, saw)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// noContext is for clean-up, which goes on when the test's context has ended.
var noContext = context.Background()
