package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
	"skiff/internal/testcluster/apiserver"
)

func key(name string) kube.Key { return kube.Key{Namespace: "default", Name: name} }

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// logLines collects log lines.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{Verbosity: 1})
}

// with returns the lines that contain text.
func (l *logLines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// start runs a controller without sources, whose queue the test fills, and returns how to stop it.
func start(t *testing.T, f Func, o Options) (c *Controller, stop func() error) {
	t.Helper()
	c = New("test", f, o)
	return c, run(t, c)
}

// run runs a controller, and returns how to stop it.
func run(t *testing.T, c *Controller) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-ended
	}
}

// runTimes records when a key ran.
type runTimes struct {
	mu sync.Mutex
	at []time.Time
}

func (r *runTimes) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, time.Now())
}

func (r *runTimes) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at)
}

// Rules: WQ-01, WQ-02
func TestThirtyTwoWorkersRunOneKeyOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, overlaps, runs atomic.Int32
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			if running.Add(1) > 1 {
				overlaps.Add(1)
			}
			defer running.Add(-1)
			runs.Add(1)
			time.Sleep(time.Second)
			return Done, nil
		}, Options{Workers: 32})
		for i := range 10 {
			for j := range 100 {
				c.queue.Add(key("a"), fmt.Sprint(i, j))
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		expect(t, "stop", stop(), nil)
		expect(t, "overlaps", overlaps.Load(), 0)
		expect(t, "runs", runs.Load(), 2)
	})
}

// Rules: WQ-04, WQ-20, MGR-18
func TestAPanicIsLoggedWithItsStackAndTheKeyRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		var runs atomic.Int32
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			if k.Name == "bad" && runs.Add(1) <= 2 {
				panic("cannot happen")
			}
			return Done, nil
		}, Options{Log: log.logger(), Workers: 2})
		c.queue.Add(key("bad"), "changed")
		c.queue.Add(key("good"), "changed")
		time.Sleep(time.Second)
		expect(t, "stop", stop(), nil)
		expect(t, "runs", runs.Load(), 3)
		expect(t, "panics", c.Stats().Panics, 2)
		expect(t, "errors", c.Stats().Errors, 2)
		expect(t, "done", c.Stats().Done, 2)
		lines := log.with("cannot happen")
		expect(t, "lines", len(lines), 2)
		for _, part := range []string{`"key"="default/bad"`, `"cause"="changed"`, "TestAPanicIsLogged"} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("no %s in %s", part, lines[0])
			}
		}
	})
}

// Rules: WQ-19
func TestAHangingReconcileEndsAtItsDeadlineAndRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		var runs atomic.Int32
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			if k.Name == "hangs" && runs.Add(1) == 1 {
				<-ctx.Done()
				return Done, fmt.Errorf("get pod: %w", ctx.Err())
			}
			return Done, nil
		}, Options{Log: log.logger(), Workers: 1, ReconcileTimeout: 10 * time.Second})
		c.queue.Add(key("hangs"), "changed")
		c.queue.Add(key("other"), "changed")
		time.Sleep(10*time.Second - 1)
		expect(t, "done before the deadline", c.Stats().Done, 0)
		time.Sleep(time.Second)
		expect(t, "done after it", c.Stats().Done, 2)
		expect(t, "timeouts", c.Stats().Timeouts, 1)
		expect(t, "lines", len(log.with("not done within its deadline of 10s: get pod")), 1)
		expect(t, "stop", stop(), nil)
	})
}

