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
