package webserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operatortest"
	"skiff/internal/testcluster/apiserver"
)

func TestEventsTellWhatWasDoneAndWhatIsWrong(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.RollOut("web")
		w.Patch(resource, "web", `{"spec":{"replicas":5}}`)
		w.Delete(services, "web-service")
		w.RollOut("web")
		w.Pass(time.Second)
		w.Patch(resource, "web", pause)
		w.Patch(resource, "web", resume)
		w.Want("Events", w.EventLines("web"), []string{
			"Normal ApplyDeployment Deployment/web",
			"Normal Create", // both children
			"Normal CreateService Service/web-service",
			"Normal Paused",
			"Normal Ready", // of 3 pods
			"Normal Ready", // of 5
			"Normal Resumed",
		})
		for _, e := range w.Events(resource.Kind, "web") {
			if at(e, "reason") == "ApplyDeployment" {
				w.Want("note", at(e, "note"), "changed Deployment web, which differed in spec.replicas")
				w.Want("uid of the WebServer", at(e, "regarding", "uid"),
					at(w.API.Get(resource, web("web")), "metadata", "uid"))
				w.Want("uid of the child", at(e, "related", "uid"), at(w.API.Get(deployments, web("web")), "metadata",
					"uid"))
			}
		}
	})
}

// wantEvent checks that there is exactly one Event like that, however often the cause shows itself.
func (w *world) wantEvent(name, want string) {
	w.Helper()
	got := w.EventLines(name)
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
			w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-service"},"spec":{"ports":[{"port":1234}]}}`)
			w.Create("web", article)
		}, "Warning NameTaken Service/web-service"},
		"fight": {func(w *world) {
			w.Create("web", article)
			for range 8 {
				w.Patch(deployments, "web", `{"spec":{"replicas":1}}`)
			}
		}, "Warning Contested Deployment/web"},
		"declared node port": {func(w *world) {
			w.Post(services, taker("other", "30010"))
			w.Create("web", article)
		}, "Warning NodePortRefused Service/web-service"},
		"kept node port": {func(w *world) {
			w.Create("web", article)
			w.Patch(resource, "web", `{"spec":{"nodePort":null}}`)
			w.Stop()
			w.Delete(services, "web-service")
			w.Post(services, taker("other", "30010"))
			w.Start()
		}, "Warning NodePortChanged Service/web-service"},
		"refused": {func(w *world) {
			w.API.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", UserAgent: operatortest.Agent,
				Reply: &apiserver.Reply{Code: 422, Reason: "Invalid", Message: "spec.template: no"}})
			w.Create("web", article)
		}, "Warning DeploymentRefused Deployment/web"},
		"rollout": {func(w *world) {
			w.Create("web", article)
			w.PatchSub(deployments, "web", "status", `{"status":{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}}`)
		}, "Warning ProgressDeadlineExceeded Deployment/web"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				test.happen(w)
				w.Pass(30 * time.Second)
				for range 5 { // each wakes the reconcile
					w.Patch(resource, "web", `{"metadata":{"labels":{"round":"`+time.Now().Format("150405")+`"}}}`)
					w.Pass(time.Second)
				}
				w.wantEvent("web", test.want)
			})
		})
	}
}

func TestSteadyStateTellsNothing(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.RollOut("web")
		w.Stop()
		before := w.EventLines("web")
		w.Start()
		w.Pass(10 * time.Minute)
		w.Want("Events", w.EventLines("web"), before)
		w.Forget()
		w.Pass(time.Hour)
		for _, r := range w.API.Requests() {
			if strings.Contains(r.Path, "/events") {
				t.Errorf("%s %s", r.Method, r.Path)
			}
		}
	})
}

func TestEventsThatAreForbiddenHoldUpNothing(t *testing.T) {
	story(t, func(w *world) {
		w.API.Inject(apiserver.Fault{Verb: "create", Resource: "events",
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "no"}})
		w.Create("web", article)
		w.RollOut("web")
		w.WantCondition("web", "Ready", "True/Complete")
		w.Want("Events", w.EventLines("web"), []string(nil))
	})
}
