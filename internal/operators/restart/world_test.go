package restart

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

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"skiff/crds"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/fakeapi"
	"skiff/internal/kube"
	"skiff/internal/patch"
	"skiff/internal/simulate"
)

// world is the controller beside a simulated cluster on an embedded API server, in virtual time.
type world struct {
	*testing.T
	api         *fakeapi.Server
	pipe        *fakeapi.Pipe
	user        *kube.Client
	log         logr.Logger
	make        func(*kube.Client, *events.Recorder) *controller.Controller
	stop        func() // stops the controller, if it runs
	stopCluster func()
}

// agent is the user agent of the controller under test, to tell its requests from ours and the cluster's.
const agent = "controller"

var (
	deployments  = targetKinds["Deployment"]
	statefulSets = targetKinds["StatefulSet"]
	daemonSets   = targetKinds["DaemonSet"]
)

// story runs f in a fresh world with a running controller, the Deployment predixy and the pods redis-0 and redis-1, all of which run.
func story(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeapi.Options{}, logTo(t))
		defer w.close()
		w.deploy("predixy", 2)
		w.pod("redis-0")
		w.pod("redis-1")
		w.start()
		w.pass(10 * time.Second)
		f(w)
	})
}

// logTo logs where somebody reads it: with -v.
func logTo(t *testing.T) logr.Logger {
	if testing.Verbose() {
		return testr.New(t)
	}
	return logr.Discard()
}

