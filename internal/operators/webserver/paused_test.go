package webserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	pause  = `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`
	resume = `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`
)

// wantNoWrites checks that nothing but the status was changed since Forget.
func (w *world) wantNoWrites() {
	w.Helper()
	w.WantLines("writes to a paused WebServer", slices.DeleteFunc(w.Writes(),
		func(r string) bool { return strings.Contains(r, "/status ") }), nil)
}

func TestPausedWebServerIsReportedOnAndNotChanged(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.RollOut("web")
		w.Forget()
		w.Patch(resource, "web", pause)
		w.WantRequests("PATCH webservers/web/status 200")
		w.WantCondition("web", "Paused", "True/Annotated")
		w.WantCondition("web", "Ready", "True/Complete") // it is as declared
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()

		w.Patch(resource, "web", `{"spec":{"replicas":5,"image":"nginx:2"}}`)
		w.WantCondition("web", "Ready", "False/Paused")
		w.WantCondition("web", "Progressing", "False/Paused")
		w.WantCondition("web", "Degraded", "False/AsExpected")
		w.Want("message", w.Message("web", "Ready"),
			`Deployment default/web differs in spec.replicas and spec.template.spec.containers[name="webserver"].image; `+
				"nothing is changed; remove the annotation skiff.dev/paused to go on")
		w.PatchSub(deployments, "web", "status", `{"status":{"readyReplicas":1,"availableReplicas":1}}`)
		w.Want("ready replicas in status", at(w.API.Get(resource, web("web")), "status", "readyReplicas"), 1)
		w.Delete(services, "web-service")
		w.Pass(time.Minute)
		w.Stop()
		w.Start()
		w.Pass(time.Minute)
		w.wantNoWrites()
		w.Want("replicas", w.replicas(), 3)
		w.Want("node port", w.nodePort(), nil)
		w.WantCondition("web", "Paused", "True/Annotated")
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()

		w.Patch(resource, "web", resume)
		w.Want("replicas", w.replicas(), 5)
		w.Want("image", w.container("image"), "nginx:2")
		w.Want("node port", w.nodePort(), 30010)
		w.RollOut("web")
		w.WantCondition("web", "Paused", "False/NotAnnotated")
		w.WantCondition("web", "Ready", "True/Complete")
	})
}

func TestWebServerThatIsBornPausedWaitsForItsFirstChildren(t *testing.T) {
	story(t, func(w *world) {
		w.Post(resource, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web","annotations":{"skiff.dev/paused":"true"}},"spec":`+article+`}`)
		w.Pass(time.Minute)
		w.wantNoWrites()
		w.Want("Deployments", len(w.API.List(deployments, "default")), 0)
		w.Want("message", w.Message("web", "Ready"),
			"Deployment default/web does not exist; nothing is changed; remove the annotation skiff.dev/paused to "+
				"go on")
		w.Patch(resource, "web", resume)
		w.Want("replicas", w.replicas(), 3)
		w.Want("node port", w.nodePort(), 30010)
	})
}

// The children go by their owner references, which the pause does not touch.
func TestPausedWebServerCanBeDeleted(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.Patch(resource, "web", pause)
		w.Forget()
		w.Delete(resource, "web")
		w.Want("the WebServer", w.API.Get(resource, web("web")), map[string]any(nil))
		for r, name := range map[kube.Resource]string{deployments: "web", services: "web-service"} {
			w.Want("owner of the "+r.Kind, at(w.API.Get(r, web(name)), "metadata", "ownerReferences", 0,
				"blockOwnerDeletion"), true)
			w.Delete(r, name) // as the garbage collector does
		}
		w.Pass(10 * time.Minute)
		w.WantRequests()
	})
}

// A child without our label looks deleted to the watch. That it is there all the same is what the status says, and the
// label comes back when the pause is over.
func TestPausedWebServerStillFindsAChildWithoutItsLabel(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.RollOut("web")
		w.Patch(resource, "web", pause)
		w.Forget()
		w.Patch(deployments, "web", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
		w.Pass(time.Minute)
		w.wantNoWrites()
		w.Want("message", w.Message("web", "Ready"),
			"Deployment default/web differs in metadata.labels.app.kubernetes.io/managed-by; nothing is changed; "+
				"remove the annotation skiff.dev/paused to go on")
		w.Want("replicas in status", at(w.API.Get(resource, web("web")), "status", "replicas"), 3)
		w.Patch(resource, "web", resume)
		w.Pass(5 * time.Second)
		w.Want("label", at(w.API.Get(deployments, web("web")), "metadata", "labels", "app.kubernetes.io/managed-by"),
			"skiff")
		w.WantCondition("web", "Ready", "True/Complete")
	})
}

func TestPausedWebServerLeavesAForeignObjectAndAFightAlone(t *testing.T) {
	story(t, func(w *world) {
		w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service"},"spec":{"ports":[{"port":1234}]}}`)
		w.Post(resource, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web","annotations":{"skiff.dev/paused":"true"}},"spec":`+article+`}`)
		w.WantCondition("web", "Degraded", "True/NameTaken")
		w.Patch(resource, "web", resume)
		w.Patch(resource, "web", pause)
		w.Forget()
		for range 20 {
			w.Patch(deployments, "web", `{"spec":{"replicas":1}}`)
			w.Patch(deployments, "web", `{"spec":{"replicas":2}}`)
		}
		w.wantNoWrites()
		w.Want("replicas", w.replicas(), 2)
	})
}
