package reload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
	"skiff/internal/testcluster/simulate"
)

// env is the controllers beside a simulated cluster on an embedded API server, in virtual time.
type env struct{ *operatortest.Env }

var options = operatortest.Options{Controller: "reload", NewAll: newWith(Options{}),
	Server: apiserver.Options{BookmarkInterval: 10 * time.Minute}} // fewer bookmarks are less work

func newWith(o Options) func(controller.Setup, *events.Recorder) []*controller.Controller {
	return func(s controller.Setup, r *events.Recorder) []*controller.Controller { return New(s, r, o) }
}

var (
	deployments = Kinds[0]
	replicaSets = kube.Resource{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet"}
	configMaps  = sources.ConfigMaps
	secrets     = sources.Secrets
	pods        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
)

// story runs f in a fresh environment with running controllers, and nothing to work on.
func story(t *testing.T, o Options, f func(w *env)) {
	of := options
	of.Quiet, of.NewAll = !testing.Verbose(), newWith(o)
	operatortest.Run(t, of, func(w *operatortest.Env) {
		e := inCluster(w)
		w.Start()
		f(e)
	})
}

// needed are the parts of a cluster that workloads depend on.
var needed = []simulate.Part{simulate.GC, simulate.Deployments, simulate.Pods}

// inCluster puts a simulated cluster into an environment.
func inCluster(w *operatortest.Env) *env {
	c := w.Connect("cluster")
	w.Background(func(ctx context.Context) error {
		defer c.Close()
		without := slices.DeleteFunc(simulate.Parts(),
			func(p simulate.Part) bool { return slices.Contains(needed, p) })
		return simulate.New(c, simulate.Options{Without: without,
			Collected: append(slices.Clone(Kinds), pods, replicaSets)}).Run(ctx)
	})
	w.WaitIdle()
	return &env{w}
}

var (
	in = operatortest.Named
	at = operatortest.At
)

// configMap makes a ConfigMap with one key, or changes it.
func (w *env) configMap(name, value string) {
	w.Helper()
	w.Post(configMaps, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"key":%q}}`, name, value))
}

func (w *env) setConfigMap(name, value string) {
	w.Helper()
	w.Patch(configMaps, name, fmt.Sprintf(`{"data":{"key":%q}}`, value))
}

// auto has a workload restart for all that its template refers to.
const auto = `"skiff.dev/reload":"auto"`

// deploy makes a Deployment with annotations, whose container has the volumes and environment of spec.
func (w *env) deploy(name, annotations, spec string) {
	w.Helper()
	w.Post(deployments, deployment(name, annotations, spec))
}

func deployment(name, annotations, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q,"annotations":{%[2]s}},
		"spec":{"replicas":1,"selector":{"matchLabels":{"app":%[1]q}},"template":{"metadata":{"labels":{"app":%[1]q}},
		"spec":{"containers":[{"name":"main","image":"web:1"%[3]s}]}}}}`, name, annotations, spec)
}

// envFrom is the environment of a container, of all keys of a ConfigMap.
func envFrom(configMap string) string {
	return fmt.Sprintf(`,"envFrom":[{"configMapRef":{"name":%q}}]`, configMap)
}

// wantWrites checks the writes since Forget, without those that came too late for the version that was read: the
// cluster's controllers write the same objects.
func (w *env) wantWrites(want ...string) {
	w.Helper()
	late := func(line string) bool { return strings.HasSuffix(line, " 409") }
	w.WantLines("writes", slices.DeleteFunc(w.Writes(), late), want)
}

// wantRestarts checks how often a Deployment was restarted.
func (w *env) wantRestarts(name string, n int) {
	w.Helper()
	w.Want("revision of "+name, w.revision(name), fmt.Sprint(n+1))
}

// reloadedAt returns when a Deployment was restarted, "" if never.
func (w *env) reloadedAt(name string) string {
	d := w.API.Get(deployments, in(name))
	when, _ := at(d, "spec", "template", "metadata", "annotations", RestartAnnotation).(string)
	return when
}

// revision returns how often the template of a Deployment has been rolled out.
func (w *env) revision(name string) any {
	return at(w.API.Get(deployments, in(name)), "metadata", "annotations", "deployment.kubernetes.io/revision")
}

// notes returns the notes of our Events about an object.
func (w *env) notes(kind, name string) []string {
	var out []string
	for _, e := range w.Events(kind, name) {
		out = append(out, fmt.Sprint(e["reason"], ": ", e["note"]))
	}
	return out
}
