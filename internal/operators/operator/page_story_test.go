package operator_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

var at = operatortest.At

var options = operatortest.Options{Resource: pages, Controller: "page", New: NewPages}

// story runs f in a fresh environment with the operator of page_test.go.
func story(t *testing.T, f func(w *operatortest.Env)) { storyWith(t, options, f) }

func storyWith(t *testing.T, o operatortest.Options, f func(w *operatortest.Env)) {
	crd, err := os.ReadFile("testdata/pages.yaml")
	if err != nil {
		t.Fatal(err)
	}
	operatortest.Run(t, o, func(w *operatortest.Env) {
		w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
		w.Pass(time.Second)
		w.Start()
		f(w)
	})
}

func get(w *operatortest.Env, r kube.Resource, name string) map[string]any {
	return w.API.Get(r, operatortest.Named(name))
}

const (
	hello   = `{"text":"hello","replicas":1}`
	pause   = `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`
	resume  = `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`
	noLabel = `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`
)

// Rules: WRT-04, WRT-11, MGR-12, RFL-10
func TestAWholeLifeWithTheRequestsAndTheEventsOfEachStep(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", `{"text":"hello","replicas":2}`)
		made := w.Requests() // the children side by side, so in any order
		slices.Sort(made)
		w.WantLines("requests", made, []string{"PATCH pages/a/status 200", "POST configmaps 201",
			"POST deployments 201",
			"POST services 201"})
		w.Want("text", text(w), "hello")
		w.Want("port", at(get(w, services, "a"), "spec", "ports", 0, "port"), int64(80))
		w.WantCondition("a", "Ready", "False/RollingOut", "the Deployment controller has not seen the change yet")
		w.Forget()
		w.RollOut("a")
		w.WantRequests("PATCH pages/a/status 200")
		w.WantReady("a")
		w.Want("ready replicas", at(get(w, pages, "a"), "status", "readyReplicas"), 2)
		for i, requests := range [][]string{{"GET deployments/a 200", "JSONPATCH deployments/a 200",
			"APPLY deployments/a 200", "PATCH pages/a/status 200"},
			{"APPLY deployments/a 200", "PATCH pages/a/status 200"}} {
			w.Forget()
			w.Patch(pages, "a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 5+i))
			w.WantRequests(requests...)
			w.RollOut("a")
			w.WantReady("a")
		}
		w.Forget()
		w.Delete(configMaps, "a")
		w.WantRequests("GET pages/a 200", "POST configmaps 201") // has it gone with its owner?
		w.Patch(pages, "a", `{"spec":{"text":""}}`)
		w.WantCondition("a", "Stalled", "True/InvalidSpec", "spec.text: must not be empty", "correct the spec")
		w.Patch(pages, "a", `{"spec":{"text":"other","replicas":7}}`)
		w.Want("text", text(w), "other")
		w.RollOut("a")
		w.Want("Events", w.EventLines("a"), []string{"Normal Apply", "Normal ApplyDeployment Deployment/a",
			"Normal Create", "Normal CreateConfigMap ConfigMap/a", "Normal Ready", "Normal Ready", "Normal Ready",
			"Normal Ready", "Warning InvalidSpec"})
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Stop()
		w.Start()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Delete(pages, "a")
		w.Pass(10 * time.Minute)
		w.WantRequests() // the garbage collector deletes the children, by their owner
		o := at(get(w, deployments, "a"), "metadata", "ownerReferences", 0)
		w.Want("owner", []any{at(o, "controller"), at(o, "blockOwnerDeletion")}, []any{true, true})
	})
}

// What the whole declared body is, not only spec.
//
// Rules: CCH-20
func TestAChangeOfAnyDeclaredMemberIsUndone(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", `{"text":"hello","replicas":1}`)
		w.Patch(configMaps, "a", `{"data":{"index.html":"defaced","own":"stays"}}`)
		w.Want("data", at(get(w, configMaps, "a"), "data"), map[string]any{"index.html": "hello", "own": "stays"})
		w.Delete(configMaps, "a")
		w.Want("data", at(get(w, configMaps, "a"), "data"), map[string]any{"index.html": "hello"})
		for _, e := range w.Events(pages.Kind, "a") {
			if e["reason"] == "ApplyConfigMap" {
				w.Want("note", e["note"], "changed ConfigMap a, which differed in data.index.html")
				return
			}
		}
		t.Error("no Event says what was undone")
	})
}

