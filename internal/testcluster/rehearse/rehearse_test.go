package rehearse

import (
	"context"
	"os"
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
	last    *rehearsal
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
	c.Add(cmd)
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
	if w.last = r; code == cli.ExitDone && (r.log.books != 0 || len(r.log.writes) != 0) {
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

const lastLine = "Not known here: whether images can be pulled, what webhooks refuse or change, and what other " +
	"controllers do.\n"

// Rules: PL-23, PL-24
func TestACopyOfAHealthyClusterMakesNoWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.choice()
		w.webServer("web", "nginx:1.23.1")
		w.run(c, 30*time.Second)
		version := w.api.Revision()
		out, code := w.rehearse(c, w.copy(c))
		if code != cli.ExitDone || !strings.HasPrefix(out, "No writes: the ") || !strings.HasSuffix(out,
			"Rehearsal: 0 created, 0 changed, 0 deleted, 0 blocked.\n"+lastLine) {
			t.Errorf("exit %d\n%s", code, out)
		}
		if now := w.api.Revision(); now != version {
			t.Errorf("the cluster itself went from %d to %d", version, now)
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
