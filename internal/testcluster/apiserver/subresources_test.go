package apiserver

import (
	"fmt"
	"strings"
	"testing"
)

// That they answer as a real server does is held by the differential test of internal/tools/e2e.
func TestAScaleCanBeApplied(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const web = "/apis/apps/v1/namespaces/default/deployments/web"
		w.must(201, "POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"web"},"spec":{
			"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
			"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
		apply := func(code int, query, kind string, replicas int) response {
			return w.must(code, "PATCH", web+"/scale?fieldManager=hpa"+query, `{"apiVersion":"autoscaling/v1","kind":"`+
				kind+`","metadata":{"name":"web"},"spec":{"replicas":`+fmt.Sprint(replicas)+`}}`,
				"Content-Type", "application/apply-patch+yaml")
		}
		if a := apply(409, "", "Scale", 3); !strings.Contains(a.raw, "using autoscaling/v1: .spec.replicas") {
			t.Error(a.raw)
		}
		if n := apply(200, "&force=true", "Scale", 3).at("spec.replicas"); n != int64(3) {
			t.Errorf("the scale has %v replicas", n)
		}
		a := w.must(200, "GET", web, "")
		if a.at("spec.replicas") != int64(3) || !strings.Contains(a.raw, `"subresource":"scale"`) {
			t.Error(a.raw)
		}
		apply(422, "&force=true", "Scale", -1)
		apply(400, "", "Deployment", 3)
		for _, body := range []string{`[]`,
			`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"namespace":"other"}}`} {
			a := w.must(400, "PATCH", web+"/scale?fieldManager=hpa", body,
				"Content-Type", "application/apply-patch+yaml")
			if strings.Contains(a.raw, "nil") {
				t.Error(a.raw)
			}
		}
	})
}

func TestResizeChangesResourcesAndNothingElse(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i",
			"resources":{"requests":{"cpu":"1"}}}]}}`)
		resize := func(code int, container string) response {
			return w.must(code, "PATCH", pods+"/p/resize", `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[
				{"name":"c",`+container+`}]}}`, "Content-Type", "application/strategic-merge-patch+json")
		}
		a := resize(200, `"image":"other","resources":{"requests":{"cpu":"2"}}`)
		if strings.Contains(a.raw, "other") || a.at("metadata.labels") != nil ||
			a.at("metadata.generation") != int64(2) || !strings.Contains(a.raw, `"cpu":"2"`) {
			t.Error(a.raw)
		}
		for container, want := range map[string]string{
			`"resources":{"requests":{"cpu":null}}`:                                               "cannot be removed",
			`"resources":{"requests":{"example":"1"}}`:                                            "only cpu and memory",
			`"resources":{"limits":{"cpu":"2","memory":"1"},"requests":{"cpu":"2","memory":"1"}}`: "QOS Class may not",
		} {
			if a := resize(422, container); !strings.Contains(a.raw, want) {
				t.Errorf("%s: %s", container, a.raw)
			}
		}
		w.must(405, "POST", pods+"/p/resize", "{}")
	})
}
