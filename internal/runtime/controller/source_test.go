package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// This file tests controllers against the embedded API server, over real HTTP on net.Pipe in virtual time.

type configMap struct {
	kube.Meta `json:"metadata"`
	Data      map[string]string `json:"data"`
}

var (
	configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	pods       = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	webServers = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	things     = kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}
)

// world is an API server, its user, and a client for controllers.
type world struct {
	t           *testing.T
	api         *apiserver.Server
	user, skiff *kube.Client
	pipe        *apiserver.Pipe
}

// skiffAgent is the user agent of a world's controllers.
const skiffAgent = "skiff"

// newWorld must be called in a bubble; it ends with the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: apiserver.New(apiserver.Options{})}
	p := w.api.ListenPipe()
	w.pipe = p
	connect := func(agent string) *kube.Client {
		client, err := kube.New(kube.Config{
			Server:      apiserver.PipeURL,
			UserAgent:   agent,
			Proxy:       func(*http.Request) (*url.URL, error) { return nil, nil },
			DialContext: p.Dial,
		})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	w.user, w.skiff = connect("user"), connect(skiffAgent)
	t.Cleanup(func() {
		w.user.Close()
		w.skiff.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		w.api.Close()
	})
	return w
}

func (w *world) store(selector string) *cache.Store[*configMap] {
	return cache.New[*configMap](cache.Options{Resource: configMaps, Client: w.skiff, LabelSelector: selector})
}

// run starts a controller and returns how to stop it.
func (w *world) run(c *Controller) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	time.Sleep(time.Second)
	return func() {
		w.t.Helper()
		cancel()
		expect(w.t, "stop", <-ended, nil)
	}
}

// put creates or changes a config map with one value and waits until everybody has heard of it.
func (w *world) put(name, role, value string, owner *kube.Meta) {
	w.t.Helper()
	metadata := map[string]any{"name": name, "labels": map[string]string{"role": role}}
	if owner != nil {
		metadata["ownerReferences"] = []map[string]any{{
			"apiVersion": "v1", "kind": "ConfigMap", "name": owner.Name, "uid": owner.UID, "controller": true,
		}}
	}
	body := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]string{"value": value},
	}
	err := w.user.Create(w.t.Context(), configMaps, "default", body, nil, kube.WriteOptions{})
	if kube.IsAlreadyExists(err) {
		err = w.user.Patch(w.t.Context(), configMaps, key(name), kube.MergePatch, body, nil, kube.WriteOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Second)
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.user.Delete(w.t.Context(), configMaps, key(name), kube.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Second)
}

// value returns the value of a config map in the server, "none" if there is no such map.
func (w *world) value(name string) string {
	data, ok := w.api.Get(configMaps, key(name))["data"].(map[string]any)
	if !ok {
		return "none"
	}
	return fmt.Sprint(data["value"])
}

func (w *world) meta(name string) *kube.Meta {
	w.t.Helper()
	var m configMap
	if err := w.user.Get(w.t.Context(), configMaps, key(name), &m); err != nil {
		w.t.Fatal(err)
	}
	return &m.Meta
}

// copier is a tiny controller: each config map of role parent gets a copy of role child.
type copier struct {
	client            *kube.Client
	parents, children *cache.Store[*configMap]
}

func (w *world) copier(log logr.Logger) *Controller {
	r := copier{w.skiff, w.store("role=parent"), w.store("role=child")}
	return New("copier", r.reconcile, Options{Log: log}, For(r.parents), Owns(r.children, "ConfigMap"))
}

func (r copier) reconcile(ctx context.Context, k kube.Key) (Outcome, error) {
	parent, ok, err := r.parents.Get(k)
	if err != nil || !ok {
		return Done, err
	}
	childKey := kube.Key{Namespace: k.Namespace, Name: k.Name + "-copy"}
	child, ok, err := r.children.Get(childKey)
	if err != nil {
		return Done, err
	}
	value := parent.Data["value"]
	if !ok {
		return Done, r.client.Create(ctx, configMaps, k.Namespace, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{
				"name":   childKey.Name,
				"labels": map[string]string{"role": "child"},
				"ownerReferences": []map[string]any{{
					"apiVersion": "v1", "kind": "ConfigMap", "name": k.Name, "uid": parent.UID, "controller": true,
				}},
			},
			"data": map[string]string{"value": value},
		}, nil, kube.WriteOptions{})
	}
	if child.Data["value"] == value {
		return Done, nil
	}
	patch := map[string]any{"data": map[string]string{"value": value}}
	return Done, r.client.Patch(ctx, configMaps, childKey, kube.MergePatch, patch, nil, kube.WriteOptions{})
}

func TestAControllerKeepsTheWorldAsDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log logLines
		w.put("early", "parent", "1", nil) // there before the start
		c := w.copier(log.logger())
		stop := w.run(c)
		expect(t, "ready", c.Ready(), nil)
		expect(t, "copy of what was there", w.value("early-copy"), "1")
		w.put("web", "parent", "1", nil)
		expect(t, "copy", w.value("web-copy"), "1")
		w.put("web", "parent", "2", nil)
		expect(t, "copy after a change", w.value("web-copy"), "2")
		w.delete("web-copy")
		expect(t, "copy after its deletion", w.value("web-copy"), "2")
		w.put("web-copy", "child", "edited", nil)
		expect(t, "copy after a foreign edit", w.value("web-copy"), "2")
		w.delete("web")
		w.delete("web-copy")
		expect(t, "copy of a deleted parent", w.value("web-copy"), "none")

		for _, cause := range []string{
			`"key"="default/early" "cause"="initial list"`,
			`"key"="default/web" "cause"="ConfigMap default/web ADDED"`,
			`"key"="default/web" "cause"="ConfigMap default/web MODIFIED"`,
			`"key"="default/web" "cause"="ConfigMap default/web DELETED"`,
			`"key"="default/web" "cause"="ConfigMap default/web-copy ADDED"`,
			`"key"="default/web" "cause"="ConfigMap default/web-copy DELETED"`,
		} {
			if len(log.with(cause)) == 0 {
				t.Errorf("no run with %s in\n%s", cause, strings.Join(log.with("cause"), "\n"))
			}
		}
		expect(t, "failed runs", c.Stats().Errors, 0)

		w.api.ForgetRequests()
		time.Sleep(30 * time.Second)
		for _, r := range w.api.Requests() {
			if !r.Watch() {
				t.Errorf("in steady state: %s %s", r.Method, r.Path)
			}
		}
		stop()
	})
}

// Rules: MGR-17
func TestAnObjectThatChangesItsOwnerRunsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("a", "parent", "1", nil)
		w.put("b", "parent", "1", nil)
		w.put("moved", "child", "1", w.meta("a"))
		ran := map[string]int{}
		c := New("owners", func(_ context.Context, k kube.Key) (Outcome, error) {
			ran[k.Name]++
			return Done, nil
		}, Options{Workers: 1}, Owns(w.store("role=child"), "ConfigMap"))
		stop := w.run(c)
		w.put("moved", "child", "1", w.meta("b"))
		w.put("foreign", "child", "1", &kube.Meta{Name: "a", UID: "of another kind"})
		stop()
		expect(t, "runs of the old owner", ran["a"], 3) // listed, moved away, foreign
		expect(t, "runs of the new owner", ran["b"], 1)
	})
}

func TestOwnsIgnoresOwnersOfOtherKindsAndThoseThatDoNotControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := 0
		c := New("owners", func(context.Context, kube.Key) (Outcome, error) {
			ran++
			return Done, nil
		}, Options{Workers: 1}, Owns(w.store(""), "WebServer"))
		stop := w.run(c)
		w.put("plain", "child", "1", nil)
		w.put("owned", "child", "1", &kube.Meta{Name: "a", UID: "1"})
		stop()
		expect(t, "runs", ran, 0)
	})
}

func TestWatchesMapsTheObjectAsItWasAndAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var ran []string
		take := func() string {
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(ran)
			out := strings.Join(ran, " ")
			ran = nil
			return out
		}
		byValue := func(m *configMap) []kube.Key {
			if m.Data["value"] == "panic" {
				panic("map function")
			}
			return []kube.Key{key(m.Data["value"])}
		}
		c := New("values", func(_ context.Context, k kube.Key) (Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, k.Name)
			return Done, nil
		}, Options{}, Watches(w.store("role=value"), byValue))
		stop := w.run(c)
		w.put("x", "value", "one", nil)
		expect(t, "after creation", take(), "one")
		w.put("x", "value", "two", nil)
		expect(t, "after a change", take(), "one two")
		w.put("x", "gone", "three", nil) // leaves the selector
		expect(t, "after it left", take(), "two")
		w.put("bad", "value", "panic", nil)
		w.put("y", "value", "four", nil)
		expect(t, "after a panic of the map function", take(), "four")
		stop()
	})
}