func TestChildrenThatAreNotDeclaredAnyMoreAreDeletedAfterTheOthersAreInPlace(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", `{"text":"hello","replicas":1}`)
		w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"other","labels":{"app.kubernetes.io/managed-by":"skiff"}},
			"spec":{"ports":[{"port":80}]}}`) // not a child
		remove := w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "deployments", UserAgent: operatortest.Agent,
			Reply: &apiserver.Reply{Code: 503, Reason: "ServiceUnavailable", Message: "not now"}})
		w.Patch(pages, "a", `{"spec":{"replicas":2,"internal":true}}`)
		w.Pass(time.Second)
		w.Want("the Service is there while the Deployment cannot be changed", get(w, services, "a") != nil, true)
		remove()
		w.Pass(3 * time.Minute)
		w.Want("Service", get(w, services, "a") == nil, true)
		w.Want("the foreign Service", get(w, services, "other") != nil, true)
		w.Want("DELETEs", w.Count("DELETE"), 1)
		w.Stop()
		w.Patch(pages, "a", `{"spec":{"internal":false}}`)
		w.Start()
		w.Want("Service", get(w, services, "a") != nil, true)
		w.Stop()
		w.Patch(pages, "a", `{"spec":{"internal":true}}`)
		w.Start() // without memory
		w.Want("Service", get(w, services, "a") == nil, true)
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
	})
}

// Rules: WRT-27
func TestAChildThatIsNotDeclaredAnyMoreAndLostOurLabelIsReleased(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", `{"text":"hello","replicas":1}`)
		uid := at(get(w, services, "a"), "metadata", "uid")
		w.Patch(pages, "a", `{"metadata":{"annotations":{"skiff.dev/paused":"1"}}}`)
		w.Patch(services, "a", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null},"ownerReferences":[
			{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"7"},`+reference(get(w, services, "a"))+`]}}`)
		w.Patch(pages, "a", `{"metadata":{"annotations":{"skiff.dev/paused":null}},"spec":{"internal":true}}`)
		w.Pass(time.Minute)
		svc := get(w, services, "a")
		w.Want("uid", at(svc, "metadata", "uid"), uid)
		references, _ := at(svc, "metadata", "ownerReferences").([]any)
		if len(references) != 1 || at(references[0], "uid") != "7" {
			t.Errorf("owner references %v, want the foreign one alone", references)
		}
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
	})
}

// reference is the owner reference of a child as JSON.
func reference(child map[string]any) string {
	r := at(child, "metadata", "ownerReferences", 0)
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}`,
		at(r, "apiVersion"), at(r, "kind"), at(r, "name"), at(r, "uid"))
}

// What was true when the namespace was last seen must not be taken for the truth.
func TestAPageWhoseChildrenCannotBeSeenIsUnknown(t *testing.T) {
	story(t, func(w *operatortest.Env) {
		w.Create("a", `{"text":"hello","replicas":0}`)
		w.PatchSub(deployments, "a", "status", `{"status":{"observedGeneration":1}}`)
		w.WantCondition("a", "Ready", "True/Complete", "0 of 0")
		allow := w.API.Inject(apiserver.Fault{Resource: "deployments", UserAgent: operatortest.Agent,
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "deployments is forbidden"}})
		w.Pass(13 * time.Minute) // an open watch is renewed within ten, and two are forgiven
		why := "the present state is not known: may not list and watch deployments.apps"
		for kind, want := range map[string]string{"Ready": "Unknown", "Progressing": "Unknown", "Degraded": "Unknown",
			"Stalled": "True"} {
			w.WantCondition("a", kind, want+"/NotWatched", why)
		}
		w.Create("b", `{"text":"hello","replicas":1}`)
		w.WantCondition("b", "Ready", "Unknown/NotWatched", why)
		w.Forget()
		w.Pass(20 * time.Minute)
		w.Want("writes", w.Count("PATCH"), 0)
		allow()
		w.Pass(time.Minute)
		w.WantCondition("a", "Ready", "True/Complete", "0 of 0")
		w.WantCondition("b", "Ready", "False/RollingOut")
	})
}
