package operator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

func uidOf(w *operatortest.Env, r kube.Resource) any { return at(get(w, r, "a"), "metadata", "uid") }

// Rules: WRT-26
func TestChildrenThatWereOrphanedAreAdopted(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		uid := uidOf(w, deployments)
		w.Delete(pages, "a")
		for _, r := range []kube.Resource{deployments, configMaps, services} {
			w.Patch(r, "a", `{"metadata":{"ownerReferences":null}}`) // as --cascade=orphan does
		}
		w.Create("a", `{"text":"other","replicas":1}`)
		w.RollOut("a")
		w.WantReady("a")
		w.Want("uid of the Deployment", uidOf(w, deployments), uid)
		w.Want("text", text(w), "other")
		w.Want("owner", at(get(w, services, "a"), "metadata", "ownerReferences", 0, "uid"), uidOf(w, pages))
		w.Want("Events", w.EventLines("a"), []string{"Normal Adopt", "Normal Create", "Normal Ready"})
	})
}

// Rules: WRT-26
func TestAnObjectThatNeedNotBeOursIsAdoptedOnlyOnRequest(t *testing.T) {
	const selector = `"selector":{"app.kubernetes.io/name":"page","app.kubernetes.io/instance":"a"},"ports":[{"port":80}]`
	for name, test := range map[string]struct{ owner, spec, want string }{
		"it fits":               {`[]`, selector, ""},
		"it selects other pods": {`[]`, `"selector":{"a":"b"},"ports":[{"port":80}]`, "has another spec.selector"},
		"it belongs to another": {`[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"7","controller":true}]`, selector, "belongs to ConfigMap x"},
		"it is being deleted":   {`[],"finalizers":["a.b/c"]`, selector, "is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *operatortest.Env) {
				w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","ownerReferences":`+test.owner+
					`},"spec":{`+test.spec+`}}`)
				if test.want == "is being deleted" {
					w.Delete(services, "a")
				}
				w.Create("a", hello)
				w.RollOut("a")
				if test.want == "" {
					w.WantCondition("a", "Ready", "False/NameTaken", "is not managed by skiff")
				}
				w.Patch(pages, "a", `{"metadata":{"annotations":{"skiff.dev/adopt":"true"}}}`)
				w.Pass(2 * time.Minute)
				if test.want == "" {
					w.WantReady("a")
				} else {
					w.WantCondition("a", "Ready", "False/NameTaken", test.want)
				}
			})
		})
	}
}

// Rules: WRT-13
func TestAForeignObjectIsLeftAloneReportedAndLookedAtSlowly(t *testing.T) {
	for name, label := range map[string]string{"unseen by the cache": "",
		"seen by the cache": `"app.kubernetes.io/managed-by":"skiff"`} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *operatortest.Env) {
				w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","labels":{`+label+`}},"spec":{"ports":[{"port":1}]}}`)
				before := get(w, services, "a")
				w.Create("a", hello)
				w.RollOut("a")
				w.WantCondition("a", "Degraded", "True/NameTaken", "delete it or give the Page another name")
				w.WantCondition("a", "Ready", "False/NameTaken")
				w.WantCondition("a", "Progressing", "False/Complete")
				w.Want("the foreign Service", get(w, services, "a"), before)
				w.Forget()
				for range 10 { // each wakes the reconcile
					w.Patch(deployments, "a", `{"metadata":{"labels":{"round":"`+time.Now().Format("150405")+`"}}}`)
					w.Pass(time.Second)
				}
				w.WantRequests()
				w.Pass(10 * time.Minute)
				if n := len(w.Requests()); n > 11 {
					t.Errorf("%d requests in ten minutes: %v", n, w.Requests())
				}
				w.Delete(services, "a")
				w.Pass(2 * time.Minute)
				w.WantReady("a")
				w.Want("Events", w.EventLines("a"), []string{"Normal Create", "Normal CreateService Service/a",
					"Normal Ready",
					"Warning NameTaken Service/a"})
			})
		})
	}
}

