package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/kube"
)

// The log is called by each part, so a sink that panics is a fault in any of them.
func TestAPartOfAControllerThatPanicsIsRunAgainAndTheProcessGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var lines logLines
		log := funcr.New(func(_, args string) {
			if broken.Load() && strings.Contains(args, `"msg"="reconciled"`) {
				panic("the sink is broken")
			}
			lines.mu.Lock()
			defer lines.mu.Unlock()
			lines.lines = append(lines.lines, args)
		}, funcr.Options{Verbosity: 1})
		var done atomic.Int32
		c, stop := start(t, func(context.Context, kube.Key) (Outcome, error) {
			done.Add(1)
			return Done, nil
		}, Options{Log: log, Workers: 1})
		broken.Store(true)
		c.queue.Add(key("a"), "changed")
		c.queue.Add(key("b"), "changed")
		time.Sleep(10 * time.Second)
		broken.Store(false)
		c.queue.Add(key("a"), "changed")
		time.Sleep(10 * time.Second)
		expect(t, "runs", done.Load(), 3)
		expect(t, "panics that were counted", c.Stats().Crashes, 2)
		expect(t, "panics that were logged", len(lines.with("worker: panic: the sink is broken")), 2)
		expect(t, "stop", stop(), nil)
	})
}
