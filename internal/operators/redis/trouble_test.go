package redis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// restart starts the controller anew, so that its watches meet a fault.
func (w *env) restart() {
	w.Helper()
	w.Stop()
	w.Start()
	w.Pass(5 * time.Minute) // the initial events come over the watch, too
	w.Forget()
}

// Rules: CCH-11, CCH-13
func TestDelayedEventsMakeNoSecondPodAndDeleteNone(t *testing.T) {
	story(t, func(w *env) {
		for _, r := range []string{"pods", "redis"} {
			w.API.Inject(apiserver.Fault{Verb: "watch", Resource: r, UserAgent: operatortest.Agent,
				Watch: apiserver.WatchFault{EventDelay: 2 * time.Second}})
		}
		w.restart()
		w.Create("cache", three)
		w.Pass(time.Minute)
		w.WantReady("cache")
		w.Patch(resource, "cache", `{"spec":{"num":2}}`)
		w.Pass(time.Minute)
		w.wantPods("cache-0 cache-1")
		before := w.uids()
		w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.Pass(2 * time.Minute)
		w.Want("replaced", w.replaced(before), "cache-0 cache-1")
		w.WantReady("cache")
		w.Delete(resource, "cache")
		w.Pass(time.Minute)
		w.wantPods("")
		w.Want("the Redis", w.redis("cache"), (*Redis)(nil))
		for request, n := range map[string]int{"POST pods 201": 5, "POST pods 409": 0, "DELETE pods/": 5,
			"PATCH redis/cache ": 2} {
			if got := w.Count(request); got != n {
				t.Errorf("%d times %q, want %d: %q", got, request, n, w.requests(false))
			}
		}
	})
}

// Rules: WRT-23
func TestNoPodIsMadeBeforeTheFinalizerIsSet(t *testing.T) {
	story(t, func(w *env) {
		w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "redis", UserAgent: operatortest.Agent, Times: 1,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "no patch for you"}})
		w.Create("cache", three)
		w.Pass(100 * time.Millisecond)
		writes := slices.DeleteFunc(w.Writes(), func(r string) bool { return strings.Contains(r, "/status ") })
		w.Want("first writes", writes[:3], []string{"PATCH redis/cache 403", "PATCH redis/cache 200",
			"POST services 201"})
		w.Pass(5 * time.Second)
		w.WantReady("cache")
	})
}

func TestTheDefinitionRefusesWhatIsOutOfRangeAndNamesIt(t *testing.T) {
	story(t, func(w *env) {
		for spec, words := range map[string][]string{
			`{"port":80,"num":1}`:              {"spec.port", "6370"},
			`{"port":6381,"num":1}`:            {"spec.port", "6380"},
			`{"port":6379,"num":-1}`:           {"spec.num", "0"},
			`{"port":6379}`:                    {"spec.num", "Required"},
			`{"num":1}`:                        {"spec.port", "Required"},
			`{"port":6379,"num":1,"image":""}`: {"spec.image"},
			`{"port":6379,"num":1,"config":{"appendonly":true}}`: {"spec.config.appendonly"},
		} {
			err := w.User.Create(w.Context(), resource, "default", w.JSON(w.Body("bad", spec)), nil,
				kube.WriteOptions{})
			if !kube.IsInvalid(err) {
				t.Errorf("%s: %v, want it refused", spec, err)
				continue
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %v, want it to say %s", spec, err, word)
				}
			}
		}
	})
}

func TestScaleSetsNum(t *testing.T) {
	story(t, func(w *env) {
		w.ready("cache", three)
		w.PatchSub(resource, "cache", "scale", `{"spec":{"replicas":1}}`)
		w.Pass(5 * time.Second)
		w.wantPods("cache-0")
		w.Want("num", *w.redis("cache").Spec.Num, int32(1))
		w.Want("selector", w.redis("cache").Status.Selector, operator.Selector(app, "cache"))
	})
}

func TestTheExampleIsGood(t *testing.T) {
	story(t, func(w *env) {
		w.PostYAML("/apis/skiff.dev/v1alpha1/namespaces/default/redis", exampleText(t))
		w.Pass(5 * time.Second)
		w.WantReady("cache")
		w.wantPods("cache-0 cache-1 cache-2")
	})
}

func TestARedisThatIsTooLargeIsLeftAloneAndCanBeDeleted(t *testing.T) {
	o := options
	o.Setup = controller.Setup{MirrorBytes: 10 << 20, ObjectBytes: 64 << 10}
	storyWith(t, o, func(w *env) {
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
	storyWith(t, o, func(w *env) {
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

// Rules: MGR-15, WRT-14
func TestKillingTheControllerAtAnyRequestChangesNothingInTheEnd(t *testing.T) {
	operatortest.KillAtAnyRequest(t, options, func(ow *operatortest.Env, start func(), pass func(time.Duration)) {
		w := &env{ow, startNode(ow)}
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
