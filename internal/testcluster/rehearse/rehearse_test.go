package rehearse

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
	"skiff/internal/testcluster/state"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

var webServers = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}

// world is a cluster to copy, in a bubble.
type world struct {
	*testing.T
	api     *apiserver.Server
	client  *kube.Client
	cluster *simulate.Cluster
}

// inWorld runs a test on a cluster with skiff's definitions.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		defer api.Close()
		pipe := api.ListenPipe()
		defer pipe.Close()
		w := &world{T: t, api: api}
		connect := func(agent string) *kube.Client {
			c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: agent})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return c
		}
		w.client = connect("user")
		w.cluster = simulate.New(connect(apiserver.Simulation), simulate.Options{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.cluster.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		if err := definitions.Ensure(t.Context(), w.client, time.Minute); err != nil {
			t.Fatal(err)
		}
		test(w)
	})
}

// choice is the flags of a rehearsal.
func (w *world) choice(args ...string) *cli.Choice {
	w.Helper()
	var c cli.Choice
	cmd := &cobra.Command{}
	c.Add(cmd, "-f")
	if err := cmd.ParseFlags(args); err != nil {
		w.Fatal(err)
	}
	if err := c.Check(cmd); err != nil {
		w.Fatal(err)
	}
	return &c
}

// run runs the chosen controllers on the cluster itself, for a while.
func (w *world) run(c *cli.Choice, d time.Duration) {
	w.Helper()
	_, run := c.Start(w.client, logr.Discard())
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	if err := run(ctx); err != nil {
		w.Fatal(err)
	}
}

func (w *world) copy(c *cli.Choice) *state.State {
	w.Helper()
	s, err := state.Copy(w.Context(), w.client, state.Scope{Rights: c.Rights(), Namespaces: c.Namespaces,
		Selector: c.Selector})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// rehearse runs the chosen controllers on a copy.
func (w *world) rehearse(c *cli.Choice, s *state.State) (string, cli.ExitCode) {
	w.Helper()
	return w.with(c, Options{State: s})
}

// byOwner is rehearse with --by-owner.
func (w *world) byOwner(c *cli.Choice, s *state.State) (string, cli.ExitCode) {
	w.Helper()
	return w.with(c, Options{State: s, ByOwner: true})
}

func (w *world) with(c *cli.Choice, o Options) (string, cli.ExitCode) {
	w.Helper()
	var out strings.Builder
	o.Start, o.Rights, o.Timeout, o.Log = c.Start, c.Rights(), time.Minute, logr.Discard()
	r := &rehearsal{Options: o, log: newJournal(o.Rights)}
	code, err := r.run(w.Context(), &out)
	if strings.HasPrefix(out.String(), "No writes") && (r.log.books != 0 || len(r.log.writes) != 0) {
		w.Errorf("%d writes of statuses, and the simulation wrote %v", r.log.books, r.log.writes)
	}
	if err != nil {
		w.Fatalf("%v\n%s", err, &out)
	}
	return out.String(), code
}

func (w *world) webServer(name, image string) {
	w.Helper()
	body := map[string]any{"apiVersion": webServers.APIVersion(), "kind": webServers.Kind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"image": image, "replicas": 3}}
	if err := w.client.Patch(w.Context(), webServers, kube.Key{Namespace: "default", Name: name}, kube.ApplyPatch,
		body, nil, kube.WriteOptions{FieldManager: "user", Force: true}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) trigger(name string, spec map[string]any) {
	w.Helper()
	r := kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "restarttriggers", Kind: "RestartTrigger"}
	w.create(r, map[string]any{"metadata": map[string]any{"name": name}, "spec": spec})
}

// pod makes a pod of the source of the trigger.
func (w *world) pod(name string) {
	w.Helper()
	w.create(pods, map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"app": "cache"}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}})
}

func (w *world) create(r kube.Resource, body map[string]any) {
	w.Helper()
	body["apiVersion"], body["kind"] = r.APIVersion(), r.Kind
	if err := w.client.Create(w.Context(), r, "default", body, nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
}

const lastLine = "Not known here: whether images can be pulled, what webhooks refuse or change, and what other " +
	"controllers do.\n"

// Rules: PL-23, PL-24
func TestACopyOfAHealthyClusterMakesNoWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice()
		w.webServer("web", "nginx:1.23.1")
		w.run(c, 30*time.Second)
		w.api.ForgetRequests()
		out, code := w.rehearse(c, w.copy(c))
		if code != cli.ExitDone || !strings.HasPrefix(out, "No writes: the ") || !strings.HasSuffix(out,
			"Rehearsal: 0 created, 0 changed, 0 deleted, 0 blocked.\n"+lastLine) {
			t.Errorf("exit %d\n%s", code, out)
		}
		for _, r := range w.api.Requests() {
			if r.UserAgent != apiserver.Simulation && r.Method != "GET" {
				t.Errorf("the cluster itself got %+v", r)
			}
		}
	})
}

