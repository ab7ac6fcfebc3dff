package operator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// delayed restarts the controller with all events of the resources held up.
func delayed(w *operatortest.Env, d time.Duration, resources ...kube.Resource) {
	w.Stop()
	for _, r := range resources {
		w.API.Inject(apiserver.Fault{Verb: "watch", Resource: r.Plural, UserAgent: operatortest.Agent,
			Watch: apiserver.WatchFault{EventDelay: d}})
	}
	w.Start()
	w.Pass(2*d + 10*time.Second)
	w.Forget()
}

// failing makes requests fail until remove is called.
func failing(w *operatortest.Env, verb, resource string, times, code int, reason, message string) (remove func()) {
	return w.API.Inject(apiserver.Fault{Verb: verb, Resource: resource, UserAgent: operatortest.Agent, Times: times,
		Reply: &apiserver.Reply{Code: code, Reason: reason, Message: message}})
}

func text(w *operatortest.Env) any { return at(get(w, configMaps, "a"), "data", "index.html") }

// Rules: CCH-11
func TestDelayedEventsMakeNoDuplicatesAndNoRepeatedWrites(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		delayed(w, 4*time.Second, deployments, services, configMaps)
		w.Create("a", hello)
		w.Patch(pages, "a", `{"spec":{"text":"other"}}`)
		w.Want("text, before the cache has even seen the ConfigMap", text(w), "other")
		for i := range 12 { // each wakes the reconcile while the cache shows no children, or an old one
			w.Patch(pages, "a", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
			w.Pass(time.Second)
		}
		w.Pass(time.Minute)
		if posts, applies := w.Count("POST"), w.Count("APPLY"); posts != 3 || applies != 1 {
			t.Errorf("%d POSTs and %d applies, want 3 and 1: %v", posts, applies, w.Requests())
		}
	})
}

// Rules: CCH-11, MGR-13
func TestOwnStatusWriteIsNotRepeatedFromAStaleCopy(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		delayed(w, 3*time.Second, pages)
		w.Create("a", hello)
		w.Pass(3 * time.Second) // the event of the creation is here, that of the status is not
		since := func() any { return at(get(w, pages, "a"), "status", "conditions", 0, "lastTransitionTime") }
		before := since()
		w.Forget()
		for i := range 5 {
			w.Patch(deployments, "a", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
		}
		w.WantRequests()
		w.Pass(2 * time.Second)
		w.PatchSub(deployments, "a", "status", `{"status":{"observedGeneration":1,"replicas":1}}`)
		w.WantRequests("PATCH pages/a/status 200")
		w.Want("time of the transition", since(), before)
	})
}

// A status is about the version that was read: where the Page has changed since, it is read before the next write.
//
// Rules: WRT-02
func TestAStatusIsNotWrittenOntoAnotherVersion(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		delayed(w, 5*time.Second, pages)
		w.Create("a", hello)
		w.Pass(10 * time.Second)
		w.Forget()
		w.Patch(pages, "a", `{"spec":{"replicas":2}}`) // the cache does not show it yet
		w.RollOut("a")
		w.Want("writes onto the old version", w.Count("PATCH pages/a/status 409"), 1)
		w.Pass(time.Second)
		w.Want("replicas, by what was read then", at(get(w, deployments, "a"), "spec", "replicas"), 2)
		w.RollOut("a")
		w.Pass(time.Minute)
		w.WantReady("a")
	})
}

// Rules: CCH-15, WRT-02
func TestMutedWatchOfTheOwnersDoesNotHoldUpTheirStatus(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Stop()
		w.Create("a", hello)
		delayed(w, time.Hour, pages) // its list shows the Page; nothing more comes
		w.Forget()
		w.RollOut("a")
		w.Pass(time.Minute)
		w.WantReady("a")
		if n := len(w.Requests()); n > 6 {
			t.Errorf("%d requests in a minute: %v", n, w.Requests())
		}
	})
}

// Rules: CCH-15
func TestMutedWatchIsReplacedByAFewLiveReads(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Stop()
		w.API.Inject(apiserver.Fault{Verb: "watch", Resource: "configmaps", UserAgent: operatortest.Agent,
			Watch: apiserver.WatchFault{End: apiserver.EndSilent, Bookmarks: apiserver.BookmarksNever}})
		w.API.Inject(apiserver.Fault{Verb: "list", Resource: "configmaps", Skip: 1, UserAgent: operatortest.Agent,
			Cut: apiserver.Blackhole})
		w.Start()
		w.Pass(30 * time.Second)
		w.Forget()
		w.Create("a", hello)
		w.Delete(configMaps, "a") // no event comes
		w.Pass(2 * time.Minute)
		w.Want("text", text(w), "hello")
		if n := w.Count("GET"); n == 0 || n > 20 {
			t.Errorf("%d live reads in two minutes: %v", n, w.Requests())
		}
	})
}

