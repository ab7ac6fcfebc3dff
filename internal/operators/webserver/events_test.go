package webserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/fakeapi"
)

func TestEventsTellWhatWasDoneAndWhatIsWrong(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.rollOut("web")
		w.patch(resource, "web", `{"spec":{"replicas":5}}`)
		w.delete(services, "web-service")
		w.rollOut("web")
		w.pass(time.Second)
		w.patch(resource, "web", pause)
		w.patch(resource, "web", resume)
		w.want("Events", w.events("web"), []string{
			"Normal ApplyDeployment Deployment/web",
			"Normal CreateDeployment Deployment/web",
			"Normal CreateService Service/web-service",
			"Normal CreateService Service/web-service", // it has another uid
			"Normal Paused",
			"Normal Ready", // twice, which is a series
			"Normal Resumed",
		})
		for _, e := range w.api.List(eventResource, "default") {
			if at(e, "reason") == "ApplyDeployment" {
				w.want("note", at(e, "note"), "changed Deployment web, which differed in spec.replicas")
				w.want("uid of the WebServer", at(e, "regarding", "uid"), at(w.api.Get(resource, web("web")), "metadata", "uid"))
				w.want("uid of the child", at(e, "related", "uid"), at(w.api.Get(deployments, web("web")), "metadata", "uid"))
			}
		}
	})
}

// wantEvent checks that there is exactly one Event like that, however often the cause shows itself.
func (w *world) wantEvent(name, want string) {
	w.Helper()
	got := w.events(name)
	if n := len(slices.DeleteFunc(slices.Clone(got), func(e string) bool { return e != want })); n != 1 {
		w.Errorf("%d Events %q among %q", n, want, got)
	}
}

func TestEventsWarnOfWhatIsInTheWay(t *testing.T) {
	for name, test := range map[string]struct {
		happen func(w *world)
		want   string
	}{
		"foreign object": {func(w *world) {
			w.post(services, w.json(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service"},"spec":{"ports":[{"port":1234}]}}`))
			w.create("web", article)
		}, "Warning NameTaken Service/web-service"},
		"fight": {func(w *world) {
			w.create("web", article)
			for range 8 {
				w.patch(deployments, "web", `{"spec":{"replicas":1}}`)
			}
		}, "Warning Contested Deployment/web"},
		"declared node port": {func(w *world) {
			w.post(services, w.json(taker("other", "30010")))
			w.create("web", article)
		}, "Warning NodePortRefused Service/web-service"},
		"kept node port": {func(w *world) {
			w.create("web", article)
			w.patch(resource, "web", `{"spec":{"nodePort":null}}`)
			w.stop()
			w.delete(services, "web-service")
			w.post(services, w.json(taker("other", "30010")))
			w.start()
		}, "Warning NodePortChanged Service/web-service"},
		"refused": {func(w *world) {
			w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "deployments", UserAgent: agent,
				Reply: &fakeapi.Reply{Code: 422, Reason: "Invalid", Message: "spec.template: no"}})
			w.create("web", article)
		}, "Warning DeploymentRefused Deployment/web"},
		"rollout": {func(w *world) {
			w.create("web", article)
			w.patchSub(deployments, "web", "status", `{"status":{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}}`)
		}, "Warning ProgressDeadlineExceeded Deployment/web"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				test.happen(w)
				w.pass(30 * time.Second)
				for range 5 { // each wakes the reconcile
					w.patch(resource, "web", `{"metadata":{"labels":{"round":"`+time.Now().Format("150405")+`"}}}`)
					w.pass(time.Second)
				}
				w.wantEvent("web", test.want)
			})
		})
	}
}

func TestSteadyStateTellsNothing(t *testing.T) {
	story(t, func(w *world) {
		w.create("web", article)
		w.rollOut("web")
		w.stop()
		before := w.events("web")
		w.start()
		w.pass(10 * time.Minute)
		w.want("Events", w.events("web"), before)
		w.forget()
		w.pass(time.Hour)
		for _, r := range w.api.Requests() {
			if strings.Contains(r.Path, "/events") {
				t.Errorf("%s %s", r.Method, r.Path)
			}
		}
	})
}

func TestEventsThatAreForbiddenHoldUpNothing(t *testing.T) {
	story(t, func(w *world) {
		w.api.Inject(fakeapi.Fault{Verb: "create", Resource: "events", Reply: &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "no"}})
		w.create("web", article)
		w.rollOut("web")
		w.wantCondition("web", "Ready", "True/Complete")
		w.want("Events", w.events("web"), []string(nil))
	})
}