// What is remembered of a custom resource goes with it.
//
// Rules: WRT-28
func TestChildrenOfAnEarlierOwnerOfTheSameNameAreForeign(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		old := get(w, deployments, "a")
		w.Delete(pages, "a")
		w.Create("a", `{"text":"other","replicas":1}`)
		w.WantCondition("a", "Degraded", "True/NameTaken")
		w.Want("the old Deployment", get(w, deployments, "a"), old)
		for _, r := range []kube.Resource{deployments, configMaps, services} {
			w.Delete(r, "a") // as the garbage collector does
		}
		w.Want("text", text(w), "other")
		w.Pass(time.Minute)
		w.RollOut("a")
		w.WantReady("a")
	})
}

func TestALostLabelComesBack(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		w.RollOut("a")
		uid := uidOf(w, services)
		w.Patch(services, "a", noLabel)
		w.Pass(5 * time.Second)
		w.Want("label", at(get(w, services, "a"), "metadata", "labels", "app.kubernetes.io/managed-by"), "skiff")
		w.Want("uid", uidOf(w, services), uid)
		w.WantReady("a")
		w.Forget()
		w.Pass(time.Minute)
		w.WantRequests()
	})
}

func wantNoWrites(w *operatortest.Env) {
	w.Helper()
	w.WantLines("writes to a paused Page", slices.DeleteFunc(w.Writes(),
		func(r string) bool { return strings.Contains(r, "/status ") }), nil)
}

func TestAPausedOwnerIsReportedOnAndNotChanged(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", hello)
		w.RollOut("a")
		w.Forget()
		w.Patch(pages, "a", pause)
		w.WantRequests("PATCH pages/a/status 200")
		w.WantCondition("a", "Paused", "True/Annotated")
		w.WantCondition("a", "Ready", "True/Complete") // it is as declared
		w.Patch(pages, "a", `{"spec":{"replicas":5,"text":"other"}}`)
		w.WantCondition("a", "Ready", "False/Paused", "Deployment default/a differs in spec.replicas; nothing is "+
			"changed; remove the annotation skiff.dev/paused to go on")
		w.WantCondition("a", "Progressing", "False/Paused")
		w.WantCondition("a", "Degraded", "False/AsExpected")
		w.PatchSub(deployments, "a", "status", `{"status":{"readyReplicas":0,"availableReplicas":0}}`)
		w.Want("ready replicas", at(get(w, pages, "a"), "status", "readyReplicas"), 0)
		w.Patch(deployments, "a", noLabel) // so it looks deleted to the watch
		w.Delete(services, "a")
		w.Pass(time.Minute)
		w.Stop()
		w.Start()
		w.Pass(time.Hour)
		wantNoWrites(w)
		w.WantCondition("a", "Ready", "False/Paused",
			"Deployment default/a differs in metadata.labels.app.kubernetes.io/managed-by")
		w.Patch(pages, "a", resume)
		w.Pass(5 * time.Second)
		w.Want("replicas", at(get(w, deployments, "a"), "spec", "replicas"), 5)
		w.Want("the Service", get(w, services, "a") != nil, true)
		w.RollOut("a")
		w.WantReady("a")
		w.WantCondition("a", "Paused", "False/NotAnnotated")

		w.Post(pages, `{"apiVersion":"example.com/v1","kind":"Page","metadata":{"name":"born","annotations":{"skiff.dev/paused":"true"}},"spec":`+hello+`}`)
		w.WantCondition("born", "Ready", "False/Paused", "Deployment default/born does not exist")
		w.Patch(pages, "a", pause)
		w.Forget()
		w.Delete(pages, "a")
		w.Want("the Page", get(w, pages, "a") == nil, true)
		w.Pass(10 * time.Minute)
		w.WantRequests()
	})
}
