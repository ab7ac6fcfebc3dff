package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
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

// Rules: FS-39
func TestServicesGetAddressesAndPortsAndKeepThem(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		a := w.must(201, "POST", services,
			`{"metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
		ip, port := fmt.Sprint(a.at("spec.clusterIP")),
			a.at("spec.ports").([]any)[0].(map[string]any)["nodePort"].(int64)
		if !strings.HasPrefix(ip, "10.96.") || port < 30000 || port > 32767 ||
			a.at("spec.internalTrafficPolicy") != "Cluster" {
			t.Errorf("created %s", a.raw)
		}
		b := w.must(422, "POST", services, fmt.Sprintf(
			`{"metadata":{"name":"b"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%d}]}}`, port))
		if want := fmt.Sprintf(
			`Service "b" is invalid: spec.ports[0].nodePort: Invalid value: %d: provided port is already allocated`,
			port); b.at("message") != want {
			t.Errorf("%s\nwant %s", b.raw, want)
		}
		w.must(422, "POST", services,
			`{"metadata":{"name":"b"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":80}]}}`)
		c := w.must(200, "PUT", services+"/a",
			`{"metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80}],"selector":{"x":"y"}}}`)
		if c.at("spec.clusterIP") != ip || c.at("spec.ports").([]any)[0].(map[string]any)["nodePort"] != port {
			t.Errorf("a PUT without them lost the allocations: %s", c.raw)
		}
		if d := w.must(200, "DELETE", services+"/a", ""); d.at("kind") != "Service" {
			t.Errorf("DELETE of a Service answers with %v", d.at("kind"))
		}
		w.must(201, "POST", services,
			fmt.Sprintf(`{"metadata":{"name":"b"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%d}]}}`,
				port))
	})
}

const pods = "/api/v1/namespaces/default/pods"

func podBody(name string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`
}

func binding(name, target string) string {
	return `{"metadata":{"name":"` + name + `"},"target":` + target + `}`
}

// The simulation's kubelet (package simulate) finishes pods.
//
// Rules: FS-13
func TestOnlyPodsOnANodeHaveAGracePeriod(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", pods, podBody("a"))
		w.must(200, "DELETE", pods+"/a", "")
		w.must(404, "GET", pods+"/a", "")
		created := w.must(201, "POST", pods, podBody("b"))
		w.must(201, "POST", pods+"/b/binding", binding("b", `{"kind":"Node","name":"n1"}`))
		watch := w.watch(pods + "?watch=true&resourceVersion=" + fmt.Sprint(w.s.Revision()))
		defer watch.close()
		b := w.must(200, "DELETE", pods+"/b", "")
		if b.at("metadata.deletionGracePeriodSeconds") != int64(30) || b.at("metadata.generation") != int64(2) ||
			b.at("metadata.deletionTimestamp") != time.Now().Add(30*time.Second).UTC().Format(time.RFC3339) {
			t.Errorf("graceful: %s", b.raw)
		}
		if again := w.must(200, "DELETE", pods+"/b", ""); again.raw != b.raw {
			t.Errorf("the second time: %s", again.raw)
		}
		w.must(200, "DELETE", pods+"/b", `{"gracePeriodSeconds":0}`)
		w.must(404, "GET", pods+"/b", "")
		for _, want := range []struct {
			event string
			grace float64
		}{{"MODIFIED", 30}, {"MODIFIED", 0}, {"DELETED", 0}} {
			if f := watch.next(); f.Type != want.event || f.at("metadata.uid") != created.at("metadata.uid") ||
				f.at("metadata.deletionGracePeriodSeconds") != want.grace {
				t.Errorf("%s %v, want %v", f.Type, f.Object, want)
			}
		}
	})
}

// Rules: FS-36
func TestEventsAreOneStoreUnderTwoNamesAndExpire(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		const old, fresh = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
		watch := w.watch(fresh + "?watch=1&timeoutSeconds=7200")
		defer watch.close()
		w.must(201, "POST", old, `{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p",`+
			`"namespace":"default"},"reason":"R","message":"m"}`)
		if a := w.must(200, "GET", fresh+"/e", ""); a.at("note") != "m" || a.at("regarding.name") != "p" ||
			a.at("message") != nil || a.at("apiVersion") != "events.k8s.io/v1" {
			t.Error(a.raw)
		}
		if f := watch.next(); f.at("note") != "m" {
			t.Errorf("watched as %v", f.Object)
		}
		if got := itemNames(w.must(200, "GET", old+"?fieldSelector=involvedObject.name%3Dp", "")); got != "e" {
			t.Errorf("selected %q", got)
		}
		start := time.Now()
		if f := watch.next(); f.Type != "DELETED" || time.Since(start) < 59*time.Minute ||
			time.Since(start) > 61*time.Minute {
			t.Errorf("%s after %v", f.Type, time.Since(start))
		}
		// The garbage collector knows no Events, so no policy keeps one.
		w.must(201, "POST", fresh, `{"metadata":{"name":"e"},"regarding":{"namespace":"default"},"type":"Normal",
			"eventTime":"2000-01-01T00:00:00.000000Z","reportingController":"c","reportingInstance":"i"}`)
		w.must(200, "DELETE", fresh+"/e?propagationPolicy=Foreground", "")
		w.must(404, "GET", fresh+"/e", "")
	})
}

