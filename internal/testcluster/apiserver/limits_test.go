package apiserver

import (
	"strings"
	"testing"
	"testing/synctest"
)

const (
	limitRanges = "/api/v1/namespaces/default/limitranges"
	claims      = "/api/v1/namespaces/default/persistentvolumeclaims"
	mergeType   = "application/merge-patch+json"
)

// That they answer as a real server does is held by the scripts limits-of-* of internal/tools/e2e.
func TestALimitRangeGivesPodsDefaultsAndRefusesOthers(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", limitRanges, `{"metadata":{"name":"l"},"spec":{"limits":[
			{"type":"Container","defaultRequest":{"memory":"1Mi"},"max":{"cpu":"1"},"maxLimitRequestRatio":{"cpu":"2"}},
			{"type":"Pod","max":{"cpu":"1500m"}},{"type":"PersistentVolumeClaim","min":{"storage":"2Gi"}}]}}`)
		a := w.must(201, "POST", pods, podBody("a"))
		if got, want := a.at("metadata.annotations"), "LimitRanger plugin set: cpu, memory request for container c; "+
			"cpu limit for container c"; got.(map[string]any)["kubernetes.io/limit-ranger"] != want {
			t.Errorf("annotations %v, want %s", got, want)
		}
		if a.at("status.qosClass") != "Burstable" || strings.Contains(a.raw, `"f:limits"`) {
			t.Errorf("the pod %s is BestEffort, or its creator owns the defaults", a.raw)
		}
		for resources, want := range map[string]string{
			`"limits":{"cpu":"2"}`: `[maximum cpu usage per Container is 1, but limit is 2, maximum cpu usage per Pod is ` +
				`1500m, but limit is 2]`,
			`"requests":{"cpu":"100m"}`: "cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000",
		} {
			b := w.must(403, "POST", pods, `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i",
				"resources":{`+resources+`}}]}}`)
			if b.at("message") != `pods "b" is forbidden: `+want {
				t.Errorf("%s: %v", resources, b.at("message"))
			}
		}
		w.must(403, "POST", claims, claimBody("1Gi"))
		w.must(201, "POST", claims, claimBody("2Gi"))
	})
}

func claimBody(storage string) string {
	return `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"s","resources":{
		"requests":{"storage":"` + storage + `"}}}}`
}

// The script quota-updates of internal/tools/e2e holds the same against a real server.
func TestQuotasLimitUpdatesByWhatTheyTakeMore(t *testing.T) {
	inWorld(t, Options{Quotas: true}, func(w *world) {
		w.must(201, "POST", quotas, `{"metadata":{"name":"q"},"spec":{"hard":{"services":"2","services.nodeports":"1",
			"requests.storage":"3Gi","requests.cpu":"2"}}}`)
		synctest.Wait()
		const service = "/api/v1/namespaces/default/services"
		change := func(code int, path, body string) {
			w.must(code, "PATCH", path, body, "Content-Type", mergeType)
		}
		w.must(201, "POST", service, `{"metadata":{"name":"s"},"spec":{"ports":[{"name":"a","port":1},{"name":"b",
			"port":2}]}}`)
		change(403, service+"/s", `{"spec":{"type":"NodePort"}}`)
		change(200, service+"/s", `{"spec":{"type":"NodePort","ports":[{"port":1}]}}`)
		if a := w.must(200, "GET", quotas+"/q", ""); !strings.Contains(a.raw, `"services.nodeports":"1"`) {
			t.Errorf("the node port is not charged: %s", a.raw)
		}
		w.must(201, "POST", claims, claimBody("2Gi"))
		w.must(201, "POST", "/apis/storage.k8s.io/v1/storageclasses",
			`{"metadata":{"name":"s"},"provisioner":"a.b/c","allowVolumeExpansion":true}`)
		change(422, claims+"/c", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`)
		change(200, claims+"/c/status", `{"status":{"phase":"Bound"}}`)
		change(403, claims+"/c", `{"spec":{"resources":{"requests":{"storage":"4Gi"}}}}`)
		change(200, claims+"/c", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`)
		w.must(201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{
			"requests":{"cpu":"1"}}}]}}`)
		for cpu, code := range map[string]int{"3": 403, "2": 200} {
			w.must(code, "PATCH", pods+"/p/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"`+
				cpu+`"}}}]}}`, "Content-Type", "application/strategic-merge-patch+json")
		}
	})
}