// Rules: CCH-12
func TestAnObjectThatIsGoneBeforeItsEventBlocksNothing(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		delayed(w, 3*time.Second, configMaps)
		w.Create("a", hello)
		first := uidOf(w, configMaps)
		w.Delete(configMaps, "a")
		w.Pass(30 * time.Second)
		if second := uidOf(w, configMaps); second == nil || second == first {
			t.Errorf("uid of the ConfigMap is %v, was %v", second, first)
		}
	})
}

// Rules: NET-08, WRT-13, WRT-14
func TestPostWithoutAnAnswerMakesOneChild(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", UserAgent: operatortest.Agent, Times: 1,
			Cut: apiserver.CutAfter})
		w.Create("a", hello)
		w.Pass(10 * time.Second)
		w.Want("Deployments", len(w.API.List(deployments, "default")), 1)
		w.RollOut("a")
		w.WantReady("a")
		// What passes in a moment is no news.
		w.Want("Events", w.EventLines("a"), []string{"Normal Create", "Normal Ready"})
	})
}

// Rules: WRT-02
func TestConflictsAndOutagesAreTriedAgainOnTheNewVersion(t *testing.T) {
	for code, reason := range map[int]string{409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable",
		429: "TooManyRequests"} {
		t.Run(reason, func(t *testing.T) {
			story(t, func(w *operatortest.Env) {
				w.Create("a", hello)
				failing(w, "patch", "configmaps", 3, code, reason, "try again")
				failing(w, "patch", "pages", 3, code, reason, "try again")
				w.Forget()
				w.Patch(pages, "a", `{"spec":{"text":"other"}}`)
				w.Pass(time.Minute)
				w.Want("text", text(w), "other")
				w.RollOut("a")
				w.Pass(time.Minute)
				w.WantReady("a")
				if n := len(w.Requests()); n > 20 {
					t.Errorf("%d requests: %v", n, w.Requests())
				}
			})
		})
	}
}