// Rules: WQ-10
func TestAChangeRunsBeforeTheRestOfALongInitialList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const objects = 100
		for i := range objects {
			w.put(fmt.Sprint("m", i), "parent", "1", nil)
		}
		var mu sync.Mutex
		var ran []string
		c := New("slow", func(_ context.Context, k kube.Key) (Outcome, error) {
			time.Sleep(10 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, k.Name)
			return Done, nil
		}, Options{Workers: 1}, For(w.store("role=parent")))
		stop := w.run(c)
		w.put("m99", "parent", "2", nil) // raised
		w.put("new", "parent", "1", nil)
		time.Sleep(time.Hour)
		stop()
		expect(t, "runs", len(ran), objects+1)
		if i := slices.Index(ran, "new"); i > 3 {
			t.Errorf("the new object ran as number %d", i)
		}
		if i := slices.Index(ran, "m99"); i > 2 {
			t.Errorf("the changed object ran as number %d", i)
		}
	})
}

func TestANewGenerationStartsTheBackoffAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var attempts []int
		c := New("fails", func(ctx context.Context, k kube.Key) (Outcome, error) {
			before, _ := ctx.Value(streakKey{}).(streak)
			attempts = append(attempts, before.failures)
			return Done, errors.New("no luck")
		}, Options{Workers: 1}, For(w.store("")))
		stop := w.run(c)
		w.put("x", "any", "1", nil)
		time.Sleep(4 * time.Minute) // it waits for longer than this test now
		synctest.Wait()
		n := len(attempts)
		expect(t, "failures before the last run", attempts[n-1], n-1)
		w.put("x", "any", "2", nil) // a config map has no generation: a change like one of a status
		synctest.Wait()
		expect(t, "failures before the run of a change", attempts[len(attempts)-1], n)
		w.delete("x")
		stop()
		expect(t, "failures before the run of the deletion", attempts[n+1], 0)
	})
}

func TestAMissingResourceAndAMissingGrantAreSaidWithTheNextStepAndPickedUpWithin15Seconds(t *testing.T) {
	for _, test := range []struct {
		resource kube.Resource
		reply    *apiserver.Reply
		parts    []string
	}{
		{webServers, &apiserver.Reply{Code: 404, Reason: "NotFound",
			Message: "the server could not find the requested resource"},
			[]string{"not working: webservers.skiff.dev is not installed; install it"}},
		{things, &apiserver.Reply{Code: 404, Body: "404 page not found\n", ContentType: "text/plain"},
			[]string{"not working: things.example.com: ", "the server does not have this resource; install its CRD"}},
		{pods, &apiserver.Reply{Code: 403, Reason: "Forbidden",
			Message: `pods is forbidden: User "skiff" cannot list resource "pods"`},
			[]string{"not working: namespace default: may not list and watch pods; " +
				"grant test to skiff in default",
				"pods in default: backing off, 0 objects, last contact never"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var log logLines
			o := cache.Options{Resource: test.resource, Client: w.skiff}
			if test.resource == pods {
				o.Namespaces = []string{"default"}
			}
			path := "/apis/" + test.resource.Group
			if test.resource.Group == "" {
				path = "/api/v1/namespaces/default/pods"
			}
			restore := w.api.Inject(apiserver.Fault{Path: path, Reply: test.reply})
			// What the resource answers once it is there: for a custom one, the server lists nothing.
			empty := func() { restore() }
			if test.resource.Group != "" {
				empty = func() { restore(); w.define(test.resource) }
			}
			ran := 0
			c := New("test", func(context.Context, kube.Key) (Outcome, error) {
				ran++
				return Done, nil
			}, Options{Log: log.logger(), Workers: 1, Advice: advice},
				For(cache.New[*configMap](o)), For(w.store("role=other")))
			if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "have not been listed yet") {
				t.Fatalf("before the start: %v", err)
			}
			w.put("waits", "other", "1", nil)
			stop := w.run(c)
			time.Sleep(10 * time.Minute)
			expect(t, "ready for a rollout", c.Ready(), nil)
			for _, part := range test.parts {
				if status := status(c); !strings.Contains(status, part) {
					t.Errorf("no %q in %q", part, status)
				}
			}
			expect(t, "log lines that say what is waited for", len(log.with(`"msg"="waiting"`)), 1)
			expect(t, "started", len(log.with(`"msg"="started"`)), 0)
			empty()
			time.Sleep(15 * time.Second)
			expect(t, "ready 15 s later", c.Ready(), nil)
			expect(t, "what is wrong 15 s later",
				strings.Contains(status(c), "not working"), false)
			stop()
			expect(t, "runs", ran, 1)
		})
	}
}

