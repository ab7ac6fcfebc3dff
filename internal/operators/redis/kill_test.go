package redis

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/fakeapi"
)

var killStep = flag.Int("kill-step", 13, "kill the controller at each of its requests that this divides; 1 = at each")

// Rules: MGR-15, WRT-14
func TestKillingTheControllerAtAnyRequestChangesNothingInTheEnd(t *testing.T) {
	for at, all := 1, false; !all; at += *killStep {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("at %d, the server has it %t", at, late), func(t *testing.T) {
				storyWith(t, fakeapi.Options{}, logr.Discard(), func(w *world) { all = !w.liveWithAKill(at, late) })
			})
		}
	}
}

// liveWithAKill goes through a life of a Redis in which the controller is killed at one of its requests, and started again a
// while later. It returns false if the life was over before that request.
func (w *world) liveWithAKill(at int, late bool) bool {
	k := &killer{dial: w.pipe.Dial, at: at, late: late}
	w.stop()
	cancel := w.startOn(k.Dial)
	restarted := false
	step := func(what, pods string, act func()) {
		w.Helper()
		act()
		w.pass(15 * time.Second)
		if k.killed() && !restarted {
			restarted = true
			cancel()
			w.stop()
			w.start()
			w.pass(15 * time.Second)
		}
		if w.podNames() != pods {
			w.Errorf("after %s: pods %q, want %q", what, w.podNames(), pods)
		}
		if w.redis("cache") != nil {
			w.wantReady("cache")
		}
	}
	step("the creation", "cache-0 cache-1 cache-2", func() { w.create("cache", three) })
	before := w.uids()
	step("scaling down", "cache-0", func() { w.patch(resource, "cache", `{"spec":{"num":1}}`) })
	w.want("replaced by scaling down", w.replaced(before), "")
	step("scaling up", "cache-0 cache-1", func() { w.patch(resource, "cache", `{"spec":{"num":2}}`) })
	before = w.uids()
	step("the end of a pod", "cache-0 cache-1", func() { w.delete(pods, "cache-1") })
	w.want("replaced after its end", w.replaced(before), "cache-1")
	before = w.uids()
	step("a roll", "cache-0 cache-1", func() { w.patch(resource, "cache", `{"spec":{"image":"redis:8"}}`) })
	w.want("replaced by a roll", w.replaced(before), "cache-0 cache-1")
	step("the deletion", "", func() { w.delete(resource, "cache") })
	w.want("the Redis", w.redis("cache"), (*Redis)(nil))
	w.want("Services", len(w.api.List(services, "default")), 1) // that of the API server itself
	return k.killed()
}
