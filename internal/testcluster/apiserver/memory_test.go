package apiserver

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// bigPod is a pod of 9 KB as a client creates it: two containers with an environment, probes and mounts.
func bigPod(i int) string {
	var env []string
	for n := range 40 {
		env = append(env, fmt.Sprintf(`{"name":"SETTING_%d","value":"value-%d-%d"}`, n, n, i))
	}
	container := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"image":"registry.example/team/app:v1.2.3","env":[%s],
"ports":[{"name":"http","containerPort":8080},{"name":"metrics","containerPort":9090}],
"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"100m","memory":"128Mi"}},
"readinessProbe":{"httpGet":{"path":"/ready","port":"http"},"periodSeconds":5},
"livenessProbe":{"httpGet":{"path":"/live","port":"http"},"periodSeconds":10},
"volumeMounts":[{"name":"config","mountPath":"/etc/app"},{"name":"cache","mountPath":"/var/cache"}]}`,
			name, strings.Join(env, ","))
	}
	return fmt.Sprintf(`{"metadata":{"name":"web-%d","labels":{"app":"web","tier":"backend","version":"v1"},
"annotations":{"prometheus.io/scrape":"true","checksum/config":"%064x"}},
"spec":{"containers":[%s,%s],
"volumes":[{"name":"config","configMap":{"name":"web"}},{"name":"cache","emptyDir":{}}]}}`,
		i, i, container("main"), container("sidecar"))
}

// BenchmarkHeapPerPod reports the memory of a stored pod that was created, became Running and was listed.
func BenchmarkHeapPerPod(b *testing.B) {
	const pods = 500
	size, heap := 0, 0.0
	for range b.N {
		before := liveHeap()
		s := New(Options{HistoryEvents: 1})
		do := func(method, path, body, contentType string) int {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			if s.ServeHTTP(w, r); w.Code/100 != 2 {
				b.Fatal(w.Body)
			}
			return w.Body.Len()
		}
		const path = "/api/v1/namespaces/default/pods"
		for i := range pods {
			do("POST", path+"?fieldManager=controller", bigPod(i), "application/json")
			do("PATCH", fmt.Sprintf("%s/web-%d/status?fieldManager=kubelet", path, i),
				fmt.Sprintf(`{"status":{"phase":"Running","podIP":"10.1.2.3","startTime":"2026-01-01T00:00:00Z",
"conditions":[{"type":"Ready","status":"True"},{"type":"Initialized","status":"True"}],
"containerStatuses":[{"name":"main","image":"i","imageID":"id-%d","ready":true,"restartCount":0}]}}`, i),
				string(kube.StrategicMergePatch))
		}
		size = do("GET", path, "", "") / pods
		s.ForgetRequests()
		heap += (liveHeap() - before) / pods
		s.Close()
	}
	heap /= float64(b.N)
	b.ReportMetric(heap, "heap-B/pod")
	b.ReportMetric(float64(size), "json-B/pod")
	b.ReportMetric(heap/float64(size), "heap/json")
}

// liveHeap returns the bytes of all reachable objects.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func TestTheOwnersOfFieldsAreStoredAsTextThatEqualObjectsShare(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		for _, name := range []string{"a", "b"} {
			w.must(201, "POST", configMaps, configMap(name))
		}
		fields := func(name string) any {
			o := w.s.store.Get("configmaps", store.Key{Namespace: "default", Name: name})
			return obj.Maps(o.Value(), "metadata", "managedFields")[0]["fieldsV1"]
		}
		if text, ok := fields("a").(patch.Text); !ok || text != fields("b") {
			t.Errorf("stored as %T %v and %v", fields("a"), fields("a"), fields("b"))
		}
		want := map[string]any{"f:data": map[string]any{".": map[string]any{}, "f:a": map[string]any{}}}
		served := w.must(200, "GET", configMaps+"/a", "").at("metadata.managedFields").([]any)
		got := w.s.Get(kube.Resource{Version: "v1", Plural: "configmaps"}, kube.Key{Namespace: "default", Name: "a"})
		for what, have := range map[string]any{"served": served[0],
			"returned": obj.Slice(got, "metadata", "managedFields")[0]} {
			if have := have.(map[string]any)["fieldsV1"]; !patch.Equal(have, want) {
				t.Errorf("the owners are %s as %v, want %v", what, have, want)
			}
		}
		// A JSON patch can reach into the text.
		w.must(200, "PATCH", configMaps+"/a", `[{"op":"test","path":"/metadata/managedFields/0/fieldsV1/f:data/f:a",
			"value":{}},{"op":"remove","path":"/metadata/managedFields/0/fieldsV1/f:data/f:a"}]`,
			"Content-Type", string(kube.JSONPatch))
	})
}
