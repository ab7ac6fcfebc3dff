package reload

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// Whatever users, networks and the process itself do: in the end the pods of each workload run with the present
// content, no workload was restarted more often than its sources changed, and what has not opted in never was.
func TestRandomHistoriesEndWithThePresentContent(t *testing.T) {
	o := options
	o.NewAll = newWith(Options{Reloader: true})
	operatortest.RandomHistories(t, o, func(h *operatortest.History) {
		(&past{History: h, w: inCluster(h.Env), changes: map[string]int{}}).run()
	})
}

// past is a random sequence of what can happen to the sources a and b, of which one depends on a, two on both,
// three on both by a list of Reloader, and other on none.
type past struct {
	*operatortest.History
	w       *env
	changes map[string]int // of each source
	n       int
}

func (h *past) run() {
	for _, name := range []string{"a", "b"} {
		h.w.configMap(name, "0")
	}
	both := `,"envFrom":[{"configMapRef":{"name":"a"}},{"configMapRef":{"name":"b"}}]`
	h.w.deploy("one", auto+`,"skiff.dev/reload-cooldown":"10s"`, envFrom("a"))
	h.w.deploy("two", auto+`,"skiff.dev/reload-after":"deployment/one"`, both)
	h.w.deploy("three", `"configmap.reloader.stakater.com/reload":"a,b"`, ``)
	h.w.deploy("other", ``, both)
	h.Pass(10 * time.Second)
	h.Start()
	h.Pass(10 * time.Second) // they have been recorded
	h.Steps(16, 8*time.Second, h.act)
	h.EndFaults()
	for _, name := range []string{"a", "b"} {
		h.set(name)
	}
	h.Pass(operatortest.LongWait)
	h.check()
	h.WantNoWrites()
	h.Stop()
	h.set("a")
	h.Start()
	h.Pass(5 * time.Minute)
	h.check()
	for range 2 {
		h.PlanAndRun([]kube.Resource{deployments}, func() { h.set(operatortest.Pick(h.History, "a", "b")) })
	}
	h.check()
}

// set gives a source new content, and makes it anew where it is gone.
func (h *past) set(name string) {
	h.n++
	h.changes[name]++
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"key":"%d"}}`, name, h.n)
	if h.API.Get(configMaps, in(name)) == nil {
		h.TryPost(configMaps, text)
		return
	}
	h.TryPatch(configMaps, name, "", text)
}

func (h *past) act() {
	name := operatortest.Pick(h.History, "a", "b")
	switch n := h.Rand.IntN(100); {
	case n < 35:
		h.set(name)
	case n < 45: // made anew with the same content
		before := h.API.Get(configMaps, in(name))
		if before == nil || !h.TryDelete(configMaps, name, kube.DeleteOptions{}) {
			break
		}
		h.Pass(2 * time.Second)
		h.TryPost(configMaps, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"key":%q}}`,
			name, at(before, "data", "key")))
	case n < 50:
		h.TryDelete(configMaps, name, kube.DeleteOptions{})
	case n < 55:
		h.TryPatch(deployments, "one", "", `{"spec":{"paused":`+operatortest.Pick(h.History, "true", "false")+`}}`)
	case n < 60:
		h.n++
		h.TryPatch(deployments, "two", "", fmt.Sprintf(
			`{"spec":{"template":{"metadata":{"annotations":{"version":"%d"}}}}}`, h.n))
	case n < 80:
		h.InjectFault([]string{"patch"}, []string{"deployments", "configmaps"})
	case n < 90:
		h.Restart()
	default:
		h.RestartToBeKilled()
	}
}

// restarts returns when a Deployment was restarted: each restart has left a ReplicaSet.
func (h *past) restarts(of string) (out []string) {
	for _, rs := range h.API.List(replicaSets, "default") {
		if text, _ := at(rs, "spec", "template", "metadata", "annotations", RestartAnnotation).(string); text != "" &&
			at(rs, "metadata", "ownerReferences", 0, "name") == of {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// check checks the state of all workloads.
func (h *past) check() {
	h.Helper()
	h.TryPatch(deployments, "one", "", `{"spec":{"paused":false}}`)
	h.Pass(5 * time.Minute)
	for name, names := range map[string][]string{"one": {"a"}, "two": {"a", "b"}, "three": {"a", "b"}} {
		w := operatortest.Convert[target](h.Env, h.API.Get(deployments, in(name)))
		most := 0
		for _, source := range names {
			most += h.changes[source]
		}
		contents := map[string]*content{}
		for _, source := range names {
			m := operatortest.Convert[sources.ConfigMap](h.Env, h.API.Get(configMaps, in(source)))
			contents["configmap/"+source] = contentOf(m)
		}
		if changes, _ := compare(w, wanted(w, "Deployment", nil), contents); len(changes) > 0 {
			h.Errorf("%s does not run with the present content of %v", name, changes)
		}
		if got := h.restarts(name); len(got) > most {
			h.Errorf("%s was restarted at %v, after %d changes", name, got, most)
		}
	}
	h.Want("restarts of other", len(h.restarts("other")), 0)
}
