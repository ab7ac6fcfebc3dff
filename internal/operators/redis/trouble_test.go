package redis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

// count returns how many of the controller's requests begin with a text.
func (w *world) count(prefix string) int {
	return len(slices.DeleteFunc(w.requests(false), func(r string) bool { return !strings.HasPrefix(r, prefix) }))
}

// restart starts the controller anew, so that its watches meet a fault.
func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
	w.pass(5 * time.Minute) // the initial events come over the watch, too
	w.forget()
}

// Rules: CCH-11, CCH-13
func TestDelayedEventsMakeNoSecondPodAndDeleteNone(t *testing.T) {
	story(t, func(w *world) {
		for _, r := range []string{"pods", "redis"} {
			w.api.Inject(fakeapi.Fault{Verb: "watch", Resource: r, UserAgent: agent, Watch: fakeapi.WatchFault{EventDelay: 2 * time.Second}})
		}
		w.restart()
		w.create("cache", three)
		w.pass(time.Minute)
		w.wantReady("cache")
		w.patch(resource, "cache", `{"spec":{"num":2}}`)
		w.pass(time.Minute)
		w.wantPods("cache-0 cache-1")
		before := w.uids()
		w.patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.pass(2 * time.Minute)
		w.want("replaced", w.replaced(before), "cache-0 cache-1")
		w.wantReady("cache")
		w.delete(resource, "cache")
		w.pass(time.Minute)
		w.wantPods("")
		w.want("the Redis", w.redis("cache"), (*Redis)(nil))
		for request, n := range map[string]int{"POST pods 201": 5, "POST pods 409": 0, "DELETE pods/": 5, "PATCH redis/cache ": 2} {
			if got := w.count(request); got != n {
				t.Errorf("%d times %q, want %d: %q", got, request, n, w.requests(false))
			}
		}
	})
}

// Rules: CCH-15
func TestAWatchThatIsSilentHoldsUpNothing(t *testing.T) {
	story(t, func(w *world) {
		w.api.Inject(fakeapi.Fault{Verb: "watch", Resource: "pods", UserAgent: agent,
			Watch: fakeapi.WatchFault{End: fakeapi.EndSilent, After: 0, Bookmarks: fakeapi.BookmarksNever}})
		w.restart()
		w.create("cache", three)
		w.pass(20 * time.Second)
		w.wantReady("cache")
		before := w.uids()
		w.patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.pass(2 * time.Minute)
		w.want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
		w.delete(resource, "cache")
		w.pass(time.Minute)
		w.wantPods("")
		w.want("the Redis", w.redis("cache"), (*Redis)(nil))
		if n := len(w.requests(false)); n > 80 {
			t.Errorf("%d requests: %q", n, w.requests(false))
		}
	})
}

// Rules: WRT-16, WRT-17
func TestAPodThatTookThePlaceOfAnotherIsNotDeleted(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		w.api.Inject(fakeapi.Fault{Verb: "watch", Resource: "pods", UserAgent: agent, Watch: fakeapi.WatchFault{EventDelay: 20 * time.Second}})
		w.restart()
		var none int64
		if err := w.user.Delete(w.Context(), pods, named("cache-2"), kube.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			t.Fatal(err)
		}
		w.foreignPod("cache-2", `{"app":"theirs"}`)
		survivor := w.pod("cache-2").UID
		w.patch(resource, "cache", `{"spec":{"num":2}}`) // the cache still shows ours
		w.want("the attempt", w.count("DELETE pods/cache-2 409"), 1)
		w.pass(2 * time.Minute)
		w.want("the survivor", w.pod("cache-2").UID, survivor)
		w.wantReady("cache")
	})
}

// Rules: NET-08, WRT-14
func TestAPostWithoutAnAnswerMakesOnePod(t *testing.T) {
	story(t, func(w *world) {
		w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "pods", UserAgent: agent, Times: 2, Cut: fakeapi.CutAfter})
		w.create("cache", three)
		w.pass(5 * time.Second)
		w.wantPods("cache-0 cache-1 cache-2")
		w.wantReady("cache")
		w.want("events", w.eventReasons("cache")["PodFailed"], 0) // what passes in a moment is no news
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
				remove := w.api.Inject(fakeapi.Fault{Verb: test.verb, Resource: test.resource, UserAgent: agent,
					Reply: &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "User \"skiff\" " + test.text}})
				w.patch(resource, "cache", test.act)
				w.wantCondition("cache", "Degraded", "True/"+test.reason, test.text, "skiff tries again within seconds")
				w.wantCondition("cache", "Ready", "False/"+test.reason)
				w.pass(20 * time.Minute)
				w.wantCondition("cache", "Stalled", "True/"+test.reason, "every 5 to 8 minutes, and at once when something changes")
				if n := len(w.requests(false)); n > 60 {
					t.Errorf("%d requests in 20 minutes: no backoff", n)
				}
				remove()
				w.pass(8 * time.Minute)
				w.wantReady("cache")
			})
		})
	}
}

