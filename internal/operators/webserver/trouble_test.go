package webserver

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"skiff/crds"
	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

// count returns how many of the controller's requests begin with prefix.
func (w *world) count(prefix string) int {
	n := 0
	for _, r := range w.requests() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// delayEvents holds up all events of a resource.
func (w *world) delayEvents(r kube.Resource, d time.Duration) {
	w.api.Inject(fakeapi.Fault{Verb: "watch", Resource: r.Plural, UserAgent: agent, Watch: fakeapi.WatchFault{EventDelay: d}})
}

// Rules: CCH-11
func TestDelayedEventsMakeNoDuplicatesAndNoRepeatedWrites(t *testing.T) {
	story(t, func(w *world) {
		w.stop()
		w.delayEvents(deployments, 4*time.Second)
		w.delayEvents(services, 4*time.Second)
		w.start()
		w.pass(10 * time.Second)
		w.forget()
		w.create("web", article)
		for i := range 8 { // each wakes the reconcile while the cache shows no children
			w.patch(resource, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
		}
		w.patch(resource, "web", `{"spec":{"replicas":5}}`)
		w.want("replicas, before the cache has even seen the Deployment", w.replicas(), 5)
		w.wantCondition("web", "Ready", "False/RollingOut")
		for i := range 8 { // now it shows an old one
			w.patch(resource, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, 10+i))
			w.pass(time.Second)
		}
		w.pass(time.Minute)
		if posts, applies := w.count("POST"), w.count("APPLY"); posts != 2 || applies != 1 {
			w.Errorf("%d POSTs and %d applies, want 2 and 1: %v", posts, applies, w.requests())
		}
	})
}

// Rules: CCH-11, MGR-13
func TestOwnStatusWriteIsNotRepeatedFromAStaleCopy(t *testing.T) {
	story(t, func(w *world) {
		w.stop()
		w.delayEvents(resource, 3*time.Second)
		w.start()
		w.pass(10 * time.Second)
		w.create("web", article)
		w.pass(3 * time.Second) // the event of the creation is here, that of the status is not
		since := func() any {
			return at(w.api.Get(resource, web("web")), "status", "conditions", 0, "lastTransitionTime")
		}
		before := since()
		w.forget()
		for i := range 5 {
			w.patch(deployments, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
		}
		w.wantRequests()
		w.pass(2 * time.Second)
		w.patchSub(deployments, "web", "status", `{"status":{"replicas":1}}`)
		w.wantRequests("PATCH webservers/web/status 200")
		w.want("time of the transition", since(), before)
	})
}

// Rules: CCH-15
func TestMutedWatchIsReplacedByAFewLiveReads(t *testing.T) {
	story(t, func(w *world) {
		w.stop()
		for _, r := range []kube.Resource{deployments, services} {
			w.api.Inject(fakeapi.Fault{Verb: "watch", Resource: r.Plural, UserAgent: agent, Watch: fakeapi.WatchFault{End: fakeapi.EndSilent, Bookmarks: fakeapi.BookmarksNever}})
		}
		w.api.Inject(fakeapi.Fault{Verb: "list", Resource: "deployments", Times: 0, Skip: 1, UserAgent: agent, Cut: fakeapi.Blackhole})
		w.start()
		w.pass(30 * time.Second)
		w.forget()
		w.create("web", article)
		w.delete(deployments, "web") // nobody tells
		w.pass(2 * time.Minute)
		if w.api.Get(deployments, web("web")) == nil {
			w.Error("the Deployment did not come back")
		}
		if n := w.count("GET"); n == 0 || n > 20 {
			w.Errorf("%d live reads in two minutes: %v", n, w.requests())
		}
	})
}

// Rules: CCH-12
func TestObjectThatIsGoneBeforeItsEventBlocksNobody(t *testing.T) {
	story(t, func(w *world) {
		w.stop()
		w.delayEvents(deployments, 3*time.Second)
		w.start()
		w.pass(10 * time.Second)
		w.create("web", article)
		first := at(w.api.Get(deployments, web("web")), "metadata", "uid")
		w.delete(deployments, "web")
		w.pass(30 * time.Second)
		second := at(w.api.Get(deployments, web("web")), "metadata", "uid")
		if second == nil || second == first {
			w.Errorf("uid of the Deployment is %v, was %v", second, first)
		}
	})
}

// Rules: WRT-13, WRT-14
func TestPostWithoutAnAnswerMakesOneChild(t *testing.T) {
	story(t, func(w *world) {
		w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "deployments", UserAgent: agent, Times: 1, Cut: fakeapi.CutAfter})
		w.create("web", article)
		w.pass(10 * time.Second)
		w.want("Deployments", len(w.api.List(deployments, "default")), 1)
		w.rollOut("web")
		w.wantCondition("web", "Ready", "True/Complete")
		w.wantCondition("web", "Degraded", "False/AsExpected")
	})
}