// The definition belongs to others, or was edited: the server says of each status that its object is not found.
func TestAStatusWithoutTheSubresourceIsReportedWithoutALoop(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "pages", Reply: &apiserver.Reply{Code: 404,
			ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"pages.example.com \"a\" not found","reason":"NotFound","details":{"name":"a",` +
				`"group":"example.com","kind":"pages"},"code":404}`}})
		w.Create("a", hello)
		w.Pass(10 * time.Minute)
		w.Want("text", text(w), "hello")
		if n := w.Count("PATCH pages/a/status 404"); n == 0 || n > 40 {
			t.Errorf("the status was tried %d times in ten minutes", n)
		}
	})
}

// The JSON patch that makes an entry of managedFields ours names it by its number, and tests the version that the
// number is of: where another manager writes between the read and the patch, the object is read again.
//
// Rules: WRT-07
func TestAnEntryOfManagedFieldsThatHasMovedIsLookedUpAgain(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "configmaps", UserAgent: operatortest.Agent, Times: 1,
			Delay: 5 * time.Second})
		time.AfterFunc(2*time.Second, func() {
			if err := w.User.Patch(w.Context(), configMaps, operatortest.Named("a"), kube.MergePatch,
				w.JSON(`{"data":{"b":"c"}}`), nil, kube.WriteOptions{FieldManager: "another"}); err != nil {
				w.Error(err)
			}
		})
		w.Forget()
		w.Patch(pages, "a", `{"spec":{"text":"other"}}`)
		w.Pass(time.Minute)
		w.Want("data", at(get(w, configMaps, "a"), "data"), map[string]any{"index.html": "other", "b": "c"})
		w.Want("patches that were refused", w.Count("JSONPATCH configmaps/a 422"), 1)
	})
}

// Rules: WRT-10
func TestAChildDeletedUnderAnApplyIsMadeByPostAlone(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		w.Patch(pages, "a", `{"spec":{"text":"other"}}`) // the ConfigMap is ready for applies now
		delayed(w, 2*time.Second, configMaps)
		w.Delete(configMaps, "a")
		w.Patch(pages, "a", `{"spec":{"text":"third"}}`) // the cache still has the old one
		w.Pass(30 * time.Second)
		w.Want("text", text(w), "third")
		if w.Count("POST") != 1 || w.Count("APPLY configmaps/a 20") != 0 {
			t.Errorf("requests: %v", w.Requests())
		}
	})
}

func TestAFightIsPausedAndReportedAndTheAdviceHelps(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		w.RollOut("a")
		w.Forget()
		fight := func(seconds int) {
			for range seconds {
				w.Patch(configMaps, "a", `{"data":{"index.html":"defaced"}}`)
				w.Pass(time.Second)
			}
		}
		fight(20)
		w.WantCondition("a", "Degraded", "True/Contested", `ConfigMap default/a cannot be kept`,
			`field manager "user" keeps changing data.index.html; stop it, or set skiff.dev/paused: "true"; skiff tries again`)
		w.Want("applies", w.Count("APPLY"), 5)
		w.Patch(pages, "a", pause)
		w.Forget()
		fight(90)
		w.WantCondition("a", "Degraded", "False/AsExpected")
		w.Want("applies", w.Count("APPLY"), 0)
		w.Patch(pages, "a", resume)
		w.Pass(2 * time.Minute)
		w.Want("text", text(w), "hello")
		w.WantReady("a")
		w.Stop() // sends the last Events
		w.Want("Events", w.EventLines("a"), []string{"Normal ApplyConfigMap ConfigMap/a", "Normal Create",
			"Normal Paused", "Normal Ready", "Normal Resumed", "Warning Contested ConfigMap/a"})
	})
}

func TestDeletionsWithoutEndArePausedAndReported(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		w.Forget()
		for range 20 {
			err := w.User.Delete(w.Context(), configMaps, operatortest.Named("a"), kube.DeleteOptions{})
			if err != nil && !kube.IsNotFound(err) {
				t.Fatal(err)
			}
			w.Pass(time.Second)
		}
		w.WantCondition("a", "Degraded", "True/Contested", "ConfigMap default/a is deleted again and again")
		w.Want("POSTs within 20 seconds", w.Count("POST"), 11) // ten within ten seconds, then one in twenty
		w.Pass(2 * time.Minute)
		w.Want("text", text(w), "hello")
		w.WantCondition("a", "Degraded", "False/AsExpected")
	})
}

func TestARefusedChangeIsReportedAndNotSentAgainAndAgain(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		w.RollOut("a")
		for i, reply := range []apiserver.Reply{
			{Code: 422, ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,
				"message":"Deployment.apps \"a\" is invalid: no","details":{"name":"a","group":"apps","kind":"Deployment"}}`},
			{Code: 500, Message: "failed to create typed patch object (default/a; apps/v1, Kind=Deployment): " +
				".spec.template.spec.restartPolice: field not declared in schema"},
		} {
			remove := w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "deployments",
				UserAgent: operatortest.Agent, Reply: &reply})
			w.Patch(pages, "a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 3+i))
			w.WantCondition("a", "Stalled", "True/DeploymentRefused", "correct the spec")
			w.WantCondition("a", "Ready", "False/DeploymentRefused")
			w.Forget()
			for i := range 10 {
				w.Patch(services, "a", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
			}
			w.Pass(time.Hour)
			if n := len(w.Requests()); n > 25 {
				t.Errorf("%d: %d requests in an hour: %v", reply.Code, n, w.Requests())
			}
			w.Want("writes of the same status", w.Count("PATCH pages"), 0)
			remove()
			w.Patch(pages, "a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 5+i))
			w.RollOut("a")
			w.WantReady("a")
		}
	})
}

// What passes in time is no reason for Stalled, however long it lasts.
func TestAnOutageIsReportedOnceAndIsNoReasonToBeStalled(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		remove := failing(w, "create", "deployments", 0, 503, "ServiceUnavailable", "the webhook is starting")
		w.Create("a", hello)
		w.Pass(10 * time.Minute)
		w.WantCondition("a", "Degraded", "True/DeploymentFailed",
			"the webhook is starting", "skiff tries again")
		w.WantCondition("a", "Stalled", "False/AsExpected")
		w.Forget()
		w.Pass(30 * time.Minute)
		w.Want("writes of the status that say nothing new", w.Count("PATCH"), 0)
		remove()
		w.Pass(2 * time.Minute)
		w.RollOut("a")
		w.WantReady("a")
	})
}

