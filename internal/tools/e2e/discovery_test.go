package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"skiff/internal/testcluster/apiserver"
)

// The embedded server lists the kinds, names, scopes and verbs that a real one lists, and nothing else.
func TestDiscoveryIsThatOfTheRealServer(t *testing.T) {
	cluster := ownCluster(t)
	want, fake := discovered(t, cluster.Admin), discovered(t, startFake(t))
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if fake[name] != want[name] {
			t.Errorf("%s: %q\nwant %q", name, fake[name], want[name])
		}
		delete(fake, name)
	}
	for name := range fake {
		t.Errorf("a real server has no %s", name)
	}
}

// discovered returns what aggregated discovery says of each resource and subresource.
func discovered(t *testing.T, api *API) map[string]string {
	t.Helper()
	_, _, shared := testdata(t, "scripts/discovery.txtar", nil)
	out := map[string]string{}
	for _, path := range []string{"/api", "/apis"} {
		a, err := sendStep(t.Context(), api, Step{Path: path, Accept: shared["aggregated"]}, nil)
		doc, ok := a.Body.(map[string]any)
		if err != nil || !ok {
			t.Fatal(a.Code, err)
		}
		for _, group := range Object(doc).List("items") {
			for _, version := range group.List("versions") {
				gv := strings.TrimPrefix(group.Str("metadata", "name")+"/"+version.Str("version"), "/")
				for _, r := range version.List("resources") {
					name := gv + " " + r.Str("resource")
					out[name] = fmt.Sprint(r.Str("scope"), " ", r.Str("responseKind", "kind"), " ",
						r.Str("singularResource"), " ", r["shortNames"], " ", r["categories"], " ", r["verbs"])
					for _, s := range r.List("subresources") {
						out[name+"/"+s.Str("subresource")] = fmt.Sprint(s.Str("responseKind", "kind"), " ", s["verbs"])
					}
				}
			}
		}
	}
	return out
}

// client-go's informers of each kind that is listed and watched are synced by the embedded server.
func TestAnInformerOfEachKindSyncs(t *testing.T) {
	server := apiserver.New(apiserver.Options{})
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		web.Close()
	})
	config := &rest.Config{Host: web.URL, QPS: 1000, Burst: 1000}
	clients := must(kubernetes.NewForConfig(config))(t)
	lists := must(clients.Discovery().ServerPreferredResources())(t)
	factory := informers.NewSharedInformerFactory(clients, 0)
	kinds := 0
	for _, list := range lists {
		version := must(schema.ParseGroupVersion(list.GroupVersion))(t)
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "watch") || version.Group == "apiextensions.k8s.io" ||
				version.Group == "apiregistration.k8s.io" { // client-go has no informers of these two
				continue
			}
			informer := must(factory.ForResource(version.WithResource(r.Name)))(t)
			informer.Informer()
			kinds++
		}
	}
	if kinds < 50 {
		t.Fatalf("only %d kinds", kinds)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Errorf("the informer of %s is not synced", kind)
		}
	}
	cancel()
	factory.Shutdown()
}