// Rules: FD-01, FD-02, FD-03, FD-04
func TestDiscoveryInBothForms(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		a := w.must(200, "GET", "/apis", "", "Accept", aggregated+",application/json")
		if a.header.Get("Content-Type") != aggregated || a.at("kind") != "APIGroupDiscoveryList" ||
			!strings.Contains(a.raw, `"resource":"widgets"`) {
			t.Errorf("%s: %s", a.header.Get("Content-Type"), a.raw)
		}
		w.must(304, "GET", "/apis", "", "Accept", aggregated, "If-None-Match", a.header.Get("ETag"))
		if b := w.must(200, "GET", "/apis", "", "Accept", "application/json"); b.at("kind") != "APIGroupList" ||
			b.header.Get("Content-Type") != "application/json" {
			t.Error(b.raw)
		}
		if b := w.must(200, "GET", "/apis/example.com/v1", ""); !strings.Contains(b.raw, `"name":"widgets/scale"`) ||
			!strings.Contains(b.raw, `"shortNames":["wd"]`) {
			t.Error(b.raw)
		}
		if b := w.must(200, "GET", "/version", ""); b.at("gitVersion") != Version {
			t.Error(b.raw)
		}
		w.must(200, "GET", "/readyz", "")
		w.must(404, "GET", "/apis/nope.example.com/v1", "")
	})
}

func TestScalersAreOneKindInTwoVersions(t *testing.T) {
	const v1, v2 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
		"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	const target = `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3`
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", v1, `{"metadata":{"name":"a"},"spec":{`+target+`,"targetCPUUtilizationPercentage":70}}`)
		a := w.must(200, "GET", v2+"/a", "")
		want := []any{map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu",
			"target": map[string]any{"type": "Utilization", "averageUtilization": int64(70)}}}}
		if !patch.Equal(a.at("spec.metrics"), want) {
			t.Error(a.raw)
		}
		created := w.must(201, "POST", v2, `{"metadata":{"name":"b"},"spec":{`+target+
			`,"behavior":{"scaleDown":{"stabilizationWindowSeconds":5}},
			"metrics":[{"type":"Resource","resource":{"name":"memory",
			"target":{"type":"Utilization","averageUtilization":5}}}]}}`)
		shown := w.must(200, "GET", v1+"/b", "")
		if shown.at("spec.targetCPUUtilizationPercentage") != nil || shown.at("spec.metrics") != nil ||
			shown.at("apiVersion") != "autoscaling/v1" {
			t.Error(shown.raw)
		}
		// A change through the old version loses nothing that it cannot show.
		w.must(200, "PATCH", v1+"/b", `{"spec":{"maxReplicas":4}}`, "Content-Type", string(kube.MergePatch))
		b := w.must(200, "GET", v2+"/b", "")
		if b.at("spec.maxReplicas") != int64(4) || b.at("metadata.annotations") != nil ||
			!patch.Equal(b.at("spec.metrics"), created.at("spec.metrics")) ||
			!patch.Equal(b.at("spec.behavior"), created.at("spec.behavior")) {
			t.Error(b.raw)
		}
	})
}

