package manager

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// This file tests a manager whose controllers work against the embedded API server.

func newServer(t *testing.T) (*apiserver.Server, *kube.Client) {
	t.Helper()
	api := apiserver.New(apiserver.Options{})
	p := api.ListenPipe()
	client, err := kube.New(kube.Config{
		Server:      apiserver.PipeURL,
		Proxy:       func(*http.Request) (*url.URL, error) { return nil, nil },
		DialContext: p.Dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		api.Close()
	})
	return api, client
}

func create(t *testing.T, client *kube.Client, r kube.Resource, namespace string, obj map[string]any) {
	t.Helper()
	if err := client.Create(t.Context(), r, namespace, obj, nil, kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createMap(t *testing.T, client *kube.Client, name string) {
	t.Helper()
	create(t, client, configMaps, "default", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name,
			"labels": map[string]string{"by": "test"}},
	})
}

// defineWebServers installs a CRD as small as one can be.
func defineWebServers(t *testing.T, client *kube.Client) {
	t.Helper()
	create(t, client, kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
		Kind: "CustomResourceDefinition", ClusterScoped: true}, "", map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": webServers.GroupResource()},
		"spec": map[string]any{
			"group": webServers.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "webservers", "singular": "webserver", "kind": "WebServer",
				"listKind": "WebServerList"},
			"versions": []any{map[string]any{"name": webServers.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}}}},
		},
	})
}

// journal is what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) has(line string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.lines, line)
}

// noting returns a controller that notes the keys it runs for.
func (j *journal) noting(name string, client *kube.Client, r kube.Resource) *controller.Controller {
	f := func(_ context.Context, k kube.Key) (controller.Outcome, error) {
		j.note(name + " ran " + k.Name)
		return controller.Done, nil
	}
	// The API server has config maps of its own.
	o := cache.Options{Resource: r, Client: client, Namespaces: []string{"default"}, LabelSelector: "by=test"}
	if r == webServers {
		o.LabelSelector = ""
	}
	return controller.New(name, f, controller.Options{}, controller.For(cache.New[*configMap](o)))
}

// Rules: MGR-06
func TestAMissingCRDParksOneControllerAndIsPickedUpWithin15SecondsWhileOthersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newServer(t)
		var j journal
		p, stop := run(t, Options{Controllers: []*controller.Controller{
			j.noting("webserver", client, webServers),
			j.noting("maps", client, configMaps),
		}})
		time.Sleep(10 * time.Minute)
		createMap(t, client, "one")
		time.Sleep(time.Second)
		expect(t, "the other controller ran", j.has("maps ran one"), true)
		code, body := p.get("/readyz")
		expect(t, "/readyz "+body, code, 200) // a typo must not block a rollout
		code, body = p.get("/readyz?verbose")
		expect(t, "/readyz?verbose", code, 200)
		expectText(t, "/readyz?verbose", body,
			"[+]webserver ok\n    ! not working: namespace default: webservers.skiff.dev: the server does not have "+
				"this resource; ",
			"\n    webservers.skiff.dev in default: backing off, 0 objects, last contact never\n",
			"[+]maps ok\n    configmaps in default: streaming, 1 object, last contact ")

		defineWebServers(t, client)
		time.Sleep(15 * time.Second)
		_, body = p.get("/readyz?verbose")
		expect(t, "not working "+body, strings.Contains(body, "not working"), false)
		create(t, client, webServers, "default", map[string]any{
			"apiVersion": webServers.APIVersion(), "kind": "WebServer", "metadata": map[string]any{"name": "web"},
		})
		time.Sleep(time.Second)
		expect(t, "the controller ran", j.has("webserver ran web"), true)
		expect(t, "stop", stop(), nil)
	})
}

