package fakeapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skiff/internal/kube"
)

// BenchmarkPatchStatus is what the server does most in tests and in skiff dev: the status of a pod changes.
func BenchmarkPatchStatus(b *testing.B) {
	s := New(Options{HistoryEvents: 100})
	defer s.Close()
	do := func(method, path, body, contentType string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code/100 != 2 {
			b.Fatal(w.Body)
		}
	}
	do("POST", pods, podBody("p"), "application/json")
	b.ReportAllocs()
	for i := range b.N {
		ready := map[bool]string{true: "True", false: "False"}[i%2 == 0]
		do(http.MethodPatch, pods+"/p/status",
			fmt.Sprintf(`{"status":{"phase":"Running","podIP":"10.0.0.1",
				"conditions":[{"type":"Ready","status":%q,"reason":"r%d"}],
				"containerStatuses":[{"name":"c","image":"i","imageID":"","ready":true,"restartCount":0,
				"state":{"running":{}}}]}}`, ready, i), string(kube.StrategicMergePatch))
	}
}
