package controller

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

func TestAnErrorSaysWhatHappensNext(t *testing.T) {
	busy := func(seconds int) error {
		return &kube.Status{Code: 429, Details: kube.StatusDetails{RetryAfterSeconds: seconds}}
	}
	const long = 11 * time.Minute
	for name, test := range map[string]struct {
		err     error
		after   int           // failures of the same kind before
		since   time.Duration // how long ago the first of them was
		brief   bool
		stalled bool
	}{
		"refused":                       {&kube.Status{Code: 422}, 0, 0, false, true},
		"local":                         {errors.New("decode the template"), 0, 0, false, false},
		"local, ten in seconds":         {errors.New("decode the template"), 9, 5 * time.Second, false, false},
		"local, few in a long time":     {errors.New("decode the template"), 8, long, false, false},
		"local, for long":               {errors.New("decode the template"), 9, 2 * time.Minute, false, true},
		"forbidden":                     {&kube.Status{Code: 403}, 1000, 9 * time.Minute, false, false},
		"forbidden, for long":           {&kube.Status{Code: 403}, 9, long, false, true},
		"no answer":                     {&kube.NoAnswerError{Err: errors.New("reset")}, 0, 0, true, false},
		"server is down":                {&kube.Status{Code: 503}, 5, 0, true, false},
		"server is down, for long":      {&kube.Status{Code: 503}, 6, long, false, false},
		"server is down, for very long": {&kube.Status{Code: 503}, 1000, long, false, false},
		"conflict, for very long":       {&kube.Status{Code: 409}, 1000, long, false, false},
		"busy":                          {busy(60), 6, 0, false, false},
		"busy for long":                 {busy(3600), 6, long, false, false},
		"local, and busy": {errors.Join(errors.New("decode the template"), busy(3600)), 0, 0,
			false, false},
		"one refused, one in passing": {errors.Join(&kube.Status{Code: 422}, busy(0)), 6, 0, false, false},
	} {
		var before streak
		for range test.after {
			before = before.and(classify(test.err), time.Now().Add(-test.since))
		}
		n := NextOf(context.WithValue(t.Context(), streakKey{}, before), fmt.Errorf("apply: %w", test.err))
		if n.Brief != test.brief || n.Stalled != test.stalled || n.Step != "skiff tries again" {
			t.Errorf("%s: got %+v", name, n)
		}
	}
}

func TestAKeyThatFailsIsTriedWithinThePauseOfItsError(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		most time.Duration // of the pauses, in the end
	}{
		"down":      {&kube.Status{Code: 503}, 2 * time.Minute},
		"forbidden": {&kube.Status{Code: 403}, 8 * time.Minute},
		"plain":     {errors.New("plain"), 8 * time.Minute},
		"refused":   {&kube.Status{Code: 422}, 8 * time.Minute},
		"busy": {&kube.Status{Code: 429, Details: kube.StatusDetails{RetryAfterSeconds: 1e6}},
			2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			var runs runTimes
			c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) {
				runs.note()
				return Done, test.err
			}, Options{})
			c.queue.Add(key("a"), "changed")
			time.Sleep(3 * time.Hour)
			expect(t, "stop", stop(), nil)
			for i := stallAfter + 40; i < runs.count(); i++ {
				if pause := runs.at[i].Sub(runs.at[i-1]); pause > test.most {
					t.Errorf("%s: a pause of %s", name, pause)
				}
			}
			if runs.count() < stallAfter {
				t.Errorf("%s: %d runs", name, runs.count())
			}
		})
	}
}

// Rules: WQ-06
func TestBackoffDoublesFromFiveMillisecondsToItsCapWithoutOverflow(t *testing.T) {
	full := 5 * time.Millisecond
	for failures := range 200 {
		for range 20 {
			d := retries.After(failures)
			if d < full/2 || d > full {
				t.Fatalf("after %d failures: %v is not between half and all of %v", failures, d, full)
			}
		}
		full = min(2*full, retries.Max)
	}
}

// Of two delays, the backoff and the delay that an error asks for, the longer one counts.
//
// Rules: WQ-06, WQ-07, WQ-08
func TestKeysThatFailTogetherAreRetriedApartAndDelayNobodyElse(t *testing.T) {
	var s streaks
	busy := &kube.Status{Code: 429, Details: kube.StatusDetails{RetryAfterSeconds: 60}}
	fail := func(name string, err error) time.Duration {
		n := next(err, s.Get(key(name)), time.Now())
		return n.pause(s.add(key(name), n, err))
	}
	apart, busyApart := map[time.Duration]bool{}, map[time.Duration]bool{}
	for i := range 1000 {
		name := fmt.Sprint(i)
		for range 8 {
			fail(name, errors.New("x"))
		}
		apart[fail(name, errors.New("x"))] = true
		d := fail("busy"+name, busy)
		if d < time.Minute || d > 90*time.Second {
			t.Fatalf("asked for 1m, got %v", d)
		}
		busyApart[d] = true
	}
	if len(apart) < 500 || len(busyApart) < 500 {
		t.Fatalf("1000 keys share %d and %d different delays", len(apart), len(busyApart))
	}
	if d := fail("new", errors.New("x")); d > retries.Min {
		t.Fatalf("the first failure of another key waits %v", d)
	}
	expect(t, "failures", s.Get(key("0")).failures, 9)
	s.Forget(key("0"))
	if d := fail("0", errors.New("x")); d > retries.Min {
		t.Fatalf("the first failure after a success waits %v", d)
	}
}

// Rules: WQ-15
func TestTheLogSaysHowOftenAKeyFailedAndWhenItIsTriedNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) { return Done, errors.New("plain") },
			Options{Log: log.logger()})
		c.queue.Add(key("a"), "changed")
		time.Sleep(time.Hour)
		expect(t, "stop", stop(), nil)
		lines := log.with("failures in a row")
		if len(lines) == 0 {
			t.Fatalf("no line says how often it failed:\n%s", strings.Join(log.with("default/a"), "\n"))
		}
		for _, line := range lines {
			if !regexp.MustCompile(`"outcome"="\d+ failures in a row; next try when the object changes or in [5-8]m`).
				MatchString(line) {
				t.Error(line)
			}
		}
	})
}

func TestARunThatFailsDuringTheDrainSaysThatNobodyTriesAgain(t *testing.T) {
	for name, end := range map[string]func() (Outcome, error){
		"error":   func() (Outcome, error) { return Done, errors.New("no luck") },
		"refused": func() (Outcome, error) { return Done, &kube.Status{Code: 422} },
		"after":   func() (Outcome, error) { return After(time.Minute), nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log logLines
			c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) {
				time.Sleep(time.Second)
				return end()
			}, Options{Log: log.logger()})
			c.queue.Add(key("a"), "changed")
			synctest.Wait()
			expect(t, "stop", stop(), nil)
			if lines := log.with("default/a"); len(lines) != 1 || !strings.Contains(lines[0], `"outcome"="stopped"`) {
				t.Errorf("%s: %q", name, lines)
			}
		})
	}
}
