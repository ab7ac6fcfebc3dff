package redis

import (
	"testing"
	"time"
)

// A pod that ends again and again is replaced at once the first time, then after 10 s, 20 s, 40 s ... 5 min, as a
// kubelet restarts a container that crashes.
//
// Rules: ERR-08
func TestAPodThatEndsAgainAndAgainIsReplacedLessAndLessOften(t *testing.T) {
	for image, how := range map[string]string{
		rejectedImage: "OutOfcpu: Pod was rejected",
		failingImage:  "container redis ended with exit code 1",
	} {
		t.Run(image, func(t *testing.T) {
			story(t, func(w *world) {
				w.Create("cache", `{"port":6379,"num":1,"image":"`+image+`"}`)
				w.Pass(30 * time.Second)
				w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-0", how, "20s")
				w.WantCondition("cache", "Ready", "False/PodEnded", "pod cache-0")
				w.Pass(30 * time.Second)
				w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-0", how, "40s")
				w.atMost("in the first minute", 6, 6, 30)
				w.Pass(9 * time.Minute) // made at 0, 0, 10, 30, 70, 150, 310, 610 s
				w.Forget()
				w.Pass(30 * time.Minute)
				w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-0", how, "5m")
				w.atMost("in half an hour", 7, 7, 40)
				w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`) // what is new is tried at once
				w.Pass(10 * time.Second)
				w.WantReady("cache")
				w.Stop()
				w.Want("Events about pods that ended", w.eventReasons("cache")["ReplacePod"] > 0, true)
			})
		})
	}
}

func (w *world) atMost(when string, posts, deletes, statuses int) {
	w.Helper()
	p, d, s := w.Count("POST pods"), w.Count("DELETE pods"), len(w.requests(true))
	if p > posts || d > deletes || s > statuses {
		w.Errorf("%s: %d POST, %d DELETE, %d status writes, want at most %d, %d and %d",
			when, p, d, s, posts, deletes, statuses)
	}
}

func TestAPodThatWasGoodForTenMinutesIsReplacedAtOnceAgain(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		for range 2 { // at once, and after ten seconds
			w.fail("cache-1")
			w.Pass(15 * time.Second)
			w.WantReady("cache")
		}
		w.Pass(10 * time.Minute)
		before := w.uids()
		w.fail("cache-1")
		w.Pass(5 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-1")
		w.WantReady("cache")
	})
}

func TestAPodThatEndsDoesNotHoldUpTheOthers(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		for range 2 {
			w.fail("cache-1")
			w.Pass(3 * time.Second)
		}
		before := w.uids()
		w.fail("cache-0")
		w.Delete(pods, "cache-2")
		w.Pass(4 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-0 cache-2")
		w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-1", "Evicted")
		w.Patch(resource, "cache", `{"spec":{"num":1}}`)
		w.Pass(5 * time.Second)
		w.wantPods("cache-0")
		w.WantReady("cache")
	})
}
