package restart

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
)

func TestATriggerThatIsTooLargeIsLeftAloneUntilItIsSmaller(t *testing.T) {
	o := options
	o.Setup = controller.Setup{MirrorBytes: 10 << 20, ObjectBytes: 64 << 10}
	storyWith(t, o, func(w *env) {
		w.deploy("predixy", 2)
		w.pod("redis-0")
		w.Start()
		w.Pass(10 * time.Second)
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(10 * time.Second)
		w.WantCondition("rt", "Ready", "True/Armed")
		note := func(text string) {
			w.Patch(resource, "rt", `{"metadata":{"annotations":{"skiff.dev/note":"`+text+`"}}}`)
		}
		note(strings.Repeat("x", 100<<10))
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "Unknown/TooLarge", "RestartTrigger default/rt takes",
			"one object may take 64 KiB: make it smaller, or raise --max-object-kib")
		w.WantCondition("rt", "Stalled", "True/TooLarge")
		w.replace("redis-0")
		w.Pass(5 * time.Minute)
		w.wantRestarts(0)
		note("")
		w.Pass(2 * time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.wantRestarts(1) // for the pod that was replaced meanwhile
	})
}

// Of pods that are not held in memory it is not known whether they were replaced.
func TestATriggerWhosePodsTakeTooMuchMemorySaysSoAndRestartsNothing(t *testing.T) {
	o := options
	o.Setup = controller.Setup{MirrorBytes: 8 << 10, ObjectBytes: 64 << 10}
	storyWith(t, o, func(w *env) {
		w.deploy("predixy", 1)
		w.pod("redis-0")
		w.Start()
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
		for i := range 40 {
			w.pod(fmt.Sprint("redis-", i+1))
		}
		w.Pass(2 * time.Minute)
		w.WantCondition("rt", "Ready", "Unknown/OverBudget", "the pods of namespace default take",
			"raise --mirror-memory-mib")
		w.WantCondition("rt", "Stalled", "True/OverBudget")
		revision := w.revision("predixy")
		w.replace("redis-0")
		w.Pass(5 * time.Minute)
		w.Want("revision of predixy", w.revision("predixy"), revision)
		for i := range 40 {
			w.Delete(pods, fmt.Sprint("redis-", i+1))
		}
		w.Pass(20 * time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
	})
}
