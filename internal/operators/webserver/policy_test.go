package webserver

import (
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/podpolicy"
)

func TestATemplateThatTheDefaultPolicyRefusesIsNotWritten(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", `{"image":"nginx","template":{"spec":{"containers":[
			{"name":"webserver","securityContext":{"privileged":true}}]}}}`)
		w.WantRequests("PATCH webservers/web/status 200")
		w.WantCondition("web", "Stalled", "True/TemplateRefused", "--template-policy=baseline",
			"spec.template.spec.containers[0].securityContext.privileged must be false (container webserver)")
		w.WantCondition("web", "Ready", "False/TemplateRefused")
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Patch(resource, "web", `{"spec":{"template":null}}`)
		w.RollOut("web")
		w.WantReady("web")
		w.WantCondition("web", "Stalled", "False/AsExpected")
	})
}

func TestWhatIsThereStaysWhileTheTemplateIsRefused(t *testing.T) {
	story(t, func(w *world) {
		w.Create("web", article)
		w.RollOut("web")
		w.WantReady("web")
		before := w.API.Get(deployments, web("web"))
		w.Forget()
		w.Patch(resource, "web", `{"spec":{"replicas":5,"template":{"spec":{
			"volumes":[{"name":"host","hostPath":{"path":"/"}}]}}}}`)
		w.WantRequests("PATCH webservers/web/status 200")
		w.WantCondition("web", "Stalled", "True/TemplateRefused", "spec.template.spec.volumes[0].hostPath must not "+
			"be set")
		w.Want("ready replicas", at(w.API.Get(resource, web("web")), "status", "readyReplicas"), 3)
		w.Want("the Deployment", w.API.Get(deployments, web("web")), before)
		w.StartWith(func(s *controller.Setup) { s.TemplatePolicy = podpolicy.Any })
		w.Want("replicas with --template-policy=any", w.replicas(), 5)
		w.WantCondition("web", "Stalled", "False/AsExpected")
	})
}

func TestRestrictedSaysWhatToSet(t *testing.T) {
	story(t, func(w *world) {
		w.StartWith(func(s *controller.Setup) { s.TemplatePolicy = podpolicy.Restricted })
		w.Forget()
		w.Create("web", article)
		w.WantRequests("PATCH webservers/web/status 200")
		const c = "spec.template.spec.containers[0].securityContext."
		w.WantCondition("web", "Stalled", "True/TemplateRefused", "--template-policy=restricted",
			c+"allowPrivilegeEscalation must be false", c+"capabilities.drop must have ALL",
			c+"runAsNonRoot must be true", c+"seccompProfile.type must be RuntimeDefault")
		w.Patch(resource, "web", `{"spec":{"template":{"spec":{
			"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
			"containers":[{"name":"webserver","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}`)
		w.RollOut("web")
		w.WantReady("web")
	})
}
