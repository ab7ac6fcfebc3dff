package webserver

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// delayEvents holds up all events of a resource.
func (w *world) delayEvents(r kube.Resource, d time.Duration) {
	w.API.Inject(apiserver.Fault{Verb: "watch", Resource: r.Plural, UserAgent: operatortest.Agent,
		Watch: apiserver.WatchFault{EventDelay: d}})
}

// Rules: CCH-11
func TestDelayedEventsMakeNoDuplicatesAndNoRepeatedWrites(t *testing.T) {
	story(t, func(w *world) {
		w.Stop()
		w.delayEvents(deployments, 4*time.Second)
		w.delayEvents(services, 4*time.Second)
		w.Start()
		w.Pass(10 * time.Second)
		w.Forget()
		w.Create("web", article)
		for i := range 8 { // each wakes the reconcile while the cache shows no children
			w.Patch(resource, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
		}
		w.Patch(resource, "web", `{"spec":{"replicas":5}}`)
		w.Want("replicas, before the cache has even seen the Deployment", w.replicas(), 5)
		w.WantCondition("web", "Ready", "False/RollingOut")
		for i := range 8 { // now it shows an old one
			w.Patch(resource, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, 10+i))
			w.Pass(time.Second)
		}
		w.Pass(time.Minute)
		if posts, applies := w.Count("POST"), w.Count("APPLY"); posts != 2 || applies != 1 {
			w.Errorf("%d POSTs and %d applies, want 2 and 1: %v", posts, applies, w.Requests())
		}
	})
}

// Rules: CCH-11, MGR-13
func TestOwnStatusWriteIsNotRepeatedFromAStaleCopy(t *testing.T) {
	story(t, func(w *world) {
		w.Stop()
		w.delayEvents(resource, 3*time.Second)
		w.Start()
		w.Pass(10 * time.Second)
		w.Create("web", article)
		w.Pass(3 * time.Second) // the event of the creation is here, that of the status is not
		since := func() any {
			return at(w.API.Get(resource, web("web")), "status", "conditions", 0, "lastTransitionTime")
		}
		before := since()
		w.Forget()
		for i := range 5 {
			w.Patch(deployments, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
		}
		w.WantRequests()
		w.Pass(2 * time.Second)
		w.PatchSub(deployments, "web", "status", `{"status":{"replicas":1}}`)
		w.WantRequests("PATCH webservers/web/status 200")
		w.Want("time of the transition", since(), before)
	})
}

// Rules: CCH-15
func TestMutedWatchIsReplacedByAFewLiveReads(t *testing.T) {
	story(t, func(w *world) {
		w.Stop()
		for _, r := range []kube.Resource{deployments, services} {
			w.API.Inject(apiserver.Fault{Verb: "watch", Resource: r.Plural, UserAgent: operatortest.Agent,
				Watch: apiserver.WatchFault{End: apiserver.EndSilent, Bookmarks: apiserver.BookmarksNever}})
		}
		w.API.Inject(apiserver.Fault{Verb: "list", Resource: "deployments", Times: 0, Skip: 1,
			UserAgent: operatortest.Agent, Cut: apiserver.Blackhole})
		w.Start()
		w.Pass(30 * time.Second)
		w.Forget()
		w.Create("web", article)
		w.Delete(deployments, "web") // nobody tells
		w.Pass(2 * time.Minute)
		if w.API.Get(deployments, web("web")) == nil {
			w.Error("the Deployment did not come back")
		}
		if n := w.Count("GET"); n == 0 || n > 20 {
			w.Errorf("%d live reads in two minutes: %v", n, w.Requests())
		}
	})
}

// Rules: CCH-12
func TestObjectThatIsGoneBeforeItsEventBlocksNobody(t *testing.T) {
	story(t, func(w *world) {
		w.Stop()
		w.delayEvents(deployments, 3*time.Second)
		w.Start()
		w.Pass(10 * time.Second)
		w.Create("web", article)
		first := at(w.API.Get(deployments, web("web")), "metadata", "uid")
		w.Delete(deployments, "web")
		w.Pass(30 * time.Second)
		second := at(w.API.Get(deployments, web("web")), "metadata", "uid")
		if second == nil || second == first {
			w.Errorf("uid of the Deployment is %v, was %v", second, first)
		}
	})
}

// Rules: WRT-13, WRT-14
func TestPostWithoutAnAnswerMakesOneChild(t *testing.T) {
	story(t, func(w *world) {
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", UserAgent: operatortest.Agent, Times: 1,
			Cut: apiserver.CutAfter})
		w.Create("web", article)
		w.Pass(10 * time.Second)
		w.Want("Deployments", len(w.API.List(deployments, "default")), 1)
		w.RollOut("web")
		w.WantCondition("web", "Ready", "True/Complete")
		w.WantCondition("web", "Degraded", "False/AsExpected")
	})
}