// newWorld makes a world with a cluster in it, and no controller yet.
func newWorld(t *testing.T, o fakeapi.Options, log logr.Logger) *world {
	o.BookmarkInterval = 10 * time.Minute // there are forty watches: fewer bookmarks are less work
	w := &world{T: t, api: fakeapi.New(o), log: log, stop: func() {}}
	w.pipe = w.api.ListenPipe()
	w.user = w.connect("user")
	w.make = func(c *kube.Client, r *events.Recorder) *controller.Controller {
		return New(c, Options{Events: r, Log: w.log})
	}
	w.installCRDs()
	nodes := w.connect("cluster")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := simulate.New(nodes, simulate.Options{}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	w.stopCluster = func() {
		cancel()
		running.Wait()
		nodes.Close()
	}
	return w
}

// close ends everything in the bubble.
func (w *world) close() {
	w.stop()
	w.stopCluster()
	w.user.Close()
	if err := w.pipe.Close(); err != nil {
		w.Error(err)
	}
	w.api.Close()
}

func (w *world) connect(agent string) *kube.Client {
	w.Helper()
	c, err := kube.New(kube.Config{Server: fakeapi.PipeURL, DialContext: w.pipe.Dial, UserAgent: agent})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// installCRDs posts definitions as `kubectl create` does.
func (w *world) installCRDs() {
	w.Helper()
	transport := &http.Transport{DialContext: w.pipe.Dial}
	defer transport.CloseIdleConnections()
	for _, text := range crds.All() {
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
	ctx, cancel := context.WithCancel(w.Context())
	recorder := events.New(events.Options{Client: client, Controller: "skiff.dev/restart", Instance: "test", Log: w.log})
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.make(client, recorder).Run(ctx); err != nil {
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
	synctest.Wait()
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func in(name string) kube.Key { return kube.Key{Namespace: "default", Name: name} }

// json decodes a test's own JSON.
func (w *world) json(text string) map[string]any {
	w.Helper()
	v, err := patch.Decode([]byte(text))
	if err != nil {
		w.Fatalf("%v in %s", err, text)
	}
	m, _ := v.(map[string]any)
	return m
}

func (w *world) post(r kube.Resource, text string) {
	w.Helper()
	if err := w.user.Create(w.Context(), r, "default", w.json(text), nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) patch(r kube.Resource, name, text string) {
	w.Helper()
	if err := w.user.Patch(w.Context(), r, in(name), kube.MergePatch, w.json(text), nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) patchStatus(r kube.Resource, name, text string) {
	w.Helper()
	if err := w.user.Patch(w.Context(), r, in(name), kube.MergePatch, w.json(text), nil, kube.WriteOptions{Subresource: "status"}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) delete(r kube.Resource, name string) {
	w.Helper()
	if err := w.user.Delete(w.Context(), r, in(name), kube.DeleteOptions{Propagation: kube.Background}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

const containers = `"containers":[{"name":"main","image":"redis:7"}]`

// pod makes a bare pod of the source. It runs after a second.
func (w *world) pod(name string) {
	w.Helper()
	w.post(pods, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"redis"}},"spec":{%s}}`, name, containers))
}

// replace deletes a pod of the source and makes it again. Both have happened when it returns.
func (w *world) replace(name string) {
	w.Helper()
	w.delete(pods, name)
	w.pass(2 * time.Second)
	w.pod(name)
	w.pass(2 * time.Second)
}

// deploy makes a Deployment whose pods have its name as label app.
func (w *world) deploy(name string, replicas int) {
	w.Helper()
	w.post(deployments, workloadBody("Deployment", name, replicas))
}

func workloadBody(kind, name string, replicas int) string {
	count := fmt.Sprintf(`"replicas":%d,`, replicas)
	if kind == "DaemonSet" {
		count = ""
	}
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":%q},"spec":{%s"selector":{"matchLabels":{"app":%q}},
		"template":{"metadata":{"labels":{"app":%q}},"spec":{%s}}}}`, kind, name, count, name, name, containers)
}

const (
	selectRedis = `"source":{"selector":{"matchLabels":{"app":"redis"}}}`
	toPredixy   = `"targets":[{"kind":"Deployment","name":"predixy"}]`
)

// trigger makes a RestartTrigger.
func (w *world) trigger(name, spec string) {
	w.Helper()
	w.post(resource, fmt.Sprintf(`{"apiVersion":"skiff.dev/v1alpha1","kind":"RestartTrigger","metadata":{"name":%q},"spec":{%s}}`, name, spec))
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
	if n, ok := want.(int); ok {
		want = int64(n)
	}
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%s is %v, want %v", what, got, want)
	}
}

// status returns a value of a trigger's status.
func (w *world) status(name string, path ...any) any {
	return at(w.api.Get(resource, in(name)), append([]any{"status"}, path...)...)
}

// condition returns a condition of a trigger: "True/Armed".
func (w *world) condition(name, conditionType string) string {
	list, _ := w.status(name, "conditions").([]any)
	for _, c := range list {
		if at(c, "type") == conditionType {
			return fmt.Sprint(at(c, "status"), "/", at(c, "reason"))
		}
	}
	return "none"
}

// message returns the message of a condition.
func (w *world) message(name, conditionType string) string {
	list, _ := w.status(name, "conditions").([]any)
	for _, c := range list {
		if at(c, "type") == conditionType {
			return fmt.Sprint(at(c, "message"))
		}
	}
	return ""
}

func (w *world) wantCondition(name, conditionType, want string) {
	w.Helper()
	w.want(conditionType+" of "+name, w.condition(name, conditionType), want)
}

// restartedAt returns the restart annotation of a target, "" if there is none.
func (w *world) restartedAt(r kube.Resource, name string) string {
	v, _ := at(w.api.Get(r, in(name)), "spec", "template", "metadata", "annotations", restartedAt).(string)
	return v
}

// revision returns how often the template of a Deployment has been rolled out.
func (w *world) revision(name string) any {
	return at(w.api.Get(deployments, in(name)), "metadata", "annotations", "deployment.kubernetes.io/revision")
}

// wantRestarts checks how often predixy has been restarted.
func (w *world) wantRestarts(n int) {
	w.Helper()
	w.want("revision of predixy", w.revision("predixy"), fmt.Sprint(n+1))
}

// forget begins a new count of requests.
func (w *world) forget() { w.api.ForgetRequests() }

// requests returns what the controller has sent since forget, besides lists and watches and Events, in short:
// "PATCH restarttriggers/rt/status 200".
func (w *world) requests() []string {
	var out []string
	for _, r := range w.api.Requests() {
		_, what, named := strings.Cut(r.Path, "/namespaces/default/") // lists and watches are of all namespaces
		if r.UserAgent != agent || !named || strings.HasPrefix(what, "events") ||
			r.Method == "GET" && !strings.Contains(what, "/") { // a list, a watch, or the probe before a watch is renewed
			continue
		}
		out = append(out, fmt.Sprintf("%s %s %d", r.Method, what, r.Status))
	}
	return out
}

// writes are the requests that are no GET.
func (w *world) writes() []string {
	return slices.DeleteFunc(w.requests(), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

func (w *world) wantRequests(want ...string) {
	w.Helper()
	if got := w.requests(); !slices.Equal(got, want) {
		w.Errorf("requests:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (w *world) wantWrites(want ...string) {
	w.Helper()
	if got := w.writes(); !slices.Equal(got, want) {
		w.Errorf("writes:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

var eventResource = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}

// notes returns the notes of the Events about an object, in the order of their names.
func (w *world) notes(kind, name string) []string {
	var out []string
	for _, e := range w.api.List(eventResource, "default") {
		if at(e, "regarding", "kind") == kind && at(e, "regarding", "name") == name && at(e, "reportingController") == "skiff.dev/restart" {
			out = append(out, fmt.Sprint(at(e, "reason"), ": ", at(e, "note")))
		}
	}
	return out
}