// define installs a CRD for r.
func (w *world) define(r kube.Resource) {
	w.t.Helper()
	crds := kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
		Kind: "CustomResourceDefinition", ClusterScoped: true}
	err := w.user.Create(w.t.Context(), crds, "", map[string]any{
		"apiVersion": crds.APIVersion(), "kind": crds.Kind,
		"metadata": map[string]any{"name": r.GroupResource()},
		"spec": map[string]any{
			"group": r.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": r.Plural, "singular": strings.ToLower(r.Kind), "kind": r.Kind,
				"listKind": r.Kind + "List"},
			"versions": []any{map[string]any{"name": r.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}, nil, kube.WriteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Rules: MGR-02, MGR-04
func TestARunThatIsUnderWayAtTheStopStillWritesAndItsMirrorStillFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := w.store("role=parent")
		c := New("writer", func(ctx context.Context, k kube.Key) (Outcome, error) {
			time.Sleep(5 * time.Second)
			err := w.skiff.Patch(ctx, configMaps, k, kube.MergePatch,
				map[string]any{"data": map[string]string{"value": "written"}}, nil, kube.WriteOptions{})
			if err != nil {
				return Done, err
			}
			time.Sleep(5 * time.Second)
			m, _, err := store.Get(k)
			if err != nil || m.Data["value"] != "written" {
				t.Errorf("the mirror has %v (%v)", m, err)
			}
			return Done, nil
		}, Options{}, For(store))
		stop := w.run(c)
		w.put("x", "parent", "1", nil)
		began := time.Now()
		stop()
		expect(t, "drained in", time.Since(began), 9*time.Second)
		expect(t, "value", w.value("x"), "written")
	})
}

func TestOnceRunsItsKeyAlsoWhereNothingIsMirrored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ran []kube.Key
		c := New("once", func(_ context.Context, k kube.Key) (Outcome, error) {
			ran = append(ran, k)
			return Done, nil
		}, Options{Workers: 1}, For(w.store("role=nobody")), Once(key("start")))
		stop := w.run(c)
		expect(t, "ready", c.Ready(), nil)
		time.Sleep(time.Hour)
		stop()
		expect(t, "runs", len(ran), 1)
		expect(t, "key", ran[0], key("start"))
	})
}

func TestTwoSourcesOfOneStoreRunItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := w.store("")
		c := New("both", func(context.Context, kube.Key) (Outcome, error) { return Done, nil }, Options{},
			For(store), Owns(store, "ConfigMap"))
		stop := w.run(c)
		expect(t, "ready", c.Ready(), nil)
		stop()
	})
}

// One watch serves both, and one of them that stops takes nothing from the other.
func TestTwoControllersShareAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := w.store("")
		var first, second atomic.Int32
		count := func(n *atomic.Int32) Func {
			return func(context.Context, kube.Key) (Outcome, error) {
				n.Add(1)
				return Done, nil
			}
		}
		stopFirst := w.run(New("first", count(&first), Options{}, For(store)))
		w.put("a", "", "1", nil)
		stopSecond := w.run(New("second", count(&second), Options{}, For(store))) // later, while it runs
		expect(t, "runs of the first", first.Load(), 1)
		expect(t, "runs of the second", second.Load(), 1)
		stopFirst()
		w.put("a", "", "2", nil)
		expect(t, "runs of the first after its end", first.Load(), 1)
		expect(t, "runs of the second", second.Load(), 2)
		stopSecond()
		expect(t, "synced with nobody to run it", store.Serves(""), false)
	})
}