// Rules: FS-37
func TestRequestsThatAreTooLargeOrInAnotherFormatAreRefused(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		x := func(n int) string { return strings.Repeat("x", n) }
		refused := func(code int, method, path, body, message string, header ...string) {
			t.Helper()
			if a := w.must(code, method, path, body, header...); a.at("message") != message ||
				a.at("kind") != "Status" || a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s", a.raw)
			}
		}
		refused(413, "POST", configMaps, `{"data":{"a":"`+x(3<<20)+`"}}`, "Request entity too large: limit is 3145728")
		refused(422, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"a":"`+x(1<<20)+`","b":"x"}}`,
			`ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes`)
		refused(422, "POST", "/api/v1/namespaces/default/secrets",
			`{"metadata":{"name":"a"},"stringData":{"a":"`+x(1<<20)+`","b":"x"}}`,
			`Secret "a" is invalid: data: Too long: may not be more than 1048576 bytes`)
		w.must(201, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"a":"`+x(1<<20)+`"}}`)
		const tooMuch = "etcdserver: request is too large"
		large := strings.Replace(podBody("large"), `"nginx"`, `"nginx","args":["`+x(3<<19)+`"]`, 1)
		refused(500, "POST", pods, large, tooMuch)
		w.must(201, "POST", pods+"?dryRun=All", large) // which never comes to etcd
		w.must(201, "POST", pods, podBody("grown"))
		refused(500, "PATCH", pods+"/grown",
			`{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"`+x(3<<19)+`"}]}}`, tooMuch,
			"Content-Type", string(kube.StrategicMergePatch))
		if a := w.must(200, "GET", pods+"/grown", ""); a.at("metadata.labels") != nil {
			t.Error("a part of what was refused is stored")
		}
		refused(405, "PUT", configMaps, "{}", "the server does not allow this method on the requested resource")
		refused(415, "POST", configMaps, "{}", "the body of the request was in an unknown format - accepted media "+
			"types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
			"Content-Type", "text/plain")
		refused(406, "GET", configMaps, "", "406: Not Acceptable\n\nAvailable representations: application/json, "+
			"application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, "+
			"application/vnd.kubernetes.protobuf;stream=watch", "Accept", "text/html")
		if a := w.must(404, "GET", "/nope", ""); a.raw != "404 page not found\n" ||
			!strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%v %s", a.header, a.raw)
		}
	})
}

// Rules: FD-19
func TestRequestsForFeaturesThatAreNotServedGetAnErrorAtOnce(t *testing.T) {
	withServer(t, Options{Token: "secret"}, func(w *testServer) {
		auth := []string{"Authorization", "Bearer secret"}
		w.must(401, "GET", configMaps, "")
		w.must(401, "GET", configMaps, "", "Authorization", "Bearer wrong")
		w.must(401, "GET", "/readyz", "", "Authorization", "Bearer wrong")
		w.must(200, "GET", "/readyz", "")
		w.must(200, "GET", configMaps, "", auth...)
		w.must(415, "POST", configMaps, "{}", append(auth, "Content-Type", "application/cbor")...)
		w.must(http.StatusRequestEntityTooLarge, "POST", configMaps, `{"data":{"a":"`+
			strings.Repeat("x", httpd.MaxBody)+`"}}`, auth...)
		if a := w.must(404, "GET", "/nope", "", auth...); a.raw != "404 page not found\n" {
			t.Error(a.raw)
		}
		w.must(405, "PUT", configMaps, "{}", auth...)
		w.must(404, "GET", "/api/v1/namespaces/default/pods/a/log", "", auth...)
		w.must(201, "POST", "/api/v1/namespaces/default/pods",
			`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}`, auth...)
		for path, message := range map[string]string{
			"log": "nothing runs in this pod: skiff's embedded API server answers with the annotation " +
				"skiff.dev/log of the pod, if there is one",
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
