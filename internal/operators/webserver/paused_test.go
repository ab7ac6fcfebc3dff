package webserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/kube"
)

const (
	pause  = `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`
	resume = `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`
)

// message returns that of a condition.
func (w *world) message(name, conditionType string) string {
	list, _ := at(w.api.Get(resource, web(name)), "status", "conditions").([]any)
	for _, c := range list {
		if at(c, "type") == conditionType {
			s, _ := at(c, "message").(string)
			return s
		}
	}
	return ""
}

// writes are the controller's requests that change something other than the status of a WebServer.
func (w *world) writes() []string {
	return slices.DeleteFunc(w.requests(), func(r string) bool { return strings.HasPrefix(r, "GET ") || strings.Contains(r, "/status ") })
}

// wantNoWrites checks that nothing but the status was changed since forget.
func (w *world) wantNoWrites() {
	w.Helper()
	if got := w.writes(); len(got) > 0 {
		w.Errorf("a paused WebServer was worked on: %v", got)
	}
}

func TestPausedWebServerIsReportedOnAndNotChanged(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.rollOut("web")
		w.forget()
		w.patch(resource, "web", pause)
		w.wantRequests("PATCH webservers/web/status 200")
		w.wantCondition("web", "Paused", "True/Annotated")
		w.wantCondition("web", "Ready", "True/Complete") // it is as declared
		w.forget()
		w.pass(time.Hour)
		w.wantRequests()

		w.patch(resource, "web", `{"spec":{"replicas":5,"image":"nginx:2"}}`)
		w.wantCondition("web", "Ready", "False/Paused")
		w.wantCondition("web", "Progressing", "False/Paused")
		w.wantCondition("web", "Degraded", "False/AsExpected")
		w.want("message", w.message("web", "Ready"),
			"Deployment default/web differs in spec.replicas; nothing is changed; remove the annotation skiff.dev/paused to go on")
		w.patchSub(deployments, "web", "status", `{"status":{"readyReplicas":1,"availableReplicas":1}}`)
		w.want("ready replicas in status", at(w.api.Get(resource, web("web")), "status", "readyReplicas"), 1)
		w.delete(services, "web-service")
		w.pass(time.Minute)
		w.stop()
		w.start()
		w.pass(time.Minute)
		w.wantNoWrites()
		w.want("replicas", w.replicas(), 3)
		w.want("node port", w.nodePort(), nil)
		w.wantCondition("web", "Paused", "True/Annotated")
		w.forget()
		w.pass(time.Hour)
		w.wantRequests()

		w.patch(resource, "web", resume)
		w.want("replicas", w.replicas(), 5)
		w.want("image", w.container("image"), "nginx:2")
		w.want("node port", w.nodePort(), 30010)
		w.rollOut("web")
		w.wantCondition("web", "Paused", "False/NotAnnotated")
		w.wantCondition("web", "Ready", "True/Complete")
	})
}

func TestWebServerThatIsBornPausedWaitsForItsFirstChildren(t *testing.T) {
	story(t, func(w *world) {
		w.post(resource, w.json(`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web","annotations":{"skiff.dev/paused":"true"}},"spec":`+article+`}`))
		w.pass(time.Minute)
		w.wantNoWrites()
		w.want("Deployments", len(w.api.List(deployments, "default")), 0)
		w.want("message", w.message("web", "Ready"),
			"Deployment default/web does not exist; nothing is changed; remove the annotation skiff.dev/paused to go on")
		w.patch(resource, "web", resume)
		w.want("replicas", w.replicas(), 3)
		w.want("node port", w.nodePort(), 30010)
	})
}

// The children go by their owner references, which the pause does not touch.
func TestPausedWebServerCanBeDeleted(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.patch(resource, "web", pause)
		w.forget()
		w.delete(resource, "web")
		w.want("the WebServer", w.api.Get(resource, web("web")), map[string]any(nil))
		for r, name := range map[kube.Resource]string{deployments: "web", services: "web-service"} {
			w.want("owner of the "+r.Kind, at(w.api.Get(r, web(name)), "metadata", "ownerReferences", 0, "blockOwnerDeletion"), true)
			w.delete(r, name) // as the garbage collector does
		}
		w.pass(10 * time.Minute)
		w.wantRequests()
	})
}

// A child without our label looks deleted to the watch. That it is there all the same is what the status says, and the
// label comes back when the pause is over.
func TestPausedWebServerStillFindsAChildWithoutItsLabel(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.rollOut("web")
		w.patch(resource, "web", pause)
		w.forget()
		w.patch(deployments, "web", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
		w.pass(time.Minute)
		w.wantNoWrites()
		w.want("message", w.message("web", "Ready"),
			"Deployment default/web differs in metadata.labels.app.kubernetes.io/managed-by; nothing is changed; remove the annotation skiff.dev/paused to go on")
		w.want("replicas in status", at(w.api.Get(resource, web("web")), "status", "replicas"), 3)
		w.patch(resource, "web", resume)
		w.pass(5 * time.Second)
		w.want("label", at(w.api.Get(deployments, web("web")), "metadata", "labels", "app.kubernetes.io/managed-by"), "skiff")
		w.wantCondition("web", "Ready", "True/Complete")
	})
}

func TestPausedWebServerLeavesAForeignObjectAndAFightAlone(t *testing.T) {
	story(t, func(w *world) {
		w.post(services, w.json(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service"},"spec":{"ports":[{"port":1234}]}}`))
		w.post(resource, w.json(`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web","annotations":{"skiff.dev/paused":"true"}},"spec":`+article+`}`))
		w.wantCondition("web", "Degraded", "True/NameTaken")
		w.patch(resource, "web", resume)
		w.patch(resource, "web", pause)
		w.forget()
		for range 20 {
			w.patch(deployments, "web", `{"spec":{"replicas":1}}`)
			w.patch(deployments, "web", `{"spec":{"replicas":2}}`)
		}
		w.wantNoWrites()
		w.want("replicas", w.replicas(), 2)
	})
}
