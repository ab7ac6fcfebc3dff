package redis

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// restart starts the controller anew, so that its watches meet a fault.
func (w *world) restart() {
	w.Helper()
	w.Stop()
	w.Start()
	w.Pass(5 * time.Minute) // the initial events come over the watch, too
	w.Forget()
}

// Rules: CCH-11, CCH-13
func TestDelayedEventsMakeNoSecondPodAndDeleteNone(t *testing.T) {
	story(t, func(w *world) {
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

// Rules: CCH-15
func TestAWatchThatIsSilentHoldsUpNothing(t *testing.T) {
	story(t, func(w *world) {
		w.API.Inject(apiserver.Fault{Verb: "watch", Resource: "pods", UserAgent: operatortest.Agent,
			Watch: apiserver.WatchFault{End: apiserver.EndSilent, After: 0, Bookmarks: apiserver.BookmarksNever}})
		w.restart()
		w.Create("cache", three)
		w.Pass(20 * time.Second)
		w.WantReady("cache")
		before := w.uids()
		w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.Pass(2 * time.Minute)
		w.Want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
		w.Delete(resource, "cache")
		w.Pass(time.Minute)
		w.wantPods("")
		w.Want("the Redis", w.redis("cache"), (*Redis)(nil))
		if n := len(w.requests(false)); n > 80 {
			t.Errorf("%d requests: %q", n, w.requests(false))
		}
	})
}

// Rules: WRT-16, WRT-17
func TestAPodThatTookThePlaceOfAnotherIsNotDeleted(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		w.API.Inject(apiserver.Fault{Verb: "watch", Resource: "pods", UserAgent: operatortest.Agent,
			Watch: apiserver.WatchFault{EventDelay: 20 * time.Second}})
		w.restart()
		w.DeleteNow(pods, "cache-2")
		w.Post(pods, foreignPod("cache-2", `{"app":"theirs"}`))
		survivor := w.pod("cache-2").UID
		w.Patch(resource, "cache", `{"spec":{"num":2}}`) // the cache still shows ours
		w.Want("the attempt", w.Count("DELETE pods/cache-2 409"), 1)
		w.Pass(2 * time.Minute)
		w.Want("the survivor", w.pod("cache-2").UID, survivor)
		w.WantReady("cache")
	})
}

// Rules: NET-08, WRT-14
func TestAPostWithoutAnAnswerMakesOnePod(t *testing.T) {
	story(t, func(w *world) {
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "pods", UserAgent: operatortest.Agent, Times: 2,
			Cut: apiserver.CutAfter})
		w.Create("cache", three)
		w.Pass(5 * time.Second)
		w.wantPods("cache-0 cache-1 cache-2")
		w.WantReady("cache")
		w.Want("events", w.eventReasons("cache")["PodFailed"], 0) // what passes in a moment is no news
	})
}

func TestMissingRightsAreReportedAndPickedUp(t *testing.T) {
	for _, test := range []struct {
		verb, resource string
		act            string
		reason, text   string
	}{
		{"delete", "pods", `{"spec":{"num":1}}`, "PodFailed", `cannot delete resource "pods"`},
		{"create", "pods", `{"spec":{"num":5}}`, "PodFailed", `cannot create resource "pods"`},
	} {
		t.Run(test.verb+" "+test.resource, func(t *testing.T) {
			story(t, func(w *world) {
				w.ready("cache", three)
				remove := w.API.Inject(apiserver.Fault{Verb: test.verb, Resource: test.resource,
					UserAgent: operatortest.Agent,
					Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden",
						Message: "User \"skiff\" " + test.text}})
				w.Patch(resource, "cache", test.act)
				w.WantCondition("cache", "Degraded", "True/"+test.reason, test.text,
					"skiff tries again within 30 seconds")
				w.WantCondition("cache", "Ready", "False/"+test.reason)
				w.Pass(20 * time.Minute)
				w.WantCondition("cache", "Stalled", "True/"+test.reason,
					"every 5 to 8 minutes, and at once when something changes")
				if n := len(w.requests(false)); n > 100 { // two a minute for the first ten, each with a look
					t.Errorf("%d requests in 20 minutes: no backoff", n)
				}
				remove()
				w.Pass(8 * time.Minute)
				w.WantReady("cache")
			})
		})
	}
}

