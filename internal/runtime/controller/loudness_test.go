package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// loud are the lines that are written without --verbosity 1, but that of a start.
func (l *logLines) loud() []string {
	return slices.DeleteFunc(slices.Clone(l.with("")), func(line string) bool {
		return strings.HasPrefix(line, `"level"=1`) || strings.Contains(line, `"msg"="started"`)
	})
}

// A hundred objects whose writes fail for a reason that is not theirs, while all watches are open.
func TestWhatConcernsTheWholeProcessIsOneLineAndNotOneForEachObject(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int // lines that are written
		say  string
	}{
		"a refused token": {fmt.Errorf("patch: %w", &kube.Status{Code: 401, Message: "Unauthorized"}), 1,
			`"msg"="the server refused the credential (401), trying again" "level"="WARN"`},
		"a plugin that fails": {fmt.Errorf("patch: %w", &kube.NoAnswerError{Err: &kube.CredentialError{
			Err: errors.New("run aws: exit status 1")}}), 1,
			`"msg"="there is no credential for the API server, trying again" "level"="WARN"`},
		"no answer": {fmt.Errorf("patch: %w", &kube.NoAnswerError{Err: errors.New("refused")}), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for i := range 100 {
					w.put(fmt.Sprintf("o%d", i), "x", "1", nil)
				}
				var log logLines
				var fails atomic.Bool
				fails.Store(true)
				s := Setup{Client: w.skiff, Mirrors: cache.NewMirrors(), Log: log.logger()}
				c := s.New("test", func(ctx context.Context, k kube.Key) (Outcome, error) {
					if fails.Load() {
						return Done, test.err
					}
					return Done, w.skiff.Patch(ctx, configMaps, k, kube.MergePatch,
						map[string]any{"data": map[string]string{"value": "2"}}, nil, kube.WriteOptions{})
				}, For(Mirror[*configMap](s, configMaps, "")))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				time.Sleep(time.Second) // virtual
				expect(t, "failures", c.Stats().Errors >= 100, true)
				lines := log.loud()
				if len(lines) != test.want || test.want == 1 && !strings.Contains(lines[0], test.say) {
					t.Errorf("%d lines: %.2000q, want %d", len(lines), lines, test.want)
				}
				fails.Store(false)
				time.Sleep(10 * time.Minute)
				expect(t, "lines about its end", len(log.with("in contact with the API server again")), test.want)
				cancel()
				expect(t, "stop", <-ended, nil)
			})
		})
	}
}

func TestAFailureIsAsLoudAsItDeserves(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		runs int
		want string
	}{
		"a right":           {&kube.Status{Code: 403}, 1, `"level"=0 "msg"="reconcile failed"`},
		"many conflicts":    {&kube.Status{Code: 409, Reason: kube.ReasonConflict}, newsAfter + 1, `"level"="WARN"`},
		"a refused object":  {&kube.Status{Code: 422}, 1, `"msg"="reconcile failed" "error"=`},
		"an error of skiff": {errors.New("encode"), 1, `"msg"="reconcile failed" "error"=`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logLines
				var runs atomic.Int32
				c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) {
					if runs.Add(1) > int32(test.runs) {
						return Done, nil
					}
					return Done, test.err
				}, Options{Log: log.logger()})
				c.queue.Add(key("a"), "changed")
				time.Sleep(time.Hour)
				if n := len(log.with(test.want)); n != 1 {
					t.Errorf("%d lines with %s in %q, want 1", n, test.want, log.lines)
				}
				expect(t, "stop", stop(), nil)
			})
		})
	}
}

// The write of its status wakes an object that is refused, and so may others. There is nothing new in that.
func TestARefusalIsAnErrorInTheLogOnceUntilTheNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		refusal := "no image"
		c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) {
			return Done, Terminal(errors.New(refusal))
		}, Options{Log: log.logger()})
		for i, step := range []struct {
			refusal string
			wait    time.Duration
			errors  int
		}{{"no image", time.Second, 1}, {"no image", time.Second, 1}, {"no port", time.Second, 2},
			{"no port", SlowDelay*3/2 + time.Second, 3}} {
			refusal = step.refusal
			c.queue.Add(key("a"), "changed")
			time.Sleep(step.wait)
			expect(t, fmt.Sprint("errors after step ", i), len(log.with(`"msg"="reconcile failed" "error"=`)), step.errors)
		}
		expect(t, "stop", stop(), nil)
	})
}
