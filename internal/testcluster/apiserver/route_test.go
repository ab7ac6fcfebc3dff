package apiserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Rules: FD-19
func TestAPathIsRefusedBeforeAMethod(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		const maps, widgets = configMaps, widgetPath
		for _, tt := range []struct {
			code     int
			requests []string
		}{
			{200, []string{"HEAD " + widgets}},
			{400, []string{"PATCH /api/v1/nodes/none/proxy?dryRun=All", "PUT " + widgets}},
			{404, []string{"OPTIONS " + maps + "/a/none", "PUT " + maps + "/a/b/c", "GET /api/v1/proxy/nodes/a",
				"GET /api/v1/namespaces/default/nodes", "GET /api/v1/configmaps/a",
				"GET /apis/authorization.k8s.io/v1/subjectaccessreviews/a", "OPTIONS /api/v1/nodes/none/proxy/metrics",
				"OPTIONS " + widgets + "/a/none", "PUT /apis/example.com/v1/widgets"}},
			{405, []string{"OPTIONS " + maps, "HEAD " + maps, "POST /api/v1/watch/configmaps",
				"DELETE /api/v1/namespaces", "DELETE /api/v1/namespaces/default/pods/p/exec", "OPTIONS " + widgets,
				"DELETE " + widgets + "/a/status/b", "GET /apis/example.com/v1/proxy/namespaces/default/widgets/a"}},
			{500, []string{"GET /api/v1/watch"}},
		} {
			for _, request := range tt.requests {
				method, path, _ := strings.Cut(request, " ")
				if a := w.do(method, path, ""); a.code != tt.code {
					t.Errorf("%s: %d %s, want %d", request, a.code, a.raw, tt.code)
				}
			}
		}
	})
}

// A client may send such a request, but no URL of net/http's makes one.
func TestARequestWithAnEmptyPathIsNotFound(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	for _, path := range []string{"", "//"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestAWatchByItsPathIsOneByItsParameter(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", configMaps, `{"metadata":{"name":"a"}}`)
		w.must(201, "POST", configMaps, `{"metadata":{"name":"b"}}`)
		for path, events := range map[string]int{"/configmaps": 2, "/namespaces/default/configmaps": 2,
			"/namespaces/default/configmaps/b": 1, "/namespaces/default/configmaps/c": 0} {
			a := w.must(200, "GET", "/api/v1/watch"+path+"?timeoutSeconds=1", "")
			if got := strings.Count(a.raw, `"ADDED"`); got != events {
				t.Errorf("%s: %d objects, want %d: %s", path, got, events, a.raw)
			}
		}
		w.must(400, "GET", "/api/v1/watch/namespaces/default/configmaps/b?fieldSelector=metadata.name%3Dc", "")
	})
}

// Rules: FD-19
func TestADeleteOfACollectionHeedsItsLimit(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		for _, name := range []string{"a", "b", "c"} {
			w.must(201, "POST", configMaps, configMap(name))
		}
		w.must(400, "DELETE", configMaps+"?continue=abc", "")
		page := w.must(200, "DELETE", configMaps+"?limit=1", "")
		if page.at("metadata.continue") == nil || strings.Contains(page.raw, `"name":"b"`) {
			t.Error(page.raw)
		}
		w.must(404, "GET", configMaps+"/a", "")
		w.must(200, "GET", configMaps+"/b", "")
	})
}

// Rules: FD-18
func TestMetricsAreServedToTheirEnd(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		for _, path := range []string{"/metrics", "/metrics/slis"} {
			a := w.must(200, "GET", path, "")
			if !strings.HasSuffix(a.raw, `kubernetes_healthcheck{name="shutdown",type="readyz"} 1`+"\n") {
				t.Error(path, a.raw)
			}
		}
	})
}