// Rules: MGR-06, RFL-05
func TestAControllerWhoseWatchStaysDeadIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := w.store("")
		c := New("test", func(context.Context, kube.Key) (Outcome, error) { return Done, nil }, Options{}, For(store))
		stop := w.run(c)
		refuse := apiserver.Fault{Verb: "watch", Resource: "configmaps", UserAgent: skiffAgent,
			Reply: &apiserver.Reply{Code: 503}}
		restore := w.api.Inject(refuse)
		expect(t, "ready while the open watch lasts", c.Ready(), nil)
		time.Sleep(13 * time.Minute) // a watch is renewed within ten, and two are forgiven
		if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "the server answers 503 "+
			"ServiceUnavailable; configmaps have not been up to date for ") {
			t.Errorf("ready: %v, want what the watch is refused with, and for how long", err)
		}
		expect(t, "synced", store.State()[0].Synced, true)
		restore()
		time.Sleep(time.Minute)
		expect(t, "ready again", c.Ready(), nil)
		stop()
	})
}

// A server that is frozen keeps its connections open. Its bookmarks stop.
func TestStatusTellsOfAWatchThatIsSilentForLongerThanItWasSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := New("test", func(context.Context, kube.Key) (Outcome, error) { return Done, nil }, Options{},
			For(w.store("")))
		stop := w.run(c)
		for i := range 60 {
			time.Sleep(time.Minute)
			if i < 30 || i >= 55 { // a watch on which nothing changes gets no bookmark
				w.createIn("default", secrets, fmt.Sprint("of-others-", i))
			}
			expect(t, "silent while all is well", strings.Contains(status(c), "nothing received"), false)
		}
		for i := 0; ; i++ { // until one has come on this watch: it may have been renewed a moment ago
			if state := c.mirrors[0].State()[0]; state.LastBookmark.After(state.Opened) {
				break
			}
			w.createIn("default", secrets, fmt.Sprint("more-of-others-", i))
			time.Sleep(time.Minute)
		}
		w.pipe.Blackhole(true)
		time.Sleep(time.Minute)
		expect(t, "silent after a minute", strings.Contains(status(c), "nothing received"), false)
		time.Sleep(silentAfter - time.Minute + time.Second) // the last bookmark may have come this very moment
		for range 300 {
			if text := status(c); !strings.Contains(text, ": nothing received for ") &&
				!strings.Contains(text, " have not been up to date for ") {
				t.Fatalf("the status of a frozen server:\n%s", text)
			}
			time.Sleep(time.Second)
		}
		w.pipe.Blackhole(false)
		time.Sleep(5 * time.Minute)
		expect(t, "needs attention when it is back", strings.Contains(status(c), "!"), false)
		stop()
	})
}

func TestOnlyARunThatWroteOrFailedIsLoggedAtTheDefaultLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log logLines
		c := New("test", func(ctx context.Context, k kube.Key) (Outcome, error) {
			switch k.Name {
			case "writes":
				return Done, w.skiff.Create(ctx, configMaps, "default",
					map[string]any{"metadata": map[string]any{"name": "made"}}, nil, kube.WriteOptions{})
			case "fails":
				return Done, kube.AsStatus(w.skiff.Get(ctx, configMaps, key("nobody"), &configMap{}))
			}
			return Done, w.skiff.Get(ctx, configMaps, key("looks"), &configMap{})
		}, Options{Log: log.logger()}, For(w.store("role=parent")))
		stop := w.run(c)
		for _, name := range []string{"writes", "fails", "looks"} {
			w.put(name, "parent", "1", nil)
		}
		stop()
		for name, want := range map[string]string{
			"writes": `"level"=0 "msg"="reconciled"`,
			"fails":  `"msg"="reconcile failed"`,
			"looks":  `"level"=1 "msg"="reconciled"`,
		} {
			if lines := log.with("default/" + name); len(lines) == 0 || !strings.Contains(lines[0], want) {
				t.Errorf("%s: %q, want %s", name, lines, want)
			}
		}
		expect(t, "lines that count the write", len(log.with(`"writes"=1`)), 1)
	})
}