// Rules: WRT-02
func TestConflictsAreTriedAgainOnTheNewVersion(t *testing.T) {
	for _, code := range []int{http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			story(t, func(w *world) {
				w.create("web", article)
				reason := map[int]string{409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable", 429: "TooManyRequests"}[code]
				for _, r := range []string{"deployments", "webservers"} {
					w.api.Inject(fakeapi.Fault{Verb: "patch", Resource: r, UserAgent: agent, Times: 3, Reply: &fakeapi.Reply{Code: code, Reason: reason, Message: "try again"}})
				}
				w.forget()
				w.patch(resource, "web", `{"spec":{"image":"nginx:2"}}`)
				w.pass(time.Minute)
				w.want("image", w.container("image"), "nginx:2")
				w.rollOut("web")
				w.pass(time.Minute)
				w.wantCondition("web", "Ready", "True/Complete")
				if n := len(w.requests()); n > 20 {
					w.Errorf("%d requests: %v", n, w.requests())
				}
			})
		})
	}
}

// Rules: WRT-10
func TestDeploymentDeletedUnderAnApplyIsMadeByPostAlone(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.patch(resource, "web", `{"spec":{"replicas":2}}`) // the Deployment is ready for applies now
		w.stop()
		w.delayEvents(deployments, 2*time.Second)
		w.start()
		w.pass(10 * time.Second)
		w.forget()
		w.delete(deployments, "web")
		w.patch(resource, "web", `{"spec":{"replicas":6}}`) // the cache still has the old one
		w.pass(30 * time.Second)
		w.want("replicas", w.replicas(), 6)
		if w.count("POST") != 1 || w.count("APPLY deployments/web 20") != 0 {
			w.Errorf("requests: %v", w.requests())
		}
	})
}

func TestFightIsPausedAndReported(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.forget()
		for range 20 {
			w.patch(deployments, "web", `{"spec":{"replicas":1}}`)
			w.pass(time.Second)
		}
		w.wantCondition("web", "Degraded", "True/Contested")
		if n := w.count("APPLY"); n != 5 {
			w.Errorf("%d applies within %d seconds, want 5", n, 20)
		}
		w.pass(2 * time.Minute)
		w.want("replicas", w.replicas(), 3)
		w.wantCondition("web", "Degraded", "False/AsExpected")
	})
}

func TestDeletionsWithoutEndArePausedAndReported(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.forget()
		for range 20 {
			err := w.user.Delete(w.Context(), deployments, web("web"), kube.DeleteOptions{})
			if err != nil && !kube.IsNotFound(err) {
				w.Fatal(err)
			}
			w.pass(time.Second)
		}
		w.wantCondition("web", "Degraded", "True/Contested")
		if n := w.count("POST"); n != 5 {
			w.Errorf("%d POSTs within %d seconds, want 5", n, 20)
		}
		w.pass(2 * time.Minute)
		w.want("replicas", w.replicas(), 3)
		w.wantCondition("web", "Degraded", "False/AsExpected")
	})
}

