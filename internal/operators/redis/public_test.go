package redis

import (
	"strings"
	"testing"

	"skiff/internal/testcluster/operatortest"
)

// See the test of WebServers.
//
// Rules: LP-08
func TestReadersWithoutATokenAreToldWhatIsWrongAndShownNoContent(t *testing.T) {
	specs := map[string]string{
		"cache": `{"image":"canary/redis:canary","num":3,"port":6379,"template":{"metadata":{"annotations":{"a":"canary"}},
			"spec":{"nodeSelector":{"disk":"canary"},"containers":[{"name":"redis","args":["canary"]}]}}}`,
		"refused": `{"image":"redis","num":1,"port":6379,"template":{"spec":{"hostPID":true,"hostname":"canary"}}}`,
		"taken":   `{"image":"redis","num":1,"port":6379}`,
	}
	prepare := func(w *operatortest.Env) {
		startNode(w)
		w.Post(pods, `{"metadata":{"name":"taken-0","labels":{"l":"canary"}},"spec":{"containers":[
			{"name":"canary","image":"canary"}]}}`)
	}
	ends := func(w *operatortest.Env) {
		w.PatchSub(pods, "cache-2", "status", `{"status":{"phase":"Failed","reason":"Evicted","message":"canary"}}`)
	}
	waits := func(w *operatortest.Env) {
		w.PatchSub(pods, "cache-2", "status", `{"status":{"conditions":[{"type":"PodScheduled","status":"False",
			"reason":"Unschedulable","message":"canary"},{"type":"Ready","status":"False"}]}}`)
	}
	hurts := append(operatortest.Refusals([]string{"create", "patch", "delete", "get"}, pods, services, resource),
		operatortest.Hurt{Name: "a pod ends", After: ends}, operatortest.Hurt{Name: "a pod waits", After: waits})
	shown := operatortest.HidesCanaries(t, options, prepare, specs, hurts)
	for _, want := range []string{
		"the API server refuses the Pod; correct the spec",
		"which does not allow these pods: spec.template.spec.hostPID must be false; correct spec.template",
		"Pod default/taken-0 exists and is not managed by skiff; delete it",
		"pod cache-2 is not ready: Unschedulable; look at the pods",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("nobody is told: %s", want)
		}
	}
}
