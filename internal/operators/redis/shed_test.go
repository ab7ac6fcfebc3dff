package redis

import (
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
)

func TestARedisThatIsTooLargeIsLeftAloneAndCanBeDeleted(t *testing.T) {
	o := options
	o.Setup = controller.Setup{MirrorBytes: 10 << 20, ObjectBytes: 64 << 10}
	storyWith(t, o, func(w *world) {
		w.Create("small", `{"port":6370,"num":1}`)
		w.Create("rds", `{"port":6379,"num":2}`)
		w.Pass(time.Minute)
		w.wantPods("rds-0 rds-1 small-0")
		w.Patch(resource, "rds", `{"spec":{"num":1,"config":{"a":"`+strings.Repeat("x", 100<<10)+`"}}}`)
		w.Pass(time.Minute)
		w.wantPods("rds-0 rds-1 small-0") // nothing is worked on, nothing is deleted
		w.WantCondition("rds", "Ready", "Unknown/TooLarge", "Redis default/rds takes", "one object may take 64 KiB")
		w.WantCondition("rds", "Stalled", "True/TooLarge")
		w.WantReady("small")
		w.Delete(resource, "rds")
		w.Pass(2 * time.Minute)
		w.wantPods("small-0")
		w.Want("the Redis", w.API.Get(resource, named("rds")) == nil, true)
	})
}

// Which pods a Redis has is known also where they are not held in memory. So it can be made smaller and deleted: else
// nothing would make room.
func TestARedisWhosePodsAreNotHeldInMemoryCanBeMadeSmallerAndDeleted(t *testing.T) {
	o := options
	o.Setup = controller.Setup{MirrorBytes: 30 << 10, ObjectBytes: 64 << 10}
	storyWith(t, o, func(w *world) {
		w.Create("cache", `{"port":6379,"num":40}`)
		w.Pass(2 * time.Minute)
		w.WantCondition("cache", "Ready", "Unknown/OverBudget", "the pods of namespace default take")
		w.Forget()
		w.Pass(time.Hour)
		w.Want("requests for pods in an hour", w.Count("pods/"), 0)

		w.Patch(resource, "cache", `{"spec":{"num":39}}`)
		w.Pass(10 * time.Second)
		w.Want("the pod that is surplus", w.pod("cache-39") == nil, true)
		w.Want("the last one that is not", w.pod("cache-38") != nil, true)

		w.Delete(resource, "cache")
		w.Pass(5 * time.Minute)
		w.wantPods("")
		w.Want("the Redis", w.API.Get(resource, named("cache")) == nil, true)
		if n := w.Count("DELETE pods"); n > 41 {
			t.Errorf("%d DELETEs of 40 pods", n)
		}
	})
}