// Rules: WRT-02
func TestConflictsAreTriedAgainOnTheNewVersion(t *testing.T) {
	for _, code := range []int{http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable,
		http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			story(t, func(w *world) {
				w.Create("web", article)
				reason := map[int]string{409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable",
					429: "TooManyRequests"}[code]
				for _, r := range []string{"deployments", "webservers"} {
					w.API.Inject(apiserver.Fault{Verb: "patch", Resource: r, UserAgent: operatortest.Agent, Times: 3,
						Reply: &apiserver.Reply{Code: code, Reason: reason, Message: "try again"}})
				}
				w.Forget()
				w.Patch(resource, "web", `{"spec":{"image":"nginx:2"}}`)
				w.Pass(time.Minute)
				w.Want("image", w.container("image"), "nginx:2")
				w.RollOut("web")
				w.Pass(time.Minute)
				w.WantCondition("web", "Ready", "True/Complete")
				if n := len(w.Requests()); n > 20 {
					w.Errorf("%d requests: %v", n, w.Requests())
				}
			})
		})
	}
}

// The definition is one of somebody else, or was edited: the server says of each status that its object is not found.
func TestAStatusThatCannotBeWrittenForWantOfTheSubresourceIsToldWithoutALoop(t *testing.T) {
	story(t, func(w *world) {
		w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "webservers", Reply: &apiserver.Reply{Code: 404,
			ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"webservers.skiff.dev \"web\" not found","reason":"NotFound","details":{"name":"web",` +
				`"group":"skiff.dev","kind":"webservers"},"code":404}`}})
		w.Create("web", article)
		w.Pass(10 * time.Minute)
		w.Want("replicas", w.replicas(), 3)
		tries := 0
		for _, r := range w.API.Requests() {
			if r.Status == http.StatusNotFound {
				tries++
			}
		}
		if tries == 0 || tries > 40 {
			w.Errorf("the status was tried %d times in ten minutes", tries)
		}
	})
}

// The JSON patch that makes an entry of managedFields ours names it by its number, and tests the version that the
// number is of: where somebody writes between the read and the patch, the object is read again.
//
// Rules: WRT-07
func TestAnEntryOfManagedFieldsThatHasMovedIsLookedUpAgain(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Settle()
		w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "deployments", UserAgent: operatortest.Agent, Times: 1,
			Delay: 5 * time.Second})
		time.AfterFunc(2*time.Second, func() {
			if err := w.User.Patch(w.Context(), deployments, web("web"), kube.MergePatch,
				w.JSON(`{"metadata":{"annotations":{"example.com/a":"b"}}}`), nil,
				kube.WriteOptions{FieldManager: "another"}); err != nil {
				w.Error(err)
			}
		})
		w.Forget()
		w.Patch(resource, "web", `{"spec":{"image":"nginx:2"}}`)
		w.Pass(time.Minute)
		w.Want("image", w.container("image"), "nginx:2")
		w.Want("annotation", at(w.API.Get(deployments, web("web")), "metadata", "annotations", "example.com/a"), "b")
		refused := 0
		for _, r := range w.API.Requests() {
			if r.Status == http.StatusUnprocessableEntity {
				refused++
			}
		}
		w.Want("patches that were refused", refused, 1)
	})
}

// Rules: WRT-10
func TestDeploymentDeletedUnderAnApplyIsMadeByPostAlone(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Patch(resource, "web", `{"spec":{"replicas":2}}`) // the Deployment is ready for applies now
		w.Stop()
		w.delayEvents(deployments, 2*time.Second)
		w.Start()
		w.Pass(10 * time.Second)
		w.Forget()
		w.Delete(deployments, "web")
		w.Patch(resource, "web", `{"spec":{"replicas":6}}`) // the cache still has the old one
		w.Pass(30 * time.Second)
		w.Want("replicas", w.replicas(), 6)
		if w.Count("POST") != 1 || w.Count("APPLY deployments/web 20") != 0 {
			w.Errorf("requests: %v", w.Requests())
		}
	})
}

func TestFightIsPausedAndReported(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Forget()
		for range 20 {
			w.Patch(deployments, "web", `{"spec":{"replicas":1}}`)
			w.Pass(time.Second)
		}
		w.WantCondition("web", "Degraded", "True/Contested", `Deployment default/web: field manager "user"`,
			" changed spec.replicas 5 times in 4s; stop it, or set skiff.dev/paused: \"true\"; skiff tries again")
		if n := w.Count("APPLY"); n != 5 {
			w.Errorf("%d applies within %d seconds, want 5", n, 20)
		}
		// The advice is followed: of a paused one, skiff changes nothing, whoever goes on.
		w.Patch(resource, "web", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
		w.Forget()
		for range 90 {
			w.Patch(deployments, "web", `{"spec":{"replicas":1}}`)
			w.Pass(time.Second)
		}
		w.WantCondition("web", "Degraded", "False/AsExpected")
		w.Want("applies", w.Count("APPLY"), 0)
		w.Patch(resource, "web", `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`)
		w.Pass(2 * time.Minute)
		w.Want("replicas", w.replicas(), 3)
		w.WantCondition("web", "Degraded", "False/AsExpected")
	})
}

func TestDeletionsWithoutEndArePausedAndReported(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Forget()
		for range 20 {
			err := w.User.Delete(w.Context(), deployments, web("web"), kube.DeleteOptions{})
			if err != nil && !kube.IsNotFound(err) {
				w.Fatal(err)
			}
			w.Pass(time.Second)
		}
		w.WantCondition("web", "Degraded", "True/Contested")
		if n := w.Count("POST"); n != 5 {
			w.Errorf("%d POSTs within %d seconds, want 5", n, 20)
		}
		w.Pass(2 * time.Minute)
		w.Want("replicas", w.replicas(), 3)
		w.WantCondition("web", "Degraded", "False/AsExpected")
	})
}

func TestRefusedOverlayIsReportedAndNotSentAgainAndAgain(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.RollOut("web")
		for _, reply := range []apiserver.Reply{
			{Code: 422, ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,
				"message":"Deployment.apps \"web\" is invalid: restartPolicy","details":{"name":"web","group":"apps","kind":"Deployment"}}`},
			{Code: 500, Message: "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): " +
				".spec.template.spec.restartPolice: field not declared in schema"},
		} {
			remove := w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "deployments",
				UserAgent: operatortest.Agent, Reply: &reply})
			w.Patch(resource, "web", `{"spec":{"template":{"spec":{"restartPolicy":"Sometimes"}}}}`)
			w.WantCondition("web", "Stalled", "True/DeploymentRefused")
			w.WantCondition("web", "Ready", "False/DeploymentRefused")
			w.Forget()
			for i := range 10 {
				w.Patch(deployments, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
			}
			w.Pass(time.Hour)
			if n := w.Count("APPLY") + w.Count("JSONPATCH"); n > 25 {
				w.Errorf("%d: %d attempts in an hour", reply.Code, n)
			}
			if n := w.Count("PATCH webservers"); n > 0 {
				w.Errorf("%d: %d writes of the same status", reply.Code, n)
			}
			remove()
			w.Patch(resource, "web", `{"spec":{"template":null}}`)
			w.WantCondition("web", "Stalled", "False/AsExpected")
			w.WantCondition("web", "Ready", "True/Complete")
		}
	})
}