func TestOneChildFailingDoesNotHoldUpTheOthersAndIsStalledInTheEnd(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		remove := failing(w, "create", "deployments", 0, 403, "Forbidden", "exceeded quota")
		w.Create("a", hello)
		w.Want("text", text(w), "hello")
		w.WantCondition("a", "Degraded", "True/DeploymentRefused")
		w.WantCondition("a", "Stalled", "False/AsExpected")
		w.Pass(12 * time.Minute)
		w.WantCondition("a", "Stalled", "True/DeploymentRefused", "exceeded quota",
			"raise the quota or ask for less, skiff tries again")
		w.Want("Events", w.EventLines("a"), []string{"Normal Create", "Warning DeploymentRefused Deployment/a"})
		w.Forget()
		w.Pass(time.Hour)
		if n := len(w.Requests()); n == 0 || n > 15 {
			t.Errorf("%d requests in an hour of the longest interval: %v", n, w.Requests())
		}
		remove()
		w.Pass(10 * time.Minute)
		w.RollOut("a")
		w.WantReady("a")
	})
}

// After an outage the mirror of the children may be ahead of that of their owners. What went with its owner must not
// be made again, only to be collected again.
//
// Rules: CCH-24
func TestChildrenOfAnOwnerThatIsGoneAreNotMadeAgain(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		delayed(w, time.Minute, pages)
		w.Delete(pages, "a") // the controller does not hear of it
		for _, r := range []kube.Resource{deployments, configMaps, services} {
			w.Delete(r, "a") // the garbage collector
		}
		w.Pass(30 * time.Second)
		w.Want("POSTs for an owner that is gone", w.Count("POST"), 0)
		w.Want("reads of the owner", w.Count("GET pages/a 404") > 0, true)
		w.Pass(2 * time.Minute)
		w.Want("Deployments", len(w.API.List(deployments, "")), 0)
	})
}

func TestEventsThatAreForbiddenHoldUpNothing(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		failing(w, "create", "events", 0, http.StatusForbidden, "Forbidden", "no")
		w.Create("a", hello)
		w.RollOut("a")
		w.WantReady("a")
		w.Want("Events", w.EventLines("a"), []string(nil))
	})
}

func TestChildrenOfAllComeBeforeTheStatusOfOneWhereManyWait(t *testing.T) {
	o := options
	o.Setup.Workers = 1
	storyWith(t, o, func(w *operatortest.Env) {
		names := []string{"a", "b", "c", "d"}
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", Times: 1, Delay: time.Second})
		for _, name := range names { // the others wait for the worker that makes the children of the first
			w.Create(name, hello)
		}
		w.Pass(2 * time.Second)
		wrote := w.Writes()
		last := slices.IndexFunc(wrote, func(r string) bool { return strings.HasPrefix(r, "PATCH") })
		w.Want("writes before the first status", last, 3*len(names))
		for _, name := range names {
			w.WantCondition(name, "Ready", "False/RollingOut")
		}
		w.Want("status writes", w.Count("PATCH"), len(names))
	})
}

// Two processes without an election: an upgrade, or `skiff run` beside skiff-dev. What one says of an object, the
// other says, too, and a write of its status alone is no reason for another try.
func TestTwoProcessesDoNotRewriteEachOthersStatus(t *testing.T) {
	for name, reply := range map[string]apiserver.Reply{
		"refused":   {Code: 422, Reason: "Invalid", Message: "no such field"},
		"forbidden": {Code: 403, Reason: "Forbidden", Message: "no create for you"},
		"down":      {Code: 503, Reason: "ServiceUnavailable", Message: "the webhook is starting"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *operatortest.Env) {
				remove := failing(w, "create", "deployments", 0, reply.Code, reply.Reason, reply.Message)
				first := w.Stop
				w.Start()
				second := w.Stop
				w.Stop = func() { second(); first() }
				w.Create("a", hello)
				w.Pass(20 * time.Minute)
				w.Forget()
				w.Pass(time.Hour)
				w.Want("writes of the status in an hour", w.Count("PATCH"), 0)
				w.Forget()
				for i := range 10 {
					w.PatchSub(pages, "a", "status", fmt.Sprintf(`{"status":{"observedGeneration":%d}}`, 50+i))
					w.Pass(100 * time.Millisecond)
				}
				// Each process may have had a try of its own within that second; the next is a minute away.
				if tries := w.Count("POST deployments"); tries > 2 {
					w.T.Errorf("%d tries after ten foreign writes of the status", tries)
				}
				remove()
				w.Pass(10 * time.Minute)
				w.RollOut("a")
				w.WantReady("a")
				w.Forget()
				w.Pass(time.Minute)
				w.Want("writes in a quiet minute", len(w.Writes()), 0)
			})
		})
	}
}
