package apiserver

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

func featureSet(t *testing.T, version, gates string) features.Set {
	t.Helper()
	set, err := features.New(version, gates)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// podWith is a pod with a field in its spec, as JSON.
func podWith(name, field string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c",` +
		`"image":"i"}],` + field + `}}`
}

func TestAnOlderVersionHasItsOwnKindsFieldsAndGates(t *testing.T) {
	const pods, hostname = "/api/v1/namespaces/default/pods", `"hostnameOverride":"a"`
	initial := pods + "?" + url.Values{"watch": {"1"}, "sendInitialEvents": {"true"}, "timeoutSeconds": {"1"},
		"resourceVersionMatch": {"NotOlderThan"}, "allowWatchBookmarks": {"true"}}.Encode()
	for _, test := range []struct {
		version, gates string
		server         string // in /version
		cidrs, claims  int    // of requests for ServiceCIDRs, which came with 1.33, and for ResourceClaims, with 1.34
		strict         int    // of a strict request with a field that came with 1.34, off until 1.35
		kept           bool   // that field
		watchList      int    // of a watch that asks for the present state
		emulated       bool   // /version has emulationMinor
		flagz          int
		deprecated     bool // Endpoints are
	}{
		{"1.32", "", "v1.32.13", 404, 404, 400, false, 200, false, 404, false},
		{"1.33", "", "v1.33.13", 200, 404, 400, false, 422, true, 404, true},
		{"1.33", "WatchList=true", "v1.33.13", 200, 404, 400, false, 200, true, 404, true},
		{"1.34", "", "v1.34.4", 200, 200, 201, false, 200, true, 404, true},
		{"1.34", "HostnameOverride=true", "v1.34.4", 200, 200, 201, true, 200, true, 404, true},
		{"1.35", "", "v1.35.4", 200, 200, 201, true, 200, true, 404, true},
		{"", "", "v1.36.3", 200, 200, 201, true, 200, true, 200, true},
		{"", "HostnameOverride=false,ComponentFlagz=false", "v1.36.3", 200, 200, 201, false, 200, true, 404, true},
	} {
		t.Run(test.version+" "+test.gates, func(t *testing.T) {
			withServer(t, Options{Features: featureSet(t, test.version, test.gates)}, func(w *testServer) {
				v := w.must(200, "GET", "/version", "")
				if v.at("gitVersion") != test.server || (v.at("emulationMinor") != nil) != test.emulated {
					t.Error(v.raw)
				}
				w.must(test.cidrs, "GET", "/apis/networking.k8s.io/v1/servicecidrs", "")
				w.must(test.claims, "GET", "/apis/resource.k8s.io/v1/resourceclaims", "")
				w.must(test.strict, "POST", pods+"?fieldValidation=Strict", podWith("strict", hostname))
				pod := w.must(201, "POST", pods+"?fieldValidation=Ignore", podWith("lax", hostname))
				if kept := pod.at("spec.hostnameOverride") != nil; kept != test.kept {
					t.Errorf("the field was kept: %t, want %t: %s", kept, test.kept, pod.raw)
				}
				w.must(test.flagz, "GET", "/flagz", "", "Accept", "text/plain")
				endpoints := w.must(200, "GET", "/api/v1/namespaces/default/endpoints", "")
				if warned := endpoints.header.Get("Warning") != ""; warned != test.deprecated {
					t.Errorf("Endpoints are deprecated: %t, want %t", warned, test.deprecated)
				}
				w.must(test.watchList, "GET", initial, "")
			})
		})
	}
}

func TestAFieldWhoseGateIsOffStaysInAnObjectThatHasIt(t *testing.T) {
	const sets = "/apis/apps/v1/namespaces/default/statefulsets"
	set := func(name, unavailable string) string {
		return `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"` + name + `"},"spec":{` +
			`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[` +
			`{"name":"c","image":"i"}]}},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0` +
			unavailable + `}}}}`
	}
	const field = "spec.updateStrategy.rollingUpdate.maxUnavailable"
	withServer(t, Options{}, func(w *testServer) {
		if a := w.must(201, "POST", sets, set("a", `,"maxUnavailable":2`)); a.at(field) != nil {
			t.Errorf("MaxUnavailableStatefulSet is off by default: %v", a.at(field))
		}
	})
	types := schema.In(features.Set{}, "apps/v1", "StatefulSet")
	decoded := func(text string) map[string]any { return obj.DecodeLines([]byte(text))[0] }
	for _, test := range []struct {
		cur  map[string]any
		want any
	}{
		{nil, nil},
		{decoded(set("a", "")), nil},
		{decoded(set("a", `,"maxUnavailable":2`)), int64(3)},
	} {
		next := decoded(set("a", `,"maxUnavailable":3`))
		types.DropDisabled(next, test.cur)
		if got := obj.Get(next, strings.Split(field, ".")...); got != test.want {
			t.Errorf("after %v the field is %v, want %v", test.cur, got, test.want)
		}
	}
}

func TestAVolumeWhoseGateIsOffIsDroppedWithItsMounts(t *testing.T) {
	old := featureSet(t, "1.34", "")
	withServer(t, Options{Features: old}, func(w *testServer) {
		pod := w.must(201, "POST", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[`+
			`{"name":"c","image":"i","restartPolicy":"Never","volumeMounts":[{"name":"v","mountPath":"/v"},`+
			`{"name":"w","mountPath":"/w"}]}],"initContainers":[{"name":"s","image":"i","restartPolicy":"Always"}],`+
			`"volumes":[{"name":"v","image":{"reference":"r"}},{"name":"w"}]}}`)
		for _, want := range []string{`"volumes":[{"emptyDir":{},"name":"w"}]`,
			`"volumeMounts":[{"mountPath":"/w","name":"w"}]`,
			`"restartPolicy":"Always","terminationMessagePath"`} {
			if !strings.Contains(pod.raw, want) {
				t.Errorf("no %s in %s", want, pod.raw)
			}
		}
		if strings.Contains(pod.raw, `"Never"`) {
			t.Errorf("the restartPolicy of a container was kept: %s", pod.raw)
		}
		for _, path := range []string{"/openapi/v2", "/openapi/v3/api/v1"} {
			if a := w.must(200, "GET", path, ""); a.at("info.version") != old.Version() {
				t.Errorf("%s says that it is of %v", path, a.at("info.version"))
			}
		}
	})
}

func TestTheRolesOfAnOlderVersionGrantWhatTheyDidThen(t *testing.T) {
	for version, want := range map[string][]string{
		"1.33": {}, "1.34": {`"resource.k8s.io"`}, "": {`"resource.k8s.io"`, `"events.k8s.io"`}} {
		withServer(t, Options{Features: featureSet(t, version, ""), RBAC: true}, func(w *testServer) {
			edit := string(w.s.store.Get("clusterroles.rbac.authorization.k8s.io",
				store.Key{Name: "system:aggregate-to-edit"}).JSON())
			for _, group := range []string{`"resource.k8s.io"`, `"events.k8s.io"`} {
				if strings.Contains(edit, group) != slices.Contains(want, group) {
					t.Errorf("%s in 1.%d: %s", group, w.s.opts.Features.Minor(), edit)
				}
			}
		})
	}
}

func TestWhatIsNotServedIsInNoDiscovery(t *testing.T) {
	o := Options{Unserved: []string{"autoscaling/v1", "apps/v1/daemonsets"}}
	withServer(t, o, func(w *testServer) {
		w.must(404, "GET", "/apis/autoscaling/v1", "")
		w.must(200, "GET", "/apis/autoscaling/v2/horizontalpodautoscalers", "")
		w.must(404, "GET", "/apis/apps/v1/daemonsets", "")
		w.must(200, "GET", "/apis/apps/v1/deployments", "")
		if a := w.must(200, "GET", "/apis/apps/v1", ""); strings.Contains(a.raw, "daemonsets") {
			t.Error(a.raw)
		}
	})
}
