package redis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"skiff/crds"
	"skiff/internal/events"
	"skiff/internal/fakeapi"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// world is the controller on an embedded API server, in virtual time, with a node and a garbage collector (node_test.go).
type world struct {
	*testing.T
	api  *fakeapi.Server
	pipe *fakeapi.Pipe
	user *kube.Client
	node *node
	stop func() // stops the controller, if it runs
	log  logr.Logger
}

// agent is the user agent of the controller under test, to tell its requests from ours.
const agent = "controller"

// story runs f in a fresh world with a running controller.
func story(t *testing.T, f func(w *world)) { storyWith(t, fakeapi.Options{}, testr.New(t), f) }

func storyWith(t *testing.T, o fakeapi.Options, log logr.Logger, f func(w *world)) {
	storyOn(t, func(definition []byte) []byte { return definition }, o, log, f)
}

// storyOn is story with a definition that was changed.
func storyOn(t *testing.T, change func([]byte) []byte, o fakeapi.Options, log logr.Logger, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, api: fakeapi.New(o), stop: func() {}, log: log}
		w.pipe = w.api.ListenPipe()
		w.user = w.connect("user", w.pipe.Dial)
		for _, text := range crds.All() {
			if bytes.Contains(text, []byte("redis.skiff.dev")) {
				w.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", change(text))
			}
		}
		w.pass(time.Second)
		w.node = w.startNode()
		w.start()
		defer func() {
			w.stop()
			w.node.stop()
			w.user.Close()
			if err := w.pipe.Close(); err != nil {
				t.Error(err)
			}
			w.api.Close()
		}()
		f(w)
	})
}