// older is the CRD without its validation and without scale, which validates too: as a cluster has it that was set up
// with an older one.
func older(definition []byte) []byte {
	return validation.ReplaceAll(definition, nil)
}

var validation = regexp.MustCompile(`(?m)^ *(min|max)(imum|Length): .*\n|^ *required: \[image\]\n|^ *scale:\n( *(spec|status)ReplicasPath: .*\n| *labelSelectorPath: .*\n)+`)

func TestInvalidSpecThatAnOlderDefinitionLetsInIsReportedWithoutALoop(t *testing.T) {
	o := options
	o.Definition = older
	storyWith(t, o, func(w *world) {
		w.Create("good", `{"image":"nginx","replicas":1}`)
		for name, spec := range map[string]string{"empty": `{"image":""}`, "negative": `{"image":"nginx","replicas":-1}`,
			"port": `{"image":"nginx","port":70000}`, "node": `{"image":"nginx","nodePort":80}`} {
			w.Forget()
			w.Create(name, spec)
			w.WantCondition(name, "Stalled", "True/InvalidSpec")
			w.Pass(time.Hour)
			w.WantRequests("PATCH webservers/" + name + "/status 200")
		}
		w.Patch(resource, "empty", `{"spec":{"image":"nginx"}}`)
		w.WantCondition("empty", "Stalled", "False/AsExpected")
		w.Want("Deployments", len(w.API.List(deployments, "default")), 2)
	})
}