func TestEventsThatAreForbiddenHoldUpNothing(t *testing.T) {
	story(t, func(w *world) {
		w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "events", Reply: &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "no"}})
		w.ready("cache", three)
		w.delete(resource, "cache")
		w.pass(10 * time.Second)
		w.want("the Redis", w.redis("cache"), (*Redis)(nil))
	})
}

func TestAFinalizerThatMayNotBeSetIsReportedAndNoPodIsMade(t *testing.T) {
	story(t, func(w *world) {
		remove := w.api.Inject(fakeapi.Fault{Verb: "patch", Resource: "redis", Path: "/apis/skiff.dev/v1alpha1/namespaces/default/redis/cache", UserAgent: agent, Skip: 0, Times: 1,
			Reply: &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "no patch for you"}})
		w.create("cache", three)
		w.want("finalizers and pods in order", w.requests(false)[:2], []string{"PATCH redis/cache 403", "PATCH redis/cache 200"})
		remove()
		w.pass(5 * time.Second)
		w.wantReady("cache")
	})
}

// older returns the CRD without its validation and without scale, which validates too: as a cluster has it that was set up
// with an older one.
func older(text []byte) []byte {
	validation := regexp.MustCompile(`(?m)^ *(min|max)(imum|Length): .*\n|^ *required: \[port, num\]\n|^ *scale:\n( *(spec|status)ReplicasPath: .*\n| *labelSelectorPath: .*\n)+`)
	return validation.ReplaceAll(text, nil)
}

func TestInvalidSpecThatAnOlderDefinitionLetsInIsReportedWithoutALoop(t *testing.T) {
	storyOn(t, older, fakeapi.Options{}, testr.New(t), func(w *world) {
		w.ready("good", three)
		for name, spec := range map[string]string{"empty": `{"port":6379,"num":1,"image":""}`, "negative": `{"port":6379,"num":-1}`,
			"port": `{"port":80,"num":1}`, "none": `{"port":6379}`} {
			w.forget()
			w.create(name, spec)
			w.wantCondition(name, "Stalled", "True/InvalidSpec", "spec.", "correct the spec")
			w.wantCondition(name, "Ready", "False/InvalidSpec")
			w.pass(20 * time.Minute)
			w.wantRequests()
			w.wantStatusWrites(1)
			w.delete(resource, name)
			w.want("the Redis", w.redis(name), (*Redis)(nil))
		}
		before := w.uids()
		w.patch(resource, "good", `{"spec":{"num":-3}}`)
		w.wantCondition("good", "Stalled", "True/InvalidSpec", "spec.num")
		w.want("replicas", w.redis("good").Status.Replicas, int32(3))
		w.patch(resource, "good", `{"spec":{"num":3}}`)
		w.wantReady("good")
		w.want("replaced", w.replaced(before), "")
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
			err := w.user.Create(w.Context(), resource, "default", w.json(fmt.Sprintf(`{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","metadata":{"name":"bad"},"spec":%s}`, spec)), nil, kube.WriteOptions{})
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
		if err := w.user.Patch(w.Context(), resource, named("cache"), kube.MergePatch, w.json(`{"spec":{"replicas":1}}`), nil, kube.WriteOptions{Subresource: "scale"}); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		w.wantPods("cache-0")
		w.want("num", *w.redis("cache").Spec.Num, int32(1))
		w.want("selector", w.redis("cache").Status.Selector, selector("cache"))
	})
}

func TestTheExampleIsGood(t *testing.T) {
	story(t, func(w *world) {
		w.apply("/apis/skiff.dev/v1alpha1/namespaces/default/redis", exampleText(t))
		w.pass(5 * time.Second)
		w.wantReady("cache")
		w.wantPods("cache-0 cache-1 cache-2")
	})
}