func TestEachRunIsOneLogLineWithKeyCauseDurationAndOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			time.Sleep(3 * time.Millisecond)
			switch k.Name {
			case "again":
				return After(10 * time.Second), nil
			case "fails":
				return Done, errors.New("no luck")
			case "refused":
				return After(time.Hour), &kube.Status{Code: 422, Message: "spec.image: Required value"}
			}
			return Done, nil
		}, Options{Log: log.logger()})
		for _, name := range []string{"done", "again", "fails", "refused"} {
			c.queue.Add(key(name), "Service default/x DELETED")
			time.Sleep(4 * time.Millisecond)
		}
		expect(t, "stop", stop(), nil)
		for name, want := range map[string]string{
			"done":    `"msg"="reconciled" "controller"="test" "key"="default/done" "cause"="Service default/x DELETED" "duration_ms"=3 "outcome"="done"`,
			"again":   `"cause"="Service default/x DELETED" "duration_ms"=3 "outcome"="again in 10s"`,
			"fails":   `"msg"="reconcile failed" "error"="no luck" "controller"="test" "key"="default/fails" "cause"="Service default/x DELETED" "duration_ms"=3 "outcome"="error, again in`,
			"refused": `"outcome"="refused; next try when the object changes or in `,
		} {
			lines := log.with(`"cause"="Service default/x DELETED"`)
			found := 0
			for _, line := range lines {
				if strings.Contains(line, "default/"+name) && strings.Contains(line, want) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%d lines for %s with %s in\n%s", found, name, want, strings.Join(lines, "\n"))
			}
		}
	})
}

// Rules: WQ-09
func TestAfterForgetsFailuresAndAnErrorWinsOverAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs runTimes
		var attempts []int
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			runs.note()
			before, _ := ctx.Value(streakKey{}).(streak)
			attempts = append(attempts, before.failures)
			if runs.count() <= 3 {
				return After(time.Hour), errors.New("no luck")
			}
			return After(10 * time.Second), nil
		}, Options{})
		c.queue.Add(key("a"), "changed")
		time.Sleep(time.Second)
		expect(t, "runs within a second", runs.count(), 4)
		time.Sleep(10 * time.Second)
		expect(t, "runs after ten more", runs.count(), 5)
		expect(t, "stop", stop(), nil)
		expect(t, "attempts", fmt.Sprint(attempts), "[0 1 2 3 0]")
		expect(t, "pause", runs.at[4].Sub(runs.at[3]), 10*time.Second)
	})
}

func TestBehindRunsAfterTheKeysThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			time.Sleep(time.Second)
			ran = append(ran, k.Name)
			if k.Name == "a" && len(ran) == 1 {
				return Behind("the rest of it"), nil
			}
			return Done, nil
		}, Options{Workers: 1})
		for _, name := range []string{"a", "b", "c"} {
			c.queue.Add(key(name), "changed")
		}
		synctest.Wait()
		expect(t, "keys that wait", c.Backlog(), 2)
		time.Sleep(10 * time.Second)
		expect(t, "stop", stop(), nil)
		expect(t, "runs", fmt.Sprint(ran), "[a b c a]")
	})
}

func TestAfterATimeAlreadyPastIsNotDone(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Hour} {
		if After(d) == Done {
			t.Errorf("After(%v) is Done", d)
		}
	}
}

func TestAKeyThatKeepsFailingIsTriedAtTheLongestIntervalAndAChangeBringsItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs runTimes
		var failed atomic.Bool
		failed.Store(true)
		var stalled atomic.Int32
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			runs.note()
			if NextOf(ctx, errors.New("no luck")).Stalled {
				stalled.Add(1)
			}
			if failed.Load() {
				return Done, errors.New("no luck")
			}
			return Done, nil
		}, Options{})
		c.queue.Add(key("a"), "changed")
		time.Sleep(stallTime)
		expect(t, "runs that were told to wait long, within the first two minutes", stalled.Load(), 0)
		time.Sleep(2 * time.Minute) // the backoff is that long by then
		parked := runs.count()
		expect(t, "runs that were told to wait long", stalled.Load(), 1)
		time.Sleep(SlowDelay - 2*time.Minute)
		expect(t, "runs within the pause", runs.count(), parked)
		time.Sleep(SlowDelay)
		if n := runs.count(); n < parked+1 || n > parked+2 {
			t.Fatalf("%d runs after two pauses, %d before", n, parked)
		}

		before := runs.count()
		failed.Store(false)
		c.queue.Add(key("a"), "WebServer default/a MODIFIED")
		synctest.Wait()
		expect(t, "runs at a change", runs.count(), before+1)
		failed.Store(true)
		c.queue.Add(key("a"), "WebServer default/a MODIFIED")
		synctest.Wait()
		time.Sleep(time.Second)
		if n := runs.count() - before - 1; n < 5 {
			t.Errorf("%d runs within a second of a failure: the success did not end the count of failures", n)
		}
		expect(t, "stop", stop(), nil)
	})
}

