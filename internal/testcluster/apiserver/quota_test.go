package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const quotas = "/api/v1/namespaces/default/resourcequotas"

// That they answer as a real server does is held by the differential test of internal/tools/e2e.
func TestQuotasLimitWhatIsCreated(t *testing.T) {
	withServer(t, Options{Quotas: true}, func(w *testServer) {
		w.must(201, "POST", quotas, `{"metadata":{"name":"q"},"spec":{"hard":{"pods":"2","requests.memory":"1536Mi",
			"count/deployments.apps":"0","services.nodeports":"1"}}}`)
		synctest.Wait()
		pod := func(code int, name, resources string) response {
			return w.must(code, "POST", pods, `{"metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c",
				"image":"i","resources":{`+resources+`}}]}}`)
		}
		if a := pod(403, "a", ""); a.at("message") !=
			`pods "a" is forbidden: failed quota: q: must specify requests.memory for: c` {
			t.Error(a.raw)
		}
		pod(201, "a", `"requests":{"memory":"1Gi"}`)
		if a := w.must(200, "GET", quotas+"/q", ""); a.at("status.used.pods") != "1" ||
			!strings.Contains(a.raw, `"requests.memory":"1Gi"`) { // it was charged at once
			t.Error(a.raw)
		}
		if a := pod(403, "b", `"requests":{"memory":"1Gi"}`); a.at("message") != `pods "b" is forbidden: exceeded `+
			`quota: q, requested: requests.memory=1Gi, used: requests.memory=1Gi, limited: requests.memory=1536Mi` {
			t.Error(a.raw)
		}
		pod(201, "b", `"requests":{"memory":"512Mi"}`)
		if a := w.must(403, "POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"web"},"spec":{
			"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
			"spec":{"containers":[{"name":"c","image":"i"}]}}}}`); !strings.Contains(a.raw, "exceeded quota") {
			t.Error(a.raw)
		}
		service := func(code int, name string) {
			w.must(code, "POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"`+name+`"},"spec":{
				"type":"NodePort","ports":[{"port":80}]}}`)
		}
		service(201, "one")
		service(403, "two")
		w.must(200, "PATCH", pods+"/a/status", `{"status":{"phase":"Succeeded"}}`,
			"Content-Type", "application/merge-patch+json")
		synctest.Wait()
		if a := w.must(200, "GET", quotas+"/q", ""); a.at("status.used.pods") != "1" ||
			!strings.Contains(a.raw, `"requests.memory":"512Mi"`) { // a pod that has ended takes nothing
			t.Error(a.raw)
		}
	})
}

func TestWhatOneQuotaRefusesIsNotChargedToAnother(t *testing.T) {
	withServer(t, Options{Quotas: true}, func(w *testServer) {
		for name, limit := range map[string]string{"a": "5", "b": "0"} {
			w.must(201, "POST", quotas, `{"metadata":{"name":"`+name+`"},"spec":{"hard":{"pods":"`+limit+`"}}}`)
		}
		synctest.Wait()
		before := w.must(200, "GET", quotas+"/a", "")
		w.must(403, "POST", pods, podBody("p"))
		if after := w.must(200, "GET", quotas+"/a", ""); after.raw != before.raw {
			t.Errorf("the quota with room became %s", after.raw)
		}
	})
}

func TestQuotasThatNobodyCountsAreNotEnforced(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", quotas, `{"metadata":{"name":"q"},"spec":{"hard":{"pods":"0"}}}`)
		w.must(201, "POST", pods, podBody("a"))
	})
}

func TestQuotasCountClaimsByClassAndPodsByTheirAffinity(t *testing.T) {
	withServer(t, Options{Quotas: true}, func(w *testServer) {
		const fast = "fast.storageclass.storage.k8s.io/"
		w.must(201, "POST", quotas, `{"metadata":{"name":"claims"},"spec":{"hard":{"`+fast+`requests.storage":"3Gi",
			"`+fast+`persistentvolumeclaims":"2"}}}`)
		w.must(201, "POST", quotas, `{"metadata":{"name":"cross"},"spec":{"hard":{"pods":"0"},"scopeSelector":{
			"matchExpressions":[{"scopeName":"CrossNamespacePodAffinity","operator":"Exists"}]}}}`)
		synctest.Wait()
		claim := func(code int, name, class, size string) {
			w.must(code, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"`+name+
				`"},"spec":{"storageClassName":"`+class+`","accessModes":["ReadWriteOnce"],"resources":{"requests":{
				"storage":"`+size+`"}}}}`)
		}
		claim(201, "a", "fast", "2Gi")
		claim(403, "b", "fast", "2Gi")
		claim(201, "b", "slow", "9Gi")
		claim(201, "c", "fast", "1Gi")
		claim(403, "d", "fast", "0")
		pod := func(code int, name, term string) {
			w.must(code, "POST", pods, `{"metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c","image":"i"}],
				"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k"`+term+
				`}]}}}}`)
		}
		pod(201, "own", ``)
		pod(403, "other", `,"namespaces":["other"]`)
		pod(403, "any", `,"namespaceSelector":{}`)
	})
}

func TestAClaimThatNamesNoClassGetsTheNewestDefault(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		class := func(name, annotations string) {
			w.must(201, "POST", "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"`+name+
				`","annotations":{`+annotations+`}},"provisioner":"a.b/c"}`)
			time.Sleep(time.Second)
		}
		claim := func(name, spec string, want any) {
			a := w.must(201, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"`+name+
				`"},"spec":{`+spec+`"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
			if have := a.at("spec.storageClassName"); have != want {
				t.Errorf("claim %s has class %v, want %v", name, have, want)
			}
			if strings.Contains(fmt.Sprint(a.at("metadata.managedFields")), "storageClassName") != (spec != "") {
				t.Errorf("claim %s: owners %v", name, a.at("metadata.managedFields"))
			}
		}
		class("plain", "")
		claim("early", "", nil)
		class("z", `"storageclass.kubernetes.io/is-default-class":"true"`)
		claim("one", "", "z")
		class("a", `"storageclass.beta.kubernetes.io/is-default-class":"true"`)
		class("no", `"storageclass.kubernetes.io/is-default-class":"false"`)
		claim("two", "", "a")
		claim("none", `"storageClassName":"",`, "")
		claim("other", `"storageClassName":"plain",`, "plain")
	})
}