func TestOneChildFailingDoesNotHoldUpTheOther(t *testing.T) {
	story(t, func(w *world) {
		remove := w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", UserAgent: operatortest.Agent,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}})
		w.Create("web", article)
		w.Want("node port", w.nodePort(), 30010)
		w.WantCondition("web", "Degraded", "True/DeploymentRefused")
		w.WantCondition("web", "Stalled", "False/AsExpected")
		w.Pass(12 * time.Minute)
		w.WantCondition("web", "Stalled", "True/DeploymentRefused")
		w.Forget()
		w.Pass(time.Hour)
		if n := len(w.Requests()); n > 15 {
			w.Errorf("%d requests in an hour of the longest interval: %v", n, w.Requests())
		}
		remove()
		w.Pass(10 * time.Minute)
		w.RollOut("web")
		w.WantCondition("web", "Ready", "True/Complete")
		w.WantCondition("web", "Stalled", "False/AsExpected")
	})
}

func TestMemoryGoesWithTheWebServer(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Delete(resource, "web")
		w.Create("web", `{"image":"other"}`) // its children are foreign to it until the garbage collector has come by
		w.Delete(deployments, "web")
		w.Delete(services, "web-service")
		w.Want("image", w.container("image"), "other")
	})
}

// After an outage the mirror of the children may be ahead of that of the WebServers. What went with its owner must not
// be made again, only to be collected again.
//
// Rules: CCH-24
func TestChildrenOfAWebServerThatIsGoneAreNotMadeAgain(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", `{"image":"nginx:1.23.1","replicas":1}`)
		w.Pass(time.Second)
		w.Stop()
		w.delayEvents(resource, time.Minute)
		w.Start()
		w.Pass(2 * time.Minute)
		w.Forget()
		w.Delete(resource, "web") // the controller does not hear of it
		w.Delete(deployments, "web")
		w.Delete(services, "web-service") // the garbage collector
		w.Pass(30 * time.Second)
		w.Want("POSTs for an owner that is gone", w.Count("POST"), 0)
		w.Want("reads of the owner", w.Count("GET webservers/web 404") > 0, true)
		w.Pass(2 * time.Minute)
		w.Want("Deployments", len(w.API.List(deployments, "")), 0)
	})
}

// Rules: CCH-15, WRT-02
func TestMutedWatchOfTheWebServersDoesNotHoldUpTheirStatus(t *testing.T) {
	story(t, func(w *world) {
		w.Stop()
		w.delayEvents(resource, time.Hour)
		w.Create("web", article)
		w.Start() // its list shows the WebServer; nothing more comes
		w.Pass(time.Minute)
		w.Forget()
		w.RollOut("web")
		w.Pass(time.Minute)
		w.WantCondition("web", "Ready", "True/Complete")
		if n := len(w.Requests()); n > 6 {
			w.Errorf("%d requests in a minute: %v", n, w.Requests())
		}
	})
}