// An API server that has just restarted answers 403 until its rules are loaded, and it may answer 500 and nothing at
// all in between.
func TestAServerThatRestartsParksNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs runTimes
		began := time.Now()
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			runs.note()
			if time.Since(began) > time.Minute {
				return Done, nil
			}
			for _, err := range []error{&kube.Status{Code: 403}, errors.New("odd"),
				&kube.NoAnswerError{Err: errors.New("refused")}} {
				if NextOf(ctx, err).Stalled {
					t.Errorf("told to wait long after %s for %v", time.Since(began), err)
				}
			}
			return Done, []error{&kube.Status{Code: 403}, errors.New("odd"),
				&kube.NoAnswerError{Err: errors.New("refused")}}[runs.count()%3]
		}, Options{})
		c.queue.Add(key("a"), "changed")
		time.Sleep(3 * time.Minute)
		expect(t, "done", c.Stats().Done, 1)
		expect(t, "stop", stop(), nil)
	})
}

func TestAMissingRightIsAskedForTwiceAMinuteForTenMinutesAndThenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs runTimes
		c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) {
			runs.note()
			return Done, fmt.Errorf("create service: %w", &kube.Status{Code: 403})
		}, Options{})
		c.queue.Add(key("a"), "changed")
		time.Sleep(forbiddenTime)
		for i := 1; i < runs.count(); i++ {
			if pause := runs.at[i].Sub(runs.at[i-1]); pause > forbiddenDelay {
				t.Errorf("a pause of %s before run %d", pause, i)
			}
		}
		if n := runs.count(); n < 20 || n > 50 {
			t.Errorf("%d runs within ten minutes", n)
		}
		before := runs.count()
		time.Sleep(time.Hour)
		if n := runs.count() - before; n > 13 {
			t.Errorf("%d runs within the hour after that", n)
		}
		expect(t, "stop", stop(), nil)
	})
}

// What waited for the right, or for the server, goes as soon as another key shows that it is back.
func TestWhatWaitedForRequestsToWorkGoesWhenTheyDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var down atomic.Bool
		down.Store(true)
		r := &runs{}
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			_, _ = r.count(ctx, k)
			switch {
			case k.Name == "writes":
				return Done, w.skiff.Patch(ctx, configMaps, key("x"), kube.MergePatch,
					map[string]any{"data": map[string]string{"value": "2"}}, nil, kube.WriteOptions{})
			case !down.Load():
				return Done, nil
			case k.Name == "away":
				return Done, &kube.NoAnswerError{Err: errors.New("refused")}
			}
			return Done, &kube.Status{Code: 403}
		}, Options{})
		w.put("x", "any", "1", nil)
		other := kube.Key{Namespace: "other", Name: "forbidden"}
		for _, k := range []kube.Key{key("away"), key("forbidden"), other} {
			c.queue.Add(k, "changed")
		}
		time.Sleep(time.Hour)
		down.Store(false)
		c.queue.Add(key("writes"), "changed")
		synctest.Wait()
		expect(t, "done", c.Stats().Done, 3) // the write, and those of its namespace
		time.Sleep(8 * time.Minute)
		expect(t, "done in the end", c.Stats().Done, 4)
		expect(t, "stop", stop(), nil)
	})
}

func TestAnOutageOfTheServerParksNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		var runs runTimes
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			runs.note()
			if down.Load() {
				return Done,
					fmt.Errorf("create service: %w", &kube.NoAnswerError{Err: errors.New("connection refused")})
			}
			return Done, nil
		}, Options{})
		c.queue.Add(key("a"), "changed")
		time.Sleep(time.Hour)
		// One each one to two minutes after the first fifteen; at the longest interval it would be twenty in all.
		if n := runs.count(); n < 40 || n > 80 {
			t.Fatalf("%d runs in an hour of outage", n)
		}
		down.Store(false)
		time.Sleep(2 * time.Minute)
		expect(t, "done two minutes after it", c.Stats().Done, 1)
		expect(t, "stop", stop(), nil)
	})
}

// Rules: ERR-08
func TestARefusedWriteIsSentLessThanOncePerFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs runTimes
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			runs.note()
			return Done, fmt.Errorf("apply deployment: %w", &kube.Status{Code: 422})
		}, Options{})
		c.queue.Add(key("a"), "changed")
		time.Sleep(time.Hour)
		if n := runs.count(); n < 8 || n > 12 {
			t.Fatalf("%d runs in an hour", n)
		}
		expect(t, "terminal errors", c.Stats().Terminal, int64(runs.count()))
		expect(t, "stop", stop(), nil)
	})
}

func TestARetryWaitsAsLongAsTheServerAsksAndNotForEver(t *testing.T) {
	for asked, most := range map[int]time.Duration{20: 30 * time.Second, 1 << 30: kube.MaxRetryAfter * 3 / 2} {
		synctest.Test(t, func(t *testing.T) {
			var runs runTimes
			c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
				runs.note()
				if runs.count() == 1 {
					return Done, &kube.Status{Code: 429, Details: kube.StatusDetails{RetryAfterSeconds: asked}}
				}
				return Done, nil
			}, Options{})
			c.queue.Add(key("a"), "changed")
			time.Sleep(time.Hour)
			expect(t, "runs", runs.count(), 2)
			expect(t, "stop", stop(), nil)
			least := min(time.Duration(asked)*time.Second, kube.MaxRetryAfter)
			if pause := runs.at[1].Sub(runs.at[0]); pause < least || pause > most {
				t.Errorf("asked for %ds, waited %v", asked, pause)
			}
		})
	}
}

// Rules: MGR-02, MGR-04, WQ-15
func TestAStopLetsRunsFinishAndStartsNoNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, finished atomic.Int32
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			begun.Add(1)
			time.Sleep(10 * time.Second)
			if ctx.Err() == nil { // a last write would still go out
				finished.Add(1)
			}
			return Done, nil
		}, Options{Workers: 3})
		for i := range 10 {
			c.queue.Add(key(fmt.Sprint(i)), "changed")
		}
		time.Sleep(time.Second)
		began := time.Now()
		expect(t, "stop", stop(), nil)
		expect(t, "drained in", time.Since(began), 9*time.Second)
		expect(t, "begun", begun.Load(), 3)
		expect(t, "finished", finished.Load(), 3)
	})
}

// Rules: WQ-15
func TestARunThatDoesNotEndIsCutShortAtTheDrainTimeoutAndNamedIfItDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		release := make(chan struct{})
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			if k.Name == "stuck" {
				<-release
				return Done, nil
			}
			<-ctx.Done()
			return Done, ctx.Err()
		}, Options{Log: log.logger()})
		c.queue.Add(key("slow"), "changed")
		c.queue.Add(key("stuck"), "changed")
		synctest.Wait()
		began := time.Now()
		err := stop()
		if err == nil || !strings.Contains(err.Error(), "[default/stuck]") {
			t.Fatalf("stop: %v, want an error that names default/stuck alone", err)
		}
		expect(t, "stopped after", time.Since(began), DrainTimeout+abortGrace)
		expect(t, "lines of the cut run", len(log.with("reconcile interrupted")), 1)
		expect(t, "errors counted", c.Stats().Errors, 0)
		close(release)
	})
}

func TestRunIsRefusedTheSecondTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) { return Done, nil }, Options{})
		expect(t, "stop", stop(), nil)
		if err := c.Run(t.Context()); err == nil {
			t.Fatal("a second Run is not refused")
		}
	})
}

// Rules: ERR-06, ERR-08
func TestErrorsAreClassifiedByTheWholeOfTheirChain(t *testing.T) {
	status := func(code int) error { return &kube.Status{Code: code} }
	terminating := &kube.Status{Code: 403,
		Details: kube.StatusDetails{Causes: []kube.StatusCause{{Reason: "NamespaceTerminating"}}}}
	plain := errors.New("plain")
	for _, test := range []struct {
		err  error
		want class
	}{
		{plain, failing},
		{Terminal(plain), terminal},
		{fmt.Errorf("apply: %w", Terminal(plain)), terminal},
		{status(http.StatusBadRequest), terminal},
		{status(http.StatusMethodNotAllowed), terminal},
		{status(http.StatusNotAcceptable), terminal},
		{status(http.StatusRequestEntityTooLarge), terminal},
		{status(http.StatusUnsupportedMediaType), terminal},
		{fmt.Errorf("apply deployment: %w", status(http.StatusUnprocessableEntity)), terminal},
		{fmt.Errorf("create pod: %w", terminating), terminal},
		{status(http.StatusUnauthorized), passing},
		{status(http.StatusForbidden), forbidden},
		{status(http.StatusNotFound), failing},
		{status(http.StatusConflict), passing},
		{status(http.StatusTooManyRequests), passing},
		{status(http.StatusInternalServerError), passing},
		{status(http.StatusServiceUnavailable), passing},
		{fmt.Errorf("get: %w", context.DeadlineExceeded), passing},
		{&kube.NoAnswerError{Err: plain}, passing},
		{&net.OpError{Op: "dial", Err: plain}, failing}, // nothing that package kube says
		{status(http.StatusNotImplemented), terminal},
		{&kube.Status{Code: 500,
			Message: "failed to create typed patch object (default/web): .spec.x: field not declared in schema"},
			terminal},
		{&timeoutError{time.Second,
			fmt.Errorf("%w, while waiting to try again after: %w", context.DeadlineExceeded, status(429))}, passing},
		{context.Canceled, failing},
		{&timeoutError{time.Second, context.DeadlineExceeded}, failing},
		{&process.Panic{Value: status(422)}, failing},
		{&cache.NotServed{Problem: health.Problem{Reason: cache.OutOfScope}}, failing},
		// One part that is worth another try makes the whole so.
		{errors.Join(status(422), status(503)), passing},
		{errors.Join(status(503), plain, status(422)), failing},
		{errors.Join(status(422), Terminal(plain)), terminal},
	} {
		if got := classify(test.err); got != test.want {
			t.Errorf("%v: class %d, want %d", test.err, got, test.want)
		}
		if got := IsTerminal(test.err); got != (test.want == terminal) {
			t.Errorf("IsTerminal(%v) = %v", test.err, got)
		}
	}
	if IsTerminal(nil) || Terminal(nil) != nil {
		t.Error("no error is not a terminal one")
	}
}

// Rules: NET-18
func TestTheLogOfAFailedRunHasTheIDOfTheServersAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		pipe := api.ListenPipe()
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { client.Close(); pipe.Close(); api.Close() }()
		var log logLines
		missing := kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
		c, stop := start(t, func(ctx context.Context, k kube.Key) (Outcome, error) {
			return Done, client.Get(ctx, missing, k, nil)
		}, Options{Log: log.logger()})
		c.queue.Add(key("missing"), "changed")
		time.Sleep(time.Second)
		expect(t, "stop", stop(), nil)
		lines := log.with("reconcile failed")
		if len(lines) == 0 || !regexp.MustCompile(`"auditID"="[0-9a-f-]{36}"`).MatchString(lines[0]) {
			t.Errorf("no audit ID in %q", lines)
		}
	})
}
