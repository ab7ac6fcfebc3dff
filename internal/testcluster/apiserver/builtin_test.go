package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

const services = "/api/v1/namespaces/default/services"

// A real server answers so to a POST and to a PATCH: TestNodePortsThatAreUsedUpAreWaitedForTogether of
// internal/tools/e2e.
func TestNodePortsThatAreUsedUpAreAnInternalError(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		var ports []string
		for i := range 32767 - 30000 + 1 {
			ports = append(ports, fmt.Sprintf(`{"name":"p%d","port":%d}`, i, i+1))
		}
		all := w.must(201, "POST", services,
			`{"metadata":{"name":"all"},"spec":{"type":"NodePort","ports":[`+strings.Join(ports, ",")+`]}}`)
		for i, p := range all.at("spec.ports").([]any) { // 86 are left to Services that name theirs, until the end
			port, above := p.(map[string]any)["nodePort"].(int64), i < 2768-86
			if above != (port >= 30086) {
				t.Errorf("the port number %d is %d", i, port)
			}
		}
		w.must(201, "POST", services, `{"metadata":{"name":"none"},"spec":{"ports":[{"port":80}]}}`)
		created := w.must(500, "POST", services,
			`{"metadata":{"name":"more"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
		changed := w.must(500, "PUT", services+"/none",
			`{"metadata":{"name":"none"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
		for _, a := range []response{created, changed} {
			want := "Internal error occurred: failed to allocate a nodePort: range is full"
			if a.at("message") != want || a.at("reason") != "InternalError" {
				t.Errorf("%s\nwant %s", a.raw, want)
			}
		}
		w.must(404, "GET", services+"/more", "")
	})
}

const pods = "/api/v1/namespaces/default/pods"

func podBody(name string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`
}

// Rules: FS-36
func TestAnEventExpiresAfterAnHour(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		const old, fresh = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
		watch := w.watch(fresh + "?watch=1&timeoutSeconds=7200")
		defer watch.close()
		w.must(201, "POST", old, `{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p",`+
			`"namespace":"default"},"reason":"R","message":"m"}`)
		if f := watch.next(); f.at("note") != "m" {
			t.Errorf("watched as %v", f.Object)
		}
		start := time.Now()
		if f := watch.next(); f.Type != "DELETED" || time.Since(start) < 59*time.Minute ||
			time.Since(start) > 61*time.Minute {
			t.Errorf("%s after %v", f.Type, time.Since(start))
		}
		// A write begins the hour anew.
		w.must(201, "POST", old, `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"}}`)
		time.Sleep(40 * time.Minute)
		w.must(200, "PATCH", old+"/e", `{"count":2}`, "Content-Type", "application/merge-patch+json")
		time.Sleep(40 * time.Minute)
		w.must(200, "GET", old+"/e", "")
		time.Sleep(21 * time.Minute)
		w.must(404, "GET", old+"/e", "")
		// The garbage collector knows no Events, so no policy keeps one.
		w.must(201, "POST", old, `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"}}`)
		w.must(200, "DELETE", old+"/e?propagationPolicy=Foreground", "")
		w.must(404, "GET", old+"/e", "")
	})
}

// Rules: FS-37
func TestAnObjectThatEtcdWouldNotTakeIsRefused(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		long := strings.Repeat("x", 3<<19)
		refused := func(method, path, body string, header ...string) {
			t.Helper()
			if a := w.must(500, method, path, body, header...); a.at("message") != "etcdserver: request is too large" {
				t.Errorf("%s", a.raw)
			}
		}
		large := strings.Replace(podBody("large"), `"nginx"`, `"nginx","args":["`+long+`"]`, 1)
		refused("POST", pods, large)
		w.must(201, "POST", pods+"?dryRun=All", large) // which never comes to etcd
		w.must(201, "POST", pods, podBody("grown"))
		refused("PATCH", pods+"/grown", `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"`+
			long+`"}]}}`, "Content-Type", string(kube.StrategicMergePatch))
		if a := w.must(200, "GET", pods+"/grown", ""); a.at("metadata.labels") != nil {
			t.Error("a part of what was refused is stored")
		}
	})
}

// Rules: FD-19
func TestRequestsForFeaturesThatAreNotServedGetAnErrorAtOnce(t *testing.T) {
	withServer(t, Options{Token: "secret"}, func(w *testServer) {
		auth := []string{"Authorization", "Bearer secret"}
		w.must(403, "GET", configMaps, "")
		w.must(401, "GET", configMaps, "", "Authorization", "Bearer wrong")
		w.must(401, "GET", "/readyz", "", "Authorization", "Bearer wrong")
		w.must(200, "GET", "/readyz", "")
		w.must(200, "GET", configMaps, "", auth...)
		w.must(404, "GET", "/api/v1/namespaces/default/pods/a/log", "", auth...)
		w.must(201, "POST", "/api/v1/namespaces/default/pods",
			`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}`, auth...)
		for path, message := range map[string]string{
			"exec":        "nothing runs in this pod: skiff's embedded API server serves no exec",
			"portforward": "nothing runs in this pod: skiff's embedded API server serves no portforward",
		} {
			if a := w.must(501, "GET", "/api/v1/namespaces/default/pods/a/"+path, "",
				auth...); a.at("message") != message {
				t.Errorf("%s: %s", path, a.raw)
			}
		}
	})
}