// Rules: PL-25
func TestTheWritesAreInOrderOfTimeWithWhatTheSimulationMadeOfThem(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "webserver")
		w.webServer("web", "nginx:1.23.1")
		w.run(c, 30*time.Second)
		w.webServer("web", "nginx:1.25.3")
		w.webServer("new", "nginx:1.25.3")
		out, code := w.rehearse(c, w.copy(c))
		for _, want := range []string{
			"0.0s WebServer default/new + Deployment new\n", "0.0s WebServer default/new + Service new-service\n",
			"0.0s WebServer default/web ~ Deployment web\n",
			"0.2s (cluster) Deployment default/new: 3 of 3 new pods ready\n",
			"s (cluster) Deployment default/web: 3 of 3 new pods ready\n",
			"\nRehearsal: 2 created, 1 changed, 0 deleted, 0 blocked.\n" + lastLine,
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q", want)
			}
		}
		if code != cli.ExitDiffer || strings.Count(out, "\n") != 7 || t.Failed() {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
}

// Rules: PL-26, RR-01
func TestWhatIsInTheWayOfAWriteIsNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "webserver")
		w.create(kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}, map[string]any{
			"metadata": map[string]any{"name": "web-service"},
			"spec":     map[string]any{"ports": []any{map[string]any{"port": 80}}}})
		w.webServer("web", "nginx:1.23.1")
		out, code := w.byOwner(c, w.copy(c))
		if code != exitBlocked || !strings.Contains(out, "\n! WebServer default/web: ") ||
			!strings.Contains(out, "web-service") || !strings.Contains(out, ", 1 blocked.\n"+lastLine) {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
}

// Rules: PL-26, RR-01
func TestAHookThatFailsIsInTheWayOfItsParent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hook.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: servers}
spec:
  generateSelector: true
  parentResource: {apiVersion: skiff.dev/v1alpha1, resource: webservers}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {exec: {command: ["false"]}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	inWorld(t, func(w *world) {
		c := w.choice("-f", file)
		w.webServer("web", "nginx:1.23.1")
		out, code := w.byOwner(c, w.copy(c))
		const want = "! WebServer default/web: fails; the log on stderr says why\n"
		if code != exitBlocked || !strings.HasPrefix(out, want) {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
}

// A restart that waits for its cooldown is not waited for, and named.
//
// Rules: PL-24, PL-26
func TestWhatWaitsForLongerIsNamedAndWhatWasNotAtRestIsCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "restart")
		w.trigger("predixy", map[string]any{"debounce": "30s", "source": map[string]any{"selector": map[string]any{
			"matchLabels": map[string]any{"app": "cache"}}}, "targets": []any{map[string]any{"kind": "Deployment",
			"name": "predixy"}}})
		w.run(c, 10*time.Second)
		w.pod("cache-0")
		out, code := w.rehearse(c, w.copy(c))
		if !strings.HasPrefix(out, "the copy was not at rest: ") ||
			!strings.Contains(out, " simulated writes before the plan\n") ||
			!strings.Contains(out, "\nwaits: RestartTrigger default/predixy, 2") || code != cli.ExitDone {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
}

// Rules: PL-26
func TestAnEndThatDoesNotComeIsAnError(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice("--controllers", "webserver")
		w.webServer("web", "nginx:1.23.1")
		var out strings.Builder
		code, err := Run(w.Context(), &out, Options{State: w.copy(c), Start: c.Start, Rights: c.Rights(),
			Timeout: 1300 * time.Millisecond, Log: logr.Discard()})
		if err == nil || !strings.Contains(err.Error(), "not quiet after 1.3s (") ||
			!strings.Contains(err.Error(), "): give more time with --timeout") {
			t.Errorf("exit %d: %v\n%s", code, err, &out)
		}
		if !strings.Contains(out.String(), "WebServer default/web + Deployment web\n") {
			t.Errorf("what was written is not printed: %s", &out)
		}
	})
}
