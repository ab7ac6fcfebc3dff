package webserver

import (
	"strings"
	"testing"

	"skiff/internal/testcluster/operatortest"
)

// Whatever goes wrong, a reader without a token is told by skiff what it is, and shown nothing of an object or of an
// answer. The names of objects and fields are no secret, and their values are.
//
// Rules: LP-08
func TestReadersWithoutATokenAreToldWhatIsWrongAndShownNoContent(t *testing.T) {
	const template = `"template":{"metadata":{"annotations":{"a":"canary"},"labels":{"l":"canary"}},"spec":{
		"nodeSelector":{"disk":"canary"},"containers":[{"name":"webserver","env":[{"name":"E","value":"canary"}],
		"args":["canary"],"workingDir":"/canary"}]}}`
	specs := map[string]string{
		"web":     `{"image":"canary/nginx:canary","replicas":2,` + template + `}`,
		"refused": `{"image":"nginx","template":{"spec":{"hostNetwork":true,"hostname":"canary"}}}`,
		"taken":   `{"image":"nginx","nodePort":30010}`,
	}
	others := func(w *operatortest.Env) {
		w.Post(services, `{"metadata":{"name":"taken-service","labels":{"l":"canary"}},"spec":{"ports":[{"port":1}]}}`)
		w.Post(services, `{"metadata":{"name":"other"},"spec":{"type":"NodePort","ports":[{"port":1,
			"nodePort":30010}]}}`)
	}
	status := func(text string) func(w *operatortest.Env) {
		return func(w *operatortest.Env) {
			w.PatchSub(deployments, "web", "status", text)
			(&env{w}).podOfWeb("web-0", `{"containerStatuses":[{"name":"webserver","image":"x","imageID":"",
				"ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"canary"}}}]}`)
		}
	}
	hurts := append(operatortest.Refusals([]string{"create", "patch", "get"}, deployments, services, resource),
		operatortest.Hurt{Name: "nothing"},
		operatortest.Hurt{Name: "pods are not ready", After: status(`{"status":{"observedGeneration":1,"replicas":2,
			"updatedReplicas":2,"unavailableReplicas":2}}`)},
		operatortest.Hurt{Name: "no progress", After: status(`{"status":{"observedGeneration":1,"replicas":2,
			"updatedReplicas":2,"conditions":[{"type":"Progressing","status":"False",
			"reason":"ProgressDeadlineExceeded","message":"canary"}]}}`)},
		operatortest.Hurt{Name: "no pods", After: status(`{"status":{"observedGeneration":1,"conditions":[{"type":
			"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota: canary"}]}}`)})
	shown := operatortest.HidesCanaries(t, options, others, specs, hurts)
	for _, want := range []string{
		"the API server refuses the Deployment; correct the spec",
		"the server answers 500 InternalError; skiff tries again",
		"which does not allow these pods: spec.template.spec.hostNetwork must be false; correct spec.template",
		"Service default/taken-service exists and is not managed by skiff; delete it",
		"0 of 2 pods are available: pod web-0: ImagePullBackOff; look at the pods",
		"the rollout has made no progress for too long",
		"no pod can be created; correct spec.template",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("nobody is told: %s", want)
		}
	}
}
