package apiserver

import (
	"strings"
	"testing"
)

// That they answer as a real server does is held by the differential test of internal/tools/e2e.
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
		// Queues for Jobs decide where the pods of one that has not started run, and what they get.
		w.must(201, "POST", jobs, `{"metadata":{"name":"queued"},"spec":{"suspend":true,"template":{"spec":{
			"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
		for _, change := range []struct {
			code       int
			job, patch string
		}{
			{422, "once", `{"nodeSelector":{"a":"b"}}`},
			{200, "queued", `{"nodeSelector":{"a":"b"}}`},
			{200, "queued", `{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}`},
			{422, "queued", `{"containers":[{"name":"c","image":"j"}]}`},
			{422, "queued", `{"containers":[{"name":"c","image":"i"},{"name":"d","image":"i"}]}`},
		} {
			w.must(change.code, "PATCH", jobs+"/"+change.job, `{"spec":{"template":{"spec":`+change.patch+`}}}`,
				"Content-Type", "application/merge-patch+json")
		}
		deleted := w.must(200, "DELETE", jobs+"/once", "")
		if !strings.Contains(deleted.header.Get("Warning"), "child pods are preserved by default") ||
			!strings.Contains(deleted.raw, `"finalizers":["orphan"]`) {
			t.Errorf("deleted without a policy: %s, warning %q", deleted.raw, deleted.header.Get("Warning"))
		}
	})
}

func TestAKindThatWouldHaveNoEffectIsRefusedWithTheReason(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const admission = "/apis/admissionregistration.k8s.io/v1/"
		const withoutCEL = "has no admission policies: this build of skiff-dev does not evaluate CEL"
		for path, want := range map[string]string{
			admission + "mutatingadmissionpolicies":         withoutCEL,
			"/apis/apiregistration.k8s.io/v1/apiservices":   "has no aggregated API servers",
			admission + "validatingadmissionpolicybindings": withoutCEL,
		} {
			a := w.must(501, "POST", path, `{"metadata":{"name":"a"}}`)
			if !strings.Contains(a.raw, want) {
				t.Errorf("%s: %s", path, a.raw)
			}
			w.must(501, "PATCH", path+"/a?fieldManager=m", `{"apiVersion":"`+strings.Split(path, "/")[2]+`/v1","kind":"`+
				kindAt(w, path)+`","metadata":{"name":"a"}}`,
				"Content-Type", "application/apply-patch+yaml")
		}
	})
}

// kindAt returns the kind of the items of a list.
func kindAt(w *world, path string) string {
	return strings.TrimSuffix(w.must(200, "GET", path, "").at("kind").(string), "List")
}
