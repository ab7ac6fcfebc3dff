package redis

import (
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
)

// Rules: MGR-15, WRT-14
func TestKillingTheControllerAtAnyRequestChangesNothingInTheEnd(t *testing.T) {
	operatortest.KillAtAnyRequest(t, options, func(ow *operatortest.World, start func(), pass func(time.Duration)) {
		w := &world{ow, startNode(ow)}
		start()
		step := func(what, pods string, act func()) {
			w.Helper()
			act()
			pass(15 * time.Second)
			w.Want("pods after "+what, w.podNames(), pods)
			if w.redis("cache") != nil {
				w.WantReady("cache")
			}
		}
		step("the creation", "cache-0 cache-1 cache-2", func() { w.Create("cache", three) })
		before := w.uids()
		step("scaling down", "cache-0", func() { w.Patch(resource, "cache", `{"spec":{"num":1}}`) })
		w.Want("replaced by scaling down", w.replaced(before), "")
		step("scaling up", "cache-0 cache-1", func() { w.Patch(resource, "cache", `{"spec":{"num":2}}`) })
		before = w.uids()
		step("the end of a pod", "cache-0 cache-1", func() { w.Delete(pods, "cache-1") })
		w.Want("replaced after its end", w.replaced(before), "cache-1")
		before = w.uids()
		step("a roll", "cache-0 cache-1", func() { w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`) })
		w.Want("replaced by a roll", w.replaced(before), "cache-0 cache-1")
		step("the deletion", "", func() { w.Delete(resource, "cache") })
		w.Want("the Redis", w.redis("cache"), (*Redis)(nil))
		w.Want("Services", len(w.API.List(services, "default")), 1) // that of the API server itself
	})
}
