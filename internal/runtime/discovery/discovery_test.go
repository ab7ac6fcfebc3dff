package discovery_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
)

// serve starts a server that has only discovery documents.
func serve(t *testing.T, documents map[string]string) *kube.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text, ok := documents[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = `{"kind":"Status","status":"Failure","code":503,"reason":"ServiceUnavailable","message":"the ` +
				`extension server is down"}`
		}
		io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	c, err := kube.New(kube.Config{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Rules: MGR-20
func TestResourcesAreFoundByAnyOfTheirNames(t *testing.T) {
	const verbs = `"verbs":["get","list","watch"]`
	c := serve(t, map[string]string{
		"/api/v1": `{"resources":[{"name":"pods/status","kind":"Pod"},{"name":"pods","singularName":"pod",` +
			`"kind":"Pod","namespaced":true,"shortNames":["po"],` + verbs + `},
			{"name":"events","singularName":"event","kind":"Event","namespaced":true,` + verbs + `},
			{"name":"componentstatuses","kind":"ComponentStatus","shortNames":["cs"],"verbs":["get","list"]}]}`,
		"/apis": `{"groups":[{"name":"broken.example","preferredVersion":{"version":"v1"}},
			{"name":"apps","preferredVersion":{"version":"v1"}},
			{"name":"events.k8s.io","preferredVersion":{"version":"v1"}},
			{"name":"skiff.dev","preferredVersion":{"version":"v1alpha1"}}]}`,
		"/apis/apps/v1": `{"resources":[{"name":"deployments","singularName":"deployment",` +
			`"kind":"Deployment","namespaced":true,"shortNames":["deploy"],` + verbs + `}]}`,
		"/apis/events.k8s.io/v1": `{"resources":[{"name":"events","singularName":"event","kind":"Event",` +
			`"namespaced":true,` + verbs + `}]}`,
		"/apis/skiff.dev/v1alpha1": `{"resources":[{"name":"webservers","singularName":"webserver",` +
			`"kind":"WebServer","namespaced":true,"shortNames":["ws"],` + verbs + `}]}`,
	})
	for name, want := range map[string]string{
		"pods": "/api/v1/pods", "pod": "/api/v1/pods", "po": "/api/v1/pods",
		"Pod": "/api/v1/pods", "PODS": "/api/v1/pods",
		"deploy": "/apis/apps/v1/deployments", "deployments.apps": "/apis/apps/v1/deployments",
		"Deployment.apps": "/apis/apps/v1/deployments",
		"events":          "/api/v1/events", "events.events.k8s.io": "/apis/events.k8s.io/v1/events",
		"pods.v1.": "/api/v1/pods", "Deployment.v1.apps": "/apis/apps/v1/deployments",
		"events.v1.events.k8s.io": "/apis/events.k8s.io/v1/events",

		"ws": "/apis/skiff.dev/v1alpha1/webservers", "webserver.skiff.dev": "/apis/skiff.dev/v1alpha1/webservers",
	} {
		r, err := discovery.Resolve(t.Context(), c, name)
		if err != nil || r.Root()+"/"+r.Plural != want {
			t.Errorf("%s: %s/%s, %v, want %s", name, r.Root(), r.Plural, err, want)
		}
	}
	for name, say := range map[string]string{
		"pods.v1.apps": `no resource "pods.v1.apps"`,
		"pods.apps":    `no resource "pods.apps"`,
		"pods/status":  `extension server is down`,
		"cs":           "cannot be listed and watched",
		"nothing":      "the extension server is down",
		"x.skiff.dev":  "kubectl api-resources",

		"podz":               "did you mean pods?",
		"webservr.skiff.dev": "did you mean webserver.skiff.dev?",
		"deploymnts.v1.apps": "did you mean deployments.v1.apps?",
	} {
		if _, err := discovery.Resolve(t.Context(), c, name); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: error %v, want %q", name, err, say)
		}
	}
}

// Rules: HK-13, HK-15
func TestAResourceSaysWhetherItHasAStatusSubresource(t *testing.T) {
	const verbs = `"verbs":["get","list","watch"]`
	c := serve(t, map[string]string{"/apis/example.com/v1": `{"resources":[
		{"name":"things","singularName":"thing","kind":"Thing","namespaced":true,` + verbs + `},
		{"name":"things/status","kind":"Thing","namespaced":true,"verbs":["get","patch","update"]},
		{"name":"plains","singularName":"plain","kind":"Plain",` + verbs + `}]}`})
	things, found, err := discovery.Find(t.Context(), c, "example.com", "v1", "things")
	if !found || err != nil || !things.Status || things.Kind != "Thing" || things.ClusterScoped {
		t.Errorf("%+v, %v, %v", things, found, err)
	}
	plains, found, err := discovery.Find(t.Context(), c, "example.com", "v1", "plains")
	if !found || err != nil || plains.Status || !plains.ClusterScoped {
		t.Errorf("%+v, %v, %v", plains, found, err)
	}
}

// Rules: HK-94
func TestAResourceThatIsNotServedIsNamedWithTheOneThatIsLikeIt(t *testing.T) {
	c := serve(t, map[string]string{"/apis/example.com/v1": `{"resources":[{"name":"sites","singularName":"site",
		"kind":"Site","verbs":["list","watch"]},{"name":"sites/status","kind":"Site"}]}`})
	for plural, want := range map[string]string{"sitez": "sites", "other": ""} {
		if got := discovery.NearestPlural(t.Context(), c, "example.com", "v1", plural); got != want {
			t.Errorf("%s: got %q, want %q", plural, got, want)
		}
	}
}

// Rules: HK-94
func TestAGroupThatIsNotServedHasNoResourcesAndIsNoError(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	c, err := kube.New(kube.Config{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, found, err := discovery.Find(t.Context(), c, "example.com", "v1", "things"); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if _, _, err := discovery.Find(t.Context(), c, "", "v1", "pods"); !kube.IsNotFound(err) {
		t.Errorf("the core group: %v", err)
	}
}
