package controller

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// runs records how often each key was run.
type runs struct {
	mu sync.Mutex
	of map[string]int
}

func (r *runs) count(_ context.Context, k kube.Key) (Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]int{}
	}
	r.of[k.String()]++
	return Done, nil
}

func (r *runs) expect(t *testing.T, what, key string, want int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	expect(t, what, r.of[key], want)
}

// twoNamespaces is a controller for config maps and Secrets in the namespaces a and b.
func twoNamespaces(w *world, log *logLines) (*runs, *Controller) {
	w.t.Helper()
	for _, name := range []string{"a", "b"} {
		w.createIn("", namespaces, name)
	}
	s := Setup{Client: w.skiff, Namespaces: []string{"a", "b"}, Mirrors: cache.NewMirrors(),
		Advice: advice, Log: log.logger()}
	r := &runs{}
	return r, s.New("test", r.count, For(Mirror[*configMap](s, configMaps, "role=x")),
		Owns(Mirror[*configMap](s, secrets, ""), "ConfigMap"))
}

var (
	namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	secrets    = kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}
)

func (w *world) createIn(namespace string, r kube.Resource, name string) {
	w.t.Helper()
	body := map[string]any{"apiVersion": r.APIVersion(), "kind": r.Kind,
		"metadata": map[string]any{"name": name, "labels": map[string]string{"role": "x"}}}
	if err := w.user.Create(w.t.Context(), r, namespace, body, nil, kube.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) forbid(namespace string, r kube.Resource) (restore func()) {
	return w.api.Inject(apiserver.Fault{UserAgent: skiffAgent, Namespace: namespace, Resource: r.Plural,
		Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: r.Plural +
			" is forbidden: User \"system:serviceaccount:skiff:skiff\" cannot list resource"}})
}

func status(c *Controller) string {
	var lines []string
	for _, p := range c.Problems() {
		lines = append(lines, "! "+p.Text(time.Now()))
	}
	return strings.Join(append(lines, c.Mirrors()...), "\n")
}

// Rules: MGR-06
func TestANamespaceThatIsForbiddenIsParkedWhileTheOthersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log logLines
		r, c := twoNamespaces(w, &log)
		w.createIn("a", configMaps, "one")
		w.createIn("b", configMaps, "two")
		allowMaps, allowSecrets := w.forbid("b", configMaps), w.forbid("b", secrets)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		r.expect(t, "runs in a, at once", "a/one", 1)
		if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "configmaps in b") {
			t.Errorf("ready while b may still answer: %v", err)
		}
		time.Sleep(10 * time.Minute)
		expect(t, "ready with b parked", c.Ready(), nil)
		const problem = "namespace b: may not list and watch configmaps, secrets; " +
			"grant test to system:serviceaccount:skiff:skiff in b"
		expect(t, "status names it", strings.Contains(status(c), "not working: "+problem), true)
		expect(t, "log lines of it", len(log.with(problem)), 1)
		expect(t, "log lines of the mirrors", len(log.with("cannot list or watch")), 0)
		w.createIn("a", configMaps, "three")
		time.Sleep(time.Second)
		r.expect(t, "runs in a", "a/three", 1)

		allowMaps()
		time.Sleep(15 * time.Second)
		r.expect(t, "runs in b before all of it can be seen", "b/two", 0)
		expect(t, "status names what is left", strings.Contains(status(c), "may not list and watch secrets;"), true)
		allowSecrets()
		time.Sleep(15 * time.Second)
		r.expect(t, "runs in b", "b/two", 1)
		expect(t, "status", strings.Contains(status(c), "not working"), false)
		expect(t, "log lines that b works", len(log.with(`"msg"="working again" "controller"="test" "namespace"="b"`)), 1)
		cancel()
		expect(t, "stop", <-ended, nil)
	})
}

// Rules: MGR-06
func TestARightThatIsTakenAwayStopsThatNamespaceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log logLines
		r, c := twoNamespaces(w, &log)
		w.createIn("a", configMaps, "one")
		w.createIn("b", configMaps, "two")
		stop := w.run(c)
		r.expect(t, "runs in b", "b/two", 1)
		allow := w.forbid("b", secrets)
		time.Sleep(12 * time.Minute) // an open watch is renewed within ten
		expect(t, "ready", c.Ready(), nil)
		w.createIn("a", configMaps, "three")
		w.createIn("b", configMaps, "four")
		time.Sleep(time.Second)
		r.expect(t, "runs in a", "a/three", 1)
		r.expect(t, "runs in b", "b/four", 0)
		expect(t, "status names it", strings.Contains(status(c), "namespace b: may not list and watch secrets"), true)
		allow()
		time.Sleep(15 * time.Second)
		r.expect(t, "runs in b once the right is back", "b/four", 1)
		stop()
	})
}

func TestAServerThatIsAwayIsNoReasonToBeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log logLines
		_, c := twoNamespaces(w, &log)
		answer := w.forbid("b", configMaps)
		stop := w.run(c)
		time.Sleep(time.Minute)
		expect(t, "ready with b parked", c.Ready(), nil)
		back := w.api.Inject(apiserver.Fault{UserAgent: skiffAgent, Cut: apiserver.CutBefore})
		answer() // of the two faults the first one would win
		time.Sleep(15 * time.Minute)
		if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "configmaps in b") ||
			!strings.Contains(err.Error(), "in a") {
			t.Errorf("ready while the server is away: %v", err)
		}
		back()
		time.Sleep(2 * time.Minute)
		expect(t, "ready again", c.Ready(), nil)
		stop()
	})
}

// advice is that of a program.
var advice = Advice{Install: map[string]string{"skiff.dev": "install it"},
	Grant: func(name, user string, namespaces, _ []string) string {
		return "grant " + name + " to " + user + " in " + strings.Join(namespaces, ",")
	}}
