package redis

import (
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/podpolicy"
)

func TestPodsThatTheDefaultPolicyRefusesAreNotCreated(t *testing.T) {
	story(t, func(w *world) {
		w.Create("cache", `{"port":6379,"num":2,"template":{"spec":{"hostNetwork":true,"initContainers":[
			{"name":"own","image":"own","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}]}}}`)
		w.WantCondition("cache", "Stalled", "True/TemplateRefused", "--template-policy=baseline",
			"spec.template.spec.hostNetwork must be false",
			"spec.template.spec.initContainers[0].securityContext.capabilities.add[0] must be one of")
		w.wantRequests()
		w.wantPods("")
		w.Pass(time.Hour)
		w.wantRequests()
		w.wantStatusWrites(1)
		w.Delete(resource, "cache")
		w.Want("the Redis, which had no finalizer yet", w.redis("cache"), (*Redis)(nil))
	})
}

func TestPodsStayWhileTheirNewTemplateIsRefused(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		before := w.uids()
		w.Patch(resource, "cache", `{"spec":{"num":1,"template":{"spec":{"hostPID":true}}}}`)
		w.Pass(time.Minute)
		w.WantCondition("cache", "Stalled", "True/TemplateRefused", "spec.template.spec.hostPID must be false")
		w.wantPods("cache-0 cache-1 cache-2")
		w.Want("replaced", w.replaced(before), "")
		w.Want("ready", w.redis("cache").Status.ReadyReplicas, int32(3))
		w.StartWith(func(s *controller.Setup) { s.TemplatePolicy = podpolicy.Any })
		w.Pass(time.Minute)
		w.wantPods("cache-0")
		w.Want("replaced with --template-policy=any", w.replaced(before), "cache-0")
		w.StartWith(func(s *controller.Setup) { s.TemplatePolicy = podpolicy.Restricted })
		w.WantCondition("cache", "Stalled", "True/TemplateRefused", "hostPID", "runAsNonRoot must be true")
		w.Delete(resource, "cache") // a refusal does not keep a Redis from being deleted
		w.Pass(time.Minute)
		w.wantPods("")
		w.Want("the Redis", w.redis("cache"), (*Redis)(nil))
	})
}
