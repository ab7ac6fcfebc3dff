package apiserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

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
