package restart

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
	"skiff/internal/testcluster/simulate"
)

// env is the controller beside a simulated cluster on an embedded API server, in virtual time.
type env struct{ *operatortest.Env }

var options = operatortest.Options{Resource: resource, Controller: "restart", New: newWith(Floors{}),
	// Fewer bookmarks are less work.
	// there are forty watches: fewer bookmarks are less work
	Server: apiserver.Options{BookmarkInterval: 10 * time.Minute},
}

// newWith returns the maker of a controller with floors.
func newWith(floors Floors) func(controller.Setup, *events.Recorder) *controller.Controller {
	return func(s controller.Setup, r *events.Recorder) *controller.Controller {
		return New(s, r, Options{Floors: floors})
	}
}

var (
	deployments  = targetKinds["Deployment"]
	statefulSets = targetKinds["StatefulSet"]
	daemonSets   = targetKinds["DaemonSet"]
)

// story runs f in a fresh environment with a running controller, the Deployment predixy, the pods redis-0 and redis-1,
// all of which run.
func story(t *testing.T, f func(w *env)) {
	o := options
	o.Quiet = !testing.Verbose()
	storyWith(t, o, func(w *env) {
		w.deploy("predixy", 2)
		w.pod("redis-0")
		w.pod("redis-1")
		w.Start()
		w.Pass(10 * time.Second)
		f(w)
	})
}

// storyWith runs f in a fresh environment, in which no controller runs yet.
func storyWith(t *testing.T, o operatortest.Options, f func(w *env)) {
	operatortest.Run(t, o, func(w *operatortest.Env) { f(inCluster(w)) })
}

// needed are the parts of a cluster that a RestartTrigger and its Deployments depend on. The tests themselves play the
// controllers of StatefulSets and DaemonSets, whose progress they are about. Every other part would only cost time:
// in the hours of a history, the Leases of three nodes are renewed 700 times.
var needed = []simulate.Part{simulate.GC, simulate.Deployments, simulate.Pods}

// collected are all resources whose objects own others here, or are owned.
var collected = []kube.Resource{pods, replicaSets, deployments, statefulSets, daemonSets, resource}

// inCluster puts a simulated cluster into an environment.
func inCluster(w *operatortest.Env) *env {
	c := w.Connect("cluster")
	w.Background(func(ctx context.Context) error {
		defer c.Close()
		without := slices.DeleteFunc(simulate.Parts(),
			func(p simulate.Part) bool { return slices.Contains(needed, p) })
		return simulate.New(c, simulate.Options{Without: without, Collected: collected}).Run(ctx)
	})
	w.WaitIdle()
	return &env{w}
}

var (
	in = operatortest.Named
	at = operatortest.At
)

const containers = `"containers":[{"name":"main","image":"redis:7"}]`

// pod makes a bare pod of the source. It runs after a second.
func (w *env) pod(name string) {
	w.Helper()
	w.Post(pods, podBody(name, "redis"))
}

func podBody(name, app string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":%q}},"spec":{%s}}`, name, app, containers)
}

// replace deletes a pod of the source and makes it again. Both have happened when it returns.
func (w *env) replace(name string) {
	w.Helper()
	w.Delete(pods, name)
	w.Pass(2 * time.Second)
	w.pod(name)
	w.Pass(2 * time.Second)
}

// deploy makes a Deployment whose pods have its name as label app.
func (w *env) deploy(name string, replicas int) {
	w.Helper()
	w.Post(deployments, workloadBody("Deployment", name, replicas))
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
func (w *env) trigger(name, spec string) {
	w.Helper()
	w.Create(name, "{"+spec+"}")
}

// status returns a value of a trigger's status.
func (w *env) status(name string, path ...any) any {
	return at(w.API.Get(resource, in(name)), append([]any{"status"}, path...)...)
}

// restartedAt returns the restart annotation of a target, "" if there is none.
func (w *env) restartedAt(r kube.Resource, name string) string {
	v, _ := at(w.API.Get(r, in(name)), "spec", "template", "metadata", "annotations", restartedAt).(string)
	return v
}

// revision returns how often the template of a Deployment has been rolled out.
func (w *env) revision(name string) any {
	return at(w.API.Get(deployments, in(name)), "metadata", "annotations", "deployment.kubernetes.io/revision")
}

// wantRestarts checks how often predixy has been restarted.
func (w *env) wantRestarts(n int) {
	w.Helper()
	w.Want("revision of predixy", w.revision("predixy"), fmt.Sprint(n+1))
}

// notes returns the notes of our Events about an object.
func (w *env) notes(kind, name string) []string {
	var out []string
	for _, e := range w.Events(kind, name) {
		out = append(out, fmt.Sprint(e["reason"], ": ", e["note"]))
	}
	return out
}