func TestEventsThatAreForbiddenHoldUpNothing(t *testing.T) {
	story(t, func(w *world) {
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "events", Reply: &apiserver.Reply{Code: 403,
			Reason: "Forbidden", Message: "no"}})
		w.ready("cache", three)
		w.Delete(resource, "cache")
		w.Pass(10 * time.Second)
		w.Want("the Redis", w.redis("cache"), (*Redis)(nil))
	})
}

func TestAFinalizerThatMayNotBeSetIsReportedAndNoPodIsMade(t *testing.T) {
	story(t, func(w *world) {
		remove := w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "redis",
			Path: "/apis/skiff.dev/v1alpha1/namespaces/default/redis/cache", UserAgent: operatortest.Agent, Skip: 0,
			Times: 1,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "no patch for you"}})
		w.Create("cache", three)
		writes := slices.DeleteFunc(w.requests(false), func(r string) bool { return strings.HasPrefix(r, "GET ") })
		w.Want("finalizers and pods in order", writes[:2], []string{"PATCH redis/cache 403", "PATCH redis/cache 200"})
		remove()
		w.Pass(5 * time.Second)
		w.WantReady("cache")
	})
}

// older is the CRD without its validation and without scale, which validates too: as a cluster has it that was set
// up with an older one.
func older(definition []byte) []byte {
	return validation.ReplaceAll(definition, nil)
}

var validation = regexp.MustCompile(`(?m)^ *(min|max)(imum|Length): .*\n|^ *required: \[port, num\]\n|` +
	`^ *scale:\n( *(spec|status)ReplicasPath: .*\n| *labelSelectorPath: .*\n)+`)

func TestInvalidSpecThatAnOlderDefinitionLetsInIsReportedWithoutALoop(t *testing.T) {
	o := options
	o.Definition = older
	storyWith(t, o, func(w *world) {
		w.ready("good", three)
		for name, spec := range map[string]string{"empty": `{"port":6379,"num":1,"image":""}`,
			"negative": `{"port":6379,"num":-1}`,
			"port":     `{"port":80,"num":1}`, "none": `{"port":6379}`} {
			w.Forget()
			w.Create(name, spec)
			w.WantCondition(name, "Stalled", "True/InvalidSpec", "spec.", "correct the spec")
			w.WantCondition(name, "Ready", "False/InvalidSpec")
			w.Pass(20 * time.Minute)
			w.wantRequests()
			w.wantStatusWrites(1)
			w.Delete(resource, name)
			w.Want("the Redis", w.redis(name), (*Redis)(nil))
		}
		before := w.uids()
		w.Patch(resource, "good", `{"spec":{"num":-3}}`)
		w.WantCondition("good", "Stalled", "True/InvalidSpec", "spec.num")
		w.Want("replicas", w.redis("good").Status.Replicas, int32(3))
		w.Patch(resource, "good", `{"spec":{"num":3}}`)
		w.WantReady("good")
		w.Want("replaced", w.replaced(before), "")
	})
}

func TestTheDefinitionRefusesWhatIsOutOfRangeAndNamesIt(t *testing.T) {
	story(t, func(w *world) {
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
	story(t, func(w *world) {
		w.ready("cache", three)
		w.PatchSub(resource, "cache", "scale", `{"spec":{"replicas":1}}`)
		w.Pass(5 * time.Second)
		w.wantPods("cache-0")
		w.Want("num", *w.redis("cache").Spec.Num, int32(1))
		w.Want("selector", w.redis("cache").Status.Selector, operator.Selector(app, "cache"))
	})
}

func TestTheExampleIsGood(t *testing.T) {
	story(t, func(w *world) {
		w.PostYAML("/apis/skiff.dev/v1alpha1/namespaces/default/redis", exampleText(t))
		w.Pass(5 * time.Second)
		w.WantReady("cache")
		w.wantPods("cache-0 cache-1 cache-2")
	})
}