func TestClaimsAndVolumesAreProtectedWhereAControllerLetsThemGo(t *testing.T) {
	const claims = "/api/v1/namespaces/default/persistentvolumeclaims"
	claim := func(finalizers string) string {
		return `{"metadata":{"name":"a","finalizers":[` + finalizers + `]},"spec":{"accessModes":["ReadWriteOnce"],
			"resources":{"requests":{"storage":"1Gi"}}}}`
	}
	withServer(t, Options{ProtectStorage: true}, func(w *testServer) {
		for sent, want := range map[string]string{``: "[kubernetes.io/pvc-protection]",
			`"a.b/c"`:                        "[a.b/c kubernetes.io/pvc-protection]",
			`"kubernetes.io/pvc-protection"`: "[kubernetes.io/pvc-protection]"} {
			have := w.must(201, "POST", claims+"?dryRun=All", claim(sent)).at("metadata.finalizers")
			if fmt.Sprint(have) != want {
				t.Errorf("with %s the finalizers are %v, want %s", sent, have, want)
			}
		}
		a := w.must(201, "POST", claims, claim(``))
		if strings.Contains(a.raw, "f:finalizers") {
			t.Errorf("the finalizer of the admission plugin has an owner: %s", a.raw)
		}
		w.must(200, "DELETE", claims+"/a", "")
		if w.must(200, "GET", claims+"/a", "").at("metadata.deletionTimestamp") == nil {
			t.Error("the claim is not being deleted")
		}
	})
	withServer(t, Options{}, func(w *testServer) {
		if a := w.must(201, "POST", claims, claim(``)); a.at("metadata.finalizers") != nil {
			t.Errorf("no controller would remove the finalizers %v", a.at("metadata.finalizers"))
		}
	})
}

// Rules: FD-02
func TestDiscoveryThatHasNotChangedIsNotSentAgain(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		tag := w.must(200, "GET", "/apis", "", "Accept", aggregated).header.Get("ETag")
		w.must(304, "GET", "/apis", "", "Accept", aggregated, "If-None-Match", tag)
		w.must(201, "POST", crdPath, widgetCRD)
		synctest.Wait()
		w.must(200, "GET", "/apis", "", "Accept", aggregated, "If-None-Match", tag)
	})
}

func TestAKindThatWouldHaveNoEffectIsRefusedWithTheReason(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
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
func kindAt(w *testServer, path string) string {
	return strings.TrimSuffix(w.must(200, "GET", path, "").at("kind").(string), "List")
}

func TestThePodsLogIsAnAnnotation(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", pods, `{"metadata":{"name":"p","annotations":{"skiff.dev/log":"one\ntwo\nthree",
			"skiff.dev/log.side":"aside"}},"spec":{"containers":[{"name":"main","image":"i"},
			{"name":"side","image":"i"}]}}`)
		w.must(201, "POST", pods, `{"metadata":{"name":"none"},"spec":{"containers":[{"name":"main","image":"i"}]}}`)
		if a := w.must(200, "GET", pods+"/none/log?follow=true", ""); strings.Count(a.raw, "\n") != 1 ||
			!strings.HasPrefix(a.raw, "Nothing runs in this pod") || !strings.Contains(a.raw, "skiff.dev/log") {
			t.Errorf("without an annotation: %q", a.raw)
		}
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

// deployment returns one with a container that asks for so much CPU.
func deployment(name, cpu string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name +
		`"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
"spec":{"containers":[{"name":"c","image":"x:1","resources":{"requests":{"cpu":` + cpu + `,"memory":"1.5Gi"}}}]}}}}`
}

// Rules: FS-04, FS-19
func TestQuantitiesAreStoredInOneFormSoThatAnotherIsNoChange(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		apply := func(code int, manager, cpu string) response {
			return w.must(code, "PATCH", deployments+"/d?fieldManager="+manager, deployment("d", cpu),
				"Content-Type", string(kube.ApplyPatch))
		}
		a := apply(201, "skiff", `"0.5"`)
		if !strings.Contains(a.raw, `"requests":{"cpu":"500m","memory":"1536Mi"}`) {
			t.Fatalf("stored as %s", a.raw)
		}
		time.Sleep(2 * time.Second) // so that a new time in managedFields would show
		for _, same := range []response{
			apply(200, "skiff", `"0.5"`), apply(200, "skiff", `0.5`), apply(200, "skiff", `"500m"`),
			w.must(200, "PUT", deployments+"/d", strings.Replace(a.raw, `"500m"`, `"0.5"`, 1)),
			w.must(200, "PATCH", deployments+"/d",
				`{"spec":{"template":{"spec":{"containers":[{"name":"c",
				"resources":{"requests":{"cpu":"0.500"}}}]}}}}`,
				"Content-Type", string(kube.StrategicMergePatch)),
		} {
			if same.raw != a.raw {
				t.Errorf("changed by another form of the same:\n%s\n%s", same.raw, a.raw)
			}
		}
		// The merge compares what was sent with what is stored, before it is put into its form: so it is a conflict on
		// the real server.
		if c := apply(409, "rival",
			`"0.5"`); c.at("message") != "Apply failed with 2 conflicts: conflicts with \"skiff\":\n"+
			"- .spec.template.spec.containers[name=\"c\"].resources.requests.cpu\n- "+
			".spec.template.spec.containers[name=\"c\"].resources.requests.memory" {
			t.Error(c.raw)
		}
	})
}