func (w *world) connect(agent string, dial dialFunc) *kube.Client {
	w.Helper()
	c, err := kube.New(kube.Config{Server: fakeapi.PipeURL, DialContext: dial, UserAgent: agent})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// apply posts YAML as `kubectl create` does.
func (w *world) apply(path string, text []byte) {
	w.Helper()
	transport := &http.Transport{DialContext: w.pipe.Dial}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Post(fakeapi.PipeURL+path, "application/yaml", bytes.NewReader(text))
	if err != nil {
		w.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusCreated {
		w.Fatalf("POST %s: %s %v", path, resp.Status, err)
	}
}

// exampleText is the example that users start from.
func exampleText(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "redis.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// start runs a new controller, as after a restart of the process: without any memory.
func (w *world) start() { w.startOn(w.pipe.Dial) }

// startOn is start with other connections. cancel ends the controller, and stop waits for that as well.
func (w *world) startOn(dial dialFunc) (cancel func()) {
	client := w.connect(agent, dial)
	recorder := events.New(events.Options{Client: client, Controller: "skiff.dev/redis", Instance: "test", Log: w.log})
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := New(client, Options{Events: recorder, Log: w.log}).Run(ctx); err != nil {
			w.Error(err)
		}
	})
	running.Go(func() {
		if err := recorder.Run(ctx); err != nil {
			w.Error(err)
		}
	})
	w.stop = func() {
		cancel()
		running.Wait()
		client.Close()
		w.stop = func() {}
	}
	w.settle()
	return cancel
}

// settle waits until nothing moves without the passing of time; pass lets time pass as well.
func (w *world) settle() { synctest.Wait() }

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func named(name string) kube.Key { return kube.Key{Namespace: "default", Name: name} }

// json decodes a test's own JSON.
func (w *world) json(text string) map[string]any {
	w.Helper()
	v, err := patch.Decode([]byte(text))
	if err != nil {
		w.Fatal(err)
	}
	m, _ := v.(map[string]any)
	return m
}

// create makes a Redis; the controller has reacted when it returns.
func (w *world) create(name, spec string) {
	w.Helper()
	w.post(resource, w.json(fmt.Sprintf(`{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","metadata":{"name":%q},"spec":%s}`, name, spec)))
}

func (w *world) post(r kube.Resource, body map[string]any) {
	w.Helper()
	if err := w.user.Create(w.Context(), r, "default", body, nil, kube.WriteOptions{FieldManager: "user"}); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

// patch merges JSON into an object.
func (w *world) patch(r kube.Resource, name, text string) {
	w.Helper()
	if err := w.user.Patch(w.Context(), r, named(name), kube.MergePatch, w.json(text), nil, kube.WriteOptions{FieldManager: "user"}); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

func (w *world) delete(r kube.Resource, name string) {
	w.Helper()
	if err := w.user.Delete(w.Context(), r, named(name), kube.DeleteOptions{Propagation: kube.Background}); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

// foreignPod makes a pod that nobody controls.
func (w *world) foreignPod(name string, labels string) {
	w.Helper()
	w.post(pods, w.json(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":%s},"spec":{"containers":[{"name":"own","image":"own"}]}}`, name, labels)))
}

// convert makes a T of a stored object, nil if there is none.
func convert[T any](w *world, o map[string]any) *T {
	w.Helper()
	if o == nil {
		return nil
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields") // large, and read by nobody here
	}
	text, err := json.Marshal(o)
	if err != nil {
		w.Fatal(err)
	}
	return decodeAs[T](w.T, string(text))
}

func (w *world) redis(name string) *Redis {
	w.Helper()
	return convert[Redis](w, w.api.Get(resource, named(name)))
}

func (w *world) pod(name string) *pod {
	w.Helper()
	return convert[pod](w, w.api.Get(pods, named(name)))
}

// podNames are the pods that there are, those that are being deleted with a minus.
func (w *world) podNames() string {
	var out []string
	for _, o := range w.api.List(pods, "default") {
		p := convert[pod](w, o)
		if p.Deleting() {
			p.Name += "-"
		}
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// wantPods checks which pods there are.
func (w *world) wantPods(want string) {
	w.Helper()
	w.want("pods", w.podNames(), want)
}

func (w *world) want(what string, got, want any) {
	w.Helper()
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantCondition checks a condition of a Redis, "True/Complete", and that its message has all the words.
func (w *world) wantCondition(name, conditionType, want string, words ...string) {
	w.Helper()
	rd := w.redis(name)
	for _, c := range rd.Status.Conditions {
		if c.Type != conditionType {
			continue
		}
		w.want(conditionType+" of "+name+" ("+c.Message+")", string(c.Status)+"/"+c.Reason, want)
		w.want("its generation", c.ObservedGeneration, rd.Generation)
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				w.Errorf("%s of %s: %q does not say %q", conditionType, name, c.Message, word)
			}
		}
		return
	}
	w.Errorf("%s has no condition %s", name, conditionType)
}

// wantReady checks that a Redis is all that its spec asks for.
func (w *world) wantReady(name string) {
	w.Helper()
	w.wantCondition(name, "Ready", "True/Complete")
	w.wantCondition(name, "Progressing", "False/Complete")
	w.wantCondition(name, "Degraded", "False/AsExpected")
	w.wantCondition(name, "Stalled", "False/AsExpected")
}

// forget begins a new count of requests.
func (w *world) forget() { w.api.ForgetRequests() }

// requests returns what the controller has sent since forget, besides lists, watches and Events: "POST pods 201". Status
// writes are left out if they are not asked for: how many there are depends on which events come together.
func (w *world) requests(statuses bool) []string {
	var out []string
	for _, r := range w.api.Requests() {
		_, what, ok := strings.Cut(r.Path, "/namespaces/default/") // lists and watches are of all namespaces
		if r.UserAgent != agent || !ok || what == "events" || strings.HasPrefix(what, "events/") || strings.HasSuffix(what, "/status") != statuses {
			continue
		}
		how := r.Method
		switch {
		case r.Query.Get("dryRun") != "":
			how = "TRY"
		case r.ContentType == string(kube.ApplyPatch):
			how = "APPLY"
		}
		out = append(out, fmt.Sprintf("%s %s %d", how, what, r.Status))
	}
	return out
}

func (w *world) wantRequests(want ...string) {
	w.Helper()
	if got := w.requests(false); !slices.Equal(got, want) {
		w.Errorf("requests:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// wantStatusWrites checks that there were no more than max, and that all of them were taken.
func (w *world) wantStatusWrites(max int) {
	w.Helper()
	got := w.requests(true)
	if len(got) > max || slices.ContainsFunc(got, func(r string) bool { return !strings.HasSuffix(r, " 200") }) {
		w.Errorf("status writes: %q, want at most %d", got, max)
	}
}

// eventReasons counts the Events about a Redis by reason.
func (w *world) eventReasons(name string) map[string]int {
	out := map[string]int{}
	for _, e := range w.api.List(kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}, "default") {
		regarding, _ := e["regarding"].(map[string]any)
		if reason, _ := e["reason"].(string); regarding["name"] == name {
			out[reason]++
		}
	}
	return out
}

// uids are the uids of all pods by name.
func (w *world) uids() map[string]string {
	out := map[string]string{}
	for _, o := range w.api.List(pods, "default") {
		p := convert[pod](w, o)
		out[p.Name] = p.UID
	}
	return out
}

// replaced names the pods that are others than before, in order.
func (w *world) replaced(before map[string]string) string {
	now := w.uids()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if before[name] != now[name] {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}
