package fakeapi

import (
	"strings"
	"testing"
)

// That they answer as a real server does is held by the differential test of internal/e2e.
func TestAJobKnowsItsPodsAndKeepsThemUnlessToldOtherwise(t *testing.T) {
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	inWorld(t, Options{}, func(w *world) {
		job := w.must(201, "POST", jobs, `{"metadata":{"name":"once"},"spec":{"template":{"spec":{
			"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
		uid := job.at("metadata.uid")
		selector := job.at("spec.selector.matchLabels").(map[string]any)
		labels := job.at("spec.template.metadata.labels").(map[string]any)
		const label = "batch.kubernetes.io/controller-uid"
		if selector[label] != uid || labels[label] != uid || labels["job-name"] != "once" {
			t.Errorf("its pods are selected by %v and have %v, want the uid %v", selector, labels, uid)
		}
		deleted := w.must(200, "DELETE", jobs+"/once", "")
		if !strings.Contains(deleted.header.Get("Warning"), "child pods are preserved by default") ||
			!strings.Contains(deleted.raw, `"finalizers":["orphan"]`) {
			t.Errorf("deleted without a policy: %s, warning %q", deleted.raw, deleted.header.Get("Warning"))
		}
	})
}
