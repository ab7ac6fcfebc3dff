package webserver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"

	"skiff/crds"
	"skiff/internal/events"
	"skiff/internal/fakeapi"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// world is the controller on an embedded API server, in virtual time. Nothing runs Deployments: rollOut plays that part.
type world struct {
	*testing.T
	api  *fakeapi.Server
	pipe *fakeapi.Pipe
	user *kube.Client
	stop func() // stops the controller, if it runs
}

// agent is the user agent of the controller under test, to tell its requests from ours.
const agent = "controller"

// story runs f in a fresh world with a running controller.
func story(t *testing.T, f func(w *world)) { storyWith(t, crds.All(), f) }

// storyWith is story with other definitions.
func storyWith(t *testing.T, definitions [][]byte, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, api: fakeapi.New(fakeapi.Options{}), stop: func() {}}
		w.pipe = w.api.ListenPipe()
		w.user = w.connect("user")
		w.installCRD(definitions)
		w.start()
		defer func() {
			w.stop()
			w.user.Close()
			if err := w.pipe.Close(); err != nil {
				t.Error(err)
			}
			w.api.Close()
		}()
		f(w)
	})
}

func (w *world) connect(agent string) *kube.Client {
	w.Helper()
	c, err := kube.New(kube.Config{Server: fakeapi.PipeURL, DialContext: w.pipe.Dial, UserAgent: agent})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// installCRD posts definitions as `kubectl create` does.
func (w *world) installCRD(definitions [][]byte) {
	w.Helper()
	transport := &http.Transport{DialContext: w.pipe.Dial}
	defer transport.CloseIdleConnections()
	for _, text := range definitions {
		const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		resp, err := (&http.Client{Transport: transport}).Post(fakeapi.PipeURL+path, "application/yaml", bytes.NewReader(text))
		if err != nil {
			w.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusCreated {
			w.Fatalf("install CRD: %s %v", resp.Status, err)
		}
	}
	w.pass(time.Second)
}

// start runs a new controller, as after a restart of the process: without any memory.
func (w *world) start() {
	client := w.connect(agent)
	recorder := events.New(events.Options{Client: client, Controller: "skiff.dev/webserver", Instance: "test", Log: testr.New(w.T)})
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := New(client, Options{Events: recorder, Log: testr.New(w.T)}).Run(ctx); err != nil {
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
}

// settle waits until nothing moves without the passing of time; pass lets time pass as well.
func (w *world) settle() { synctest.Wait() }

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func web(name string) kube.Key { return kube.Key{Namespace: "default", Name: name} }

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

// create makes a WebServer; the controller has reacted when it returns.
func (w *world) create(name, spec string) {
	w.Helper()
	body := w.json(fmt.Sprintf(`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":%q},"spec":%s}`, name, spec))
	w.post(resource, body)
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
	w.patchSub(r, name, "", text)
}

func (w *world) patchSub(r kube.Resource, name, subresource, text string) {
	w.Helper()
	if err := w.user.Patch(w.Context(), r, web(name), kube.MergePatch, w.json(text), nil,
		kube.WriteOptions{FieldManager: "user", Subresource: subresource}); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

func (w *world) delete(r kube.Resource, name string) {
	w.Helper()
	if err := w.user.Delete(w.Context(), r, web(name), kube.DeleteOptions{Propagation: kube.Background}); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

// rollOut does what a Deployment controller has done in the end.
func (w *world) rollOut(name string) {
	w.Helper()
	d := w.api.Get(deployments, web(name))
	n := at(d, "spec", "replicas")
	w.patchSub(deployments, name, "status", fmt.Sprintf(`{"status":{"observedGeneration":%v,"replicas":%v,"updatedReplicas":%v,"readyReplicas":%v,"availableReplicas":%v}}`,
		at(d, "metadata", "generation"), n, n, n, n))
}

// at returns the value at a path of an object, nil if it is not there; numbers are places in lists.
func at(o any, path ...any) any {
	for _, p := range path {
		switch v := o.(type) {
		case map[string]any:
			key, _ := p.(string)
			o = v[key]
		case []any:
			i, ok := p.(int)
			if !ok || i >= len(v) {
				return nil
			}
			o = v[i]
		default:
			return nil
		}
	}
	return o
}

func (w *world) want(what string, got, want any) {
	w.Helper()
	for _, v := range []*any{&got, &want} { // numbers of decoded JSON are int64
		if n, ok := (*v).(int); ok {
			*v = int64(n)
		}
	}
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%s is %v, want %v", what, got, want)
	}
}

// wantCondition checks a condition of a WebServer: "True/Complete".
func (w *world) wantCondition(name, conditionType, want string) {
	w.Helper()
	ws := w.api.Get(resource, web(name))
	list, _ := at(ws, "status", "conditions").([]any)
	for _, c := range list {
		if at(c, "type") == conditionType {
			w.want(conditionType+" of "+name, fmt.Sprint(at(c, "status"), "/", at(c, "reason")), want)
			w.want("its generation", at(c, "observedGeneration"), at(ws, "metadata", "generation"))
			return
		}
	}
	w.Errorf("%s has no condition %s", name, conditionType)
}

// forget begins a new count of requests.
func (w *world) forget() { w.api.ForgetRequests() }

// requests returns what the controller has sent since forget, besides lists, watches and Events: "POST services 201".
func (w *world) requests() []string {
	var out []string
	for _, r := range w.api.Requests() {
		_, what, named := strings.Cut(r.Path, "/namespaces/default/") // lists and watches are of all namespaces
		if r.UserAgent != agent || !named || what == "events" || strings.HasPrefix(what, "events/") {
			continue
		}
		how := r.Method
		switch r.ContentType {
		case string(kube.ApplyPatch):
			how = "APPLY"
			if m := r.Query.Get("fieldManager"); m != "skiff" {
				how += " as " + m
			}
		case string(kube.JSONPatch):
			how = "MIGRATE"
		}
		out = append(out, fmt.Sprintf("%s %s %d", how, what, r.Status))
	}
	return out
}

func (w *world) wantRequests(want ...string) {
	w.Helper()
	if got := w.requests(); !slices.Equal(got, want) {
		w.Errorf("requests:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

var eventResource = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}

// events returns the Events about a WebServer, sorted, in short: "Normal CreateService Service/web-service".
func (w *world) events(name string) []string {
	var out []string
	for _, e := range w.api.List(eventResource, "default") {
		if at(e, "regarding", "name") != name || at(e, "regarding", "kind") != resource.Kind {
			continue
		}
		line := fmt.Sprint(e["type"], " ", e["reason"])
		if related := e["related"]; related != nil {
			line += fmt.Sprint(" ", at(related, "kind"), "/", at(related, "name"))
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