func TestRefusedOverlayIsReportedAndNotSentAgainAndAgain(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.rollOut("web")
		for _, reply := range []fakeapi.Reply{
			{Code: 422, ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,
				"message":"Deployment.apps \"web\" is invalid: restartPolicy","details":{"name":"web","group":"apps","kind":"Deployment"}}`},
			{Code: 500, Message: "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): .spec.template.spec.restartPolice: field not declared in schema"},
		} {
			remove := w.api.Inject(fakeapi.Fault{Verb: "patch", Resource: "deployments", UserAgent: agent, Reply: &reply})
			w.patch(resource, "web", `{"spec":{"template":{"spec":{"restartPolicy":"Sometimes"}}}}`)
			w.wantCondition("web", "Stalled", "True/DeploymentRefused")
			w.wantCondition("web", "Ready", "False/DeploymentRefused")
			w.forget()
			for i := range 10 {
				w.patch(deployments, "web", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
			}
			w.pass(time.Hour)
			if n := w.count("APPLY") + w.count("MIGRATE"); n > 25 {
				w.Errorf("%d: %d attempts in an hour", reply.Code, n)
			}
			if n := w.count("PATCH webservers"); n > 0 {
				w.Errorf("%d: %d writes of the same status", reply.Code, n)
			}
			remove()
			w.patch(resource, "web", `{"spec":{"template":null}}`)
			w.wantCondition("web", "Stalled", "False/AsExpected")
			w.wantCondition("web", "Ready", "True/Complete")
		}
	})
}

// older returns the CRD without its validation and without scale, which validates too: as a cluster has it that was set
// up with an older one.
func older() [][]byte {
	validation := regexp.MustCompile(`(?m)^ *(min|max)(imum|Length): .*\n|^ *required: \[image\]\n|^ *scale:\n( *(spec|status)ReplicasPath: .*\n| *labelSelectorPath: .*\n)+`)
	var out [][]byte
	for _, text := range crds.All() {
		out = append(out, validation.ReplaceAll(text, nil))
	}
	return out
}

func TestInvalidSpecThatAnOlderDefinitionLetsInIsReportedWithoutALoop(t *testing.T) {
	storyWith(t, older(), func(w *world) {
		w.create("good", `{"image":"nginx","replicas":1}`)
		for name, spec := range map[string]string{"empty": `{"image":""}`, "negative": `{"image":"nginx","replicas":-1}`,
			"port": `{"image":"nginx","port":70000}`, "node": `{"image":"nginx","nodePort":80}`} {
			w.forget()
			w.create(name, spec)
			w.wantCondition(name, "Stalled", "True/InvalidSpec")
			w.pass(time.Hour)
			w.wantRequests("PATCH webservers/" + name + "/status 200")
		}
		w.patch(resource, "empty", `{"spec":{"image":"nginx"}}`)
		w.wantCondition("empty", "Stalled", "False/AsExpected")
		w.want("Deployments", len(w.api.List(deployments, "default")), 2)
	})
}

func TestOneChildFailingDoesNotHoldUpTheOther(t *testing.T) {
	story(t, func(w *world) {
		remove := w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "deployments", UserAgent: agent,
			Reply: &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}})
		w.create("web", article)
		w.want("node port", w.nodePort(), 30010)
		w.wantCondition("web", "Degraded", "True/DeploymentFailed")
		w.wantCondition("web", "Stalled", "False/AsExpected")
		w.pass(time.Minute)
		w.wantCondition("web", "Stalled", "True/DeploymentFailed")
		w.forget()
		w.pass(time.Hour)
		if n := len(w.requests()); n > 15 {
			w.Errorf("%d requests in an hour of the slow lane: %v", n, w.requests())
		}
		remove()
		w.pass(10 * time.Minute)
		w.rollOut("web")
		w.wantCondition("web", "Ready", "True/Complete")
		w.wantCondition("web", "Stalled", "False/AsExpected")
	})
}

func TestMemoryGoesWithTheWebServer(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.delete(resource, "web")
		w.create("web", `{"image":"other"}`) // its children are foreign to it until the garbage collector has come by
		w.delete(deployments, "web")
		w.delete(services, "web-service")
		w.want("image", w.container("image"), "other")
	})
}

// After an outage the mirror of the children may be ahead of that of the WebServers. What went with its owner must not be
// made again, only to be collected again.
//
// Rules: CCH-24
func TestChildrenOfAWebServerThatIsGoneAreNotMadeAgain(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", `{"image":"nginx:1.23.1","replicas":1}`)
		w.pass(time.Second)
		w.stop()
		w.delayEvents(resource, time.Minute)
		w.start()
		w.pass(2 * time.Minute)
		w.forget()
		w.delete(resource, "web") // the controller does not hear of it
		w.delete(deployments, "web")
		w.delete(services, "web-service") // the garbage collector
		w.pass(30 * time.Second)
		w.want("POSTs for an owner that is gone", w.count("POST"), 0)
		w.want("reads of the owner", w.count("GET webservers/web 404") > 0, true)
		w.pass(2 * time.Minute)
		w.want("Deployments", len(w.api.List(deployments, "")), 0)
	})
}

// Rules: CCH-15, WRT-02
func TestMutedWatchOfTheWebServersDoesNotHoldUpTheirStatus(t *testing.T) {
	story(t, func(w *world) {
		w.stop()
		w.delayEvents(resource, time.Hour)
		w.create("web", article)
		w.start() // its list shows the WebServer; nothing more comes
		w.pass(time.Minute)
		w.forget()
		w.rollOut("web")
		w.pass(time.Minute)
		w.wantCondition("web", "Ready", "True/Complete")
		if n := len(w.requests()); n > 6 {
			w.Errorf("%d requests in a minute: %v", n, w.requests())
		}
	})
}
