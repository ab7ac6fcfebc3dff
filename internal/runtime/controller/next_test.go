package controller

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

func TestWhatAUserIsToldIsWhatHappensNext(t *testing.T) {
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
		step    string
	}{
		"refused": {&kube.Status{Code: 422}, 0, 0, false, true,
			"when something changes, and every 5 to 8 minutes"},
		"local": {errors.New("decode the template"), 0, 0, false, false, "within 2 minutes"},
		"local, ten in seconds": {errors.New("decode the template"), 9, 5 * time.Second, false, false,
			"within 2 minutes"},
		"local, few in a long time": {errors.New("decode the template"), 8, long, false, false,
			"within 2 minutes"},
		"local, for long": {errors.New("decode the template"), 9, 2 * time.Minute, false, true,
			"every 5 to 8 minutes, and at once"},
		"forbidden": {&kube.Status{Code: 403}, 1000, 9 * time.Minute, false, false,
			"within 30 seconds"},
		"forbidden, for long": {&kube.Status{Code: 403}, 9, long, false, true,
			"every 5 to 8 minutes, and at once"},
		"no answer": {&kube.NoAnswerError{Err: errors.New("reset")}, 0, 0, true, false,
			"within 2 minutes"},
		"server is down":                {&kube.Status{Code: 503}, 5, 0, true, false, "within 2 minutes"},
		"server is down, for long":      {&kube.Status{Code: 503}, 6, long, false, false, "within 2 minutes"},
		"server is down, for very long": {&kube.Status{Code: 503}, 1000, long, false, false, "within 2 minutes"},
		"conflict, for very long":       {&kube.Status{Code: 409}, 1000, long, false, false, "within 2 minutes"},
		"busy":                          {busy(60), 6, 0, false, false, "within 2 minutes"},
		"busy for long":                 {busy(3600), 6, long, false, false, "within 2 minutes"},
		"local, and busy": {errors.Join(errors.New("decode the template"), busy(3600)), 0, 0, false, false,
			"within 2 minutes"},
		"one refused, one in passing": {errors.Join(&kube.Status{Code: 422}, busy(0)), 6, 0, false, false,
			"within 2 minutes"},
	} {
		var before streak
		for range test.after {
			before = before.and(classify(test.err), time.Now().Add(-test.since))
		}
		n := NextOf(context.WithValue(t.Context(), streakKey{}, before), fmt.Errorf("apply: %w", test.err))
		if n.Brief != test.brief || n.Stalled != test.stalled || !strings.HasPrefix(n.Step, "skiff tries again ") ||
			!strings.Contains(n.Step, test.step) {
			t.Errorf("%s: got %+v, want %s", name, n, test.step)
		}
	}
}

// What is said to the user is compared with the pauses that the queue then makes.
func TestEveryRunComesWhenTheOneBeforeItSaid(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		most time.Duration // of the pauses, in the end
	}{
		"within 2 minutes":       {&kube.Status{Code: 503}, 2 * time.Minute},
		"at once when something": {&kube.Status{Code: 403}, 8 * time.Minute},
		"every 5 to 8 minutes":   {errors.New("plain"), 8 * time.Minute},
		", and every 5 to 8":     {&kube.Status{Code: 422}, 8 * time.Minute},
		"again within 2 minutes": {&kube.Status{Code: 429, Details: kube.StatusDetails{RetryAfterSeconds: 1e6}},
			2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			var runs runTimes
			var last atomic.Value
			c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
				runs.note()
				last.Store(NextOf(ctx, test.err).Step)
				return Done, test.err
			}, Options{})
			c.queue.Add(key("a"), "changed")
			time.Sleep(3 * time.Hour)
			expect(t, "stop", stop(), nil)
			if step := last.Load().(string); !strings.Contains(step, name) {
				t.Errorf("said %q, want %q", step, name)
			}
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
