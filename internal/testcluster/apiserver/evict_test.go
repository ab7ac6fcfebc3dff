package apiserver

import (
	"fmt"
	"strings"
	"testing"
)

// That they answer as a real server does is held by the differential test of internal/tools/e2e.
func TestEvictionsDoNotGoBelowTheBudget(t *testing.T) {
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", budgets, `{"metadata":{"name":"b"},"spec":{"maxUnavailable":1,"selector":{}}}`)
		w.must(200, "PATCH", budgets+"/b/status", `{"status":{"observedGeneration":1,"disruptionsAllowed":1,
			"currentHealthy":3,"desiredHealthy":2}}`, "Content-Type", "application/merge-patch+json")
		codes := ""
		for _, name := range []string{"a", "b", "c"} {
			w.must(201, "POST", pods, podBody(name))
			w.must(200, "PATCH", pods+"/"+name+"/status", `{"status":{"phase":"Running","conditions":[
				{"type":"Ready","status":"True"}]}}`, "Content-Type", "application/merge-patch+json")
		}
		for _, name := range []string{"a", "b", "c"} {
			body := `{"metadata":{"name":"` + name + `"}}`
			codes += fmt.Sprint(w.do("POST", pods+"/"+name+"/eviction", body).code, " ")
		}
		if codes != "201 429 429 " {
			t.Errorf("three evictions were answered %s", codes)
		}
		w.must(404, "GET", pods+"/a", "")
		w.must(201, "POST", pods, `{"metadata":{"name":"held","namespace":"default","finalizers":["a.b/c"]},"spec":{
			"containers":[{"name":"c","image":"i"}]}}`)
		w.must(201, "POST", pods+"/held/eviction", `{"metadata":{"name":"held"}}`)
		if a := w.must(200, "GET", pods+"/held", ""); !strings.Contains(a.raw, `"type":"DisruptionTarget"`) {
			t.Error(a.raw)
		}
		if n := w.must(200, "GET", budgets+"/b", "").at("status.disruptionsAllowed"); n != int64(0) {
			t.Errorf("%v disruptions are still allowed", n)
		}
		w.must(201, "POST", budgets, `{"metadata":{"name":"c"},"spec":{"maxUnavailable":1,"selector":{}}}`)
		if a := w.must(500, "POST", pods+"/b/eviction", `{"metadata":{"name":"b"}}`); !strings.Contains(a.raw,
			"more than one PodDisruptionBudget") {
			t.Error(a.raw)
		}
	})
}

func TestThePodsLogIsAnAnnotation(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", pods, `{"metadata":{"name":"p","annotations":{"skiff.dev/log":"one\ntwo\nthree",
			"skiff.dev/log.side":"aside"}},"spec":{"containers":[{"name":"main","image":"i"},
			{"name":"side","image":"i"}]}}`)
		for query, want := range map[string]string{
			"container=main":                "one\ntwo\nthree\n",
			"container=side":                "aside\n",
			"container=main&tailLines=2":    "two\nthree\n",
			"container=main&tailLines=0":    "",
			"container=main&tailLines=9":    "one\ntwo\nthree\n",
			"container=main&limitBytes=5":   "one\nt",
			"container=main&limitBytes=999": "one\ntwo\nthree\n",
		} {
			if a := w.must(200, "GET", pods+"/p/log?"+query, ""); a.raw != want {
				t.Errorf("%s: %q, want %q", query, a.raw, want)
			}
		}
		for query, want := range map[string]string{
			"":                               "must be specified for pod p, choose one of: [main side]",
			"container=no":                   "container no is not valid for pod p",
			"container=main&tailLines=-1":    "no number of lines",
			"container=main&limitBytes=many": "no number of bytes",
		} {
			if a := w.must(400, "GET", pods+"/p/log?"+query, ""); !strings.Contains(a.raw, want) {
				t.Errorf("%s: %s", query, a.raw)
			}
		}
	})
}