// Rules: MGR-01, MGR-02, MGR-06
func TestAStopTurnsReadyzFirstThenDrainsThenStopsTheMirrorsAndClosesTheProbesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		var j journal
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client, LabelSelector: "by=test"})
		writer := controller.New("writer", func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
			j.note("began " + k.Name)
			time.Sleep(20 * time.Second)
			err := client.Patch(ctx, configMaps, k, kube.MergePatch,
				map[string]any{"data": map[string]any{"written": "yes"}}, nil, kube.WriteOptions{})
			j.note("ended " + k.Name)
			return controller.Done, err
		}, controller.Options{Workers: 1}, controller.For(store))
		p, stop := run(t, Options{Controllers: []*controller.Controller{writer,
			j.noting("other", client, configMaps)}})
		createMap(t, client, "one")
		createMap(t, client, "two")
		time.Sleep(time.Second)
		code, body := p.get("/readyz")
		expect(t, "/readyz under load "+body, code, 200)

		began := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		for time.Since(began) < 18*time.Second {
			time.Sleep(time.Second)
			code, body = p.get("/readyz")
			expect(t, "/readyz while draining", code, 503)
			expectText(t, "/readyz while draining", body, "[-]shutdown failed: stopping", "[+]writer ok")
			code, _ = p.get("/healthz")
			expect(t, "/healthz while draining", code, 200)
		}
		// A change during the drain still reaches the mirror, and starts no run.
		createMap(t, client, "three")
		synctest.Wait()
		if _, ok, err := store.Get(kube.Key{Namespace: "default", Name: "three"}); !ok || err != nil {
			t.Errorf("the mirror no longer follows while a run is under way: %v, %v", ok, err)
		}
		expect(t, "stop", <-stopped, nil)
		expect(t, "drained in", time.Since(began), 19*time.Second)
		code, _ = p.get("/healthz")
		expect(t, "/healthz after the stop", code, 0)
		data, _ := api.Get(configMaps, kube.Key{Namespace: "default", Name: "one"})["data"].(map[string]any)
		expect(t, "written by the run that was under way", data["written"], any("yes"))
		expect(t, "journal of the writer", strings.Join(slices.DeleteFunc(j.lines, func(l string) bool {
			return strings.HasPrefix(l, "other")
		}), ", "), "began one, ended one")
		synctest.Wait() // until the server has noticed
		for _, r := range api.Requests() {
			if r.Watch() && r.Done.IsZero() {
				t.Errorf("still watched: %s", r.Path)
			}
		}
	})
}

// Rules: MGR-02, WQ-15
func TestARunThatNeverReturnsIsNamedAndDoesNotHoldUpTheStopBeyondItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newServer(t)
		release := make(chan struct{})
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client, LabelSelector: "by=test"})
		stuck := controller.New("stuck", func(context.Context, kube.Key) (controller.Outcome, error) {
			<-release
			return controller.Done, nil
		}, controller.Options{}, controller.For(store))
		_, stop := run(t, Options{Controllers: []*controller.Controller{stuck}})
		createMap(t, client, "one")
		time.Sleep(time.Second)
		began := time.Now()
		err := stop()
		if err == nil {
			t.Fatal("no error")
		}
		expectText(t, "error", err.Error(), "controller stuck: drain: ", "[default/one]")
		if took := time.Since(began); took > drainTimeout {
			t.Errorf("the stop took %v", took)
		}
		close(release)
	})
}

func TestTheDrainTimeoutOfTheManagerIsTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		errs := New(Options{}).drain(make(chan ended), map[string]bool{"controller slow": true})
		expectText(t, "error", errors.Join(errs...).Error(), "controller slow: not stopped within 30s")
		expect(t, "the stop took", time.Since(began), drainTimeout)
	})
}

// Rules: WCH-28
func TestAVersionThatIsNoLongerServedIsNamedWithTheNextStepAndPickedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		defineWebServers(t, client)
		crds := kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
			Kind: "CustomResourceDefinition", ClusterScoped: true}
		edit := func(patches ...any) {
			t.Helper()
			if err := client.Patch(t.Context(), crds, kube.Key{Name: "webservers.skiff.dev"}, kube.JSONPatch, patches,
				nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		edit(map[string]any{"op": "add", "path": "/spec/versions/-", "value": map[string]any{"name": "v1",
			"served": true, "storage": false, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}})
		var j journal
		c := j.noting("webserver", client, webServers)
		p, stop := run(t, Options{Controllers: []*controller.Controller{c}})
		createServer := func(name string) {
			served := webServers
			served.Version = "v1"
			create(t, client, served, "default", map[string]any{"apiVersion": "skiff.dev/v1", "kind": "WebServer",
				"metadata": map[string]any{"name": name}})
		}
		time.Sleep(time.Minute)
		createServer("one")
		time.Sleep(time.Second)
		expect(t, "ran for the first", j.has("webserver ran one"), true)

		edit(map[string]any{"op": "replace", "path": "/spec/versions/0/served", "value": false})
		time.Sleep(time.Minute)
		_, body := p.get("/readyz?verbose")
		expectText(t, "/readyz", body, "webservers.skiff.dev is served as v1, and this skiff needs v1alpha1")
		api.ForgetRequests()
		time.Sleep(10 * time.Minute)
		if n := len(api.Requests()); n > 10*60/5*3 {
			t.Errorf("%d requests in ten minutes", n)
		}

		createServer("two")
		edit(map[string]any{"op": "replace", "path": "/spec/versions/0/served", "value": true})
		time.Sleep(15 * time.Second)
		expect(t, "ran for the second", j.has("webserver ran two"), true)
		expect(t, "stop", stop(), nil)
	})
}
