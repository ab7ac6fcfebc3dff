package redis

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/testcluster/operatortest"
)

// env is the controller on an embedded API server, in virtual time, with a node and a garbage collector
// (node_test.go).
type env struct {
	*operatortest.Env
	node *node
}

var options = operatortest.Options{Resource: resource, Controller: "redis", New: New}

// story runs f in a fresh environment with a running controller.
func story(t *testing.T, f func(w *env)) { storyWith(t, options, f) }

func storyWith(t *testing.T, o operatortest.Options, f func(w *env)) {
	operatortest.Run(t, o, func(w *operatortest.Env) {
		n := startNode(w)
		w.Start()
		f(&env{w, n})
	})
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

var named = operatortest.Named

// foreignPod is a pod without a controller.
func foreignPod(name, labels string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","labels":` + labels + `},
		"spec":{"containers":[{"name":"own","image":"own"}]}}`
}

func (w *env) redis(name string) *Redis {
	w.Helper()
	return operatortest.Convert[Redis](w.Env, w.API.Get(resource, named(name)))
}

func (w *env) pod(name string) *pod {
	w.Helper()
	return operatortest.Convert[pod](w.Env, w.API.Get(pods, named(name)))
}

// podNames are the pods that there are, those that are being deleted with a minus.
func (w *env) podNames() string {
	var out []string
	for _, o := range w.API.List(pods, "default") {
		p := operatortest.Convert[pod](w.Env, o)
		if p.Deleting() {
			p.Name += "-"
		}
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// wantPods checks which pods there are.
func (w *env) wantPods(want string) {
	w.Helper()
	w.Want("pods", w.podNames(), want)
}

// requests returns the requests that are, or are not, writes of a status: how many of these there are depends on
// which events come together.
func (w *env) requests(statuses bool) []string {
	return slices.DeleteFunc(w.Requests(), func(r string) bool { return strings.Contains(r, "/status ") != statuses })
}

// wantRequests checks the requests but for writes of a status.
func (w *env) wantRequests(want ...string) {
	w.Helper()
	w.WantLines("requests", w.requests(false), want)
}

// wantStatusWrites checks that there were no more than max, and that all of them were taken.
func (w *env) wantStatusWrites(max int) {
	w.Helper()
	got := w.requests(true)
	if len(got) > max || slices.ContainsFunc(got, func(r string) bool { return !strings.HasSuffix(r, " 200") }) {
		w.Errorf("status writes: %q, want at most %d", got, max)
	}
}

// eventReasons counts the Events about a Redis by reason.
func (w *env) eventReasons(name string) map[string]int {
	out := map[string]int{}
	for _, e := range w.Events(resource.Kind, name) {
		reason, _ := e["reason"].(string)
		out[reason]++
	}
	return out
}

// uids are the uids of all pods by name.
func (w *env) uids() map[string]string {
	out := map[string]string{}
	for _, o := range w.API.List(pods, "default") {
		p := operatortest.Convert[pod](w.Env, o)
		out[p.Name] = p.UID
	}
	return out
}

// replaced names the pods that are others than before, in order.
func (w *env) replaced(before map[string]string) string {
	now := w.uids()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if before[name] != now[name] {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// revisionOfPod returns the revision that a pod was made from, and isReady whether it is ready.
func revisionOfPod(p *pod) string {
	v, _ := p.Labels.Get(RevisionLabel)
	return v
}

func isReady(p *pod) bool {
	_, ok := p.Ready()
	return ok
}
