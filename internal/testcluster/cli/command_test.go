package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/cli"
	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

func TestDevRunsACommandAndExitsWithItsCode(t *testing.T) {
	for _, tt := range []struct {
		script string
		code   int
		stderr string
	}{
		{`test -s "$KUBECONFIG" && test "$USE_EXISTING_CLUSTER" = true && echo "$1"`, 0, ""},
		{`exit 7`, 7, ""},
		{`kill -KILL $$`, 128 + 9, ""},
	} {
		r := skiffDev(t, "--bare", "--", "sh", "-c", tt.script, "sh", "passed on")
		if r.Code != tt.code || r.Stderr != tt.stderr {
			t.Errorf("%s: exit code %d, want %d; stderr %q", tt.script, r.Code, tt.code, r.Stderr)
		}
		if tt.code == 0 && r.Stdout != "passed on\n" {
			t.Errorf("stdout is %q, want only that of the command", r.Stdout)
		}
	}
	r := skiffDev(t, "--bare", "--", "no-such-command-of-skiffs-tests")
	r.Want(t, exitNotFound, "no-such-command-of-skiffs-tests")
	skiffDev(t, "--bare", "--", writeFile(t, "")).Want(t, exitNoProgram, "permission denied")
	skiffDev(t, "--bare", "--ready-file", t.TempDir(), "--", "true").Want(t, cli.ExitFailed,
		"is a directory: choose a file that can be written")
	skiffDev(t, "--bare", "--").Want(t, cli.ExitUsage, "no command after --")
	skiffDev(t, "--bare", "sh").Want(t, cli.ExitUsage, "choose from assets, completion, demo, "+
		"hooks, list, rehearse, requests, start, stop, version (a command to run goes after --)")
	skiffDev(t, "--port", "1").Want(t, cli.ExitUsage, "unknown flag: --port: see --listen 127.0.0.1:PORT")
}

func TestDevStopsItsCommandAndRemovesTheKubeconfigOfTheRun(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan clitest.Result, 1)
	go func() {
		var stdout, stderr clitest.Buffer
		code := Main(ctx, []string{"skiff-dev", "--bare", "--", "sh", "-c",
			`trap 'exit 9' TERM; echo "$KUBECONFIG" > ` + said + `.new; mv ` + said + `.new ` + said +
				`; while true; do sleep 0.05; done`}, &stdout, &stderr, nil)
		done <- clitest.Result{Code: code, Stderr: stderr.String()}
	}()
	path := waitForFile(t, said)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("while the command runs: %v", err)
	}
	cancel()
	select {
	case r := <-done:
		if r.Code != 9 {
			t.Errorf("exit code %d, want that of the command, 9: %s", r.Code, r.Stderr)
		}
	case <-time.After(clitest.Patience):
		t.Fatal("skiff-dev does not stop")
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("the directory of the kubeconfig still exists: %v", err)
	}
}

// waitForFile returns the line in a file once it exists.
func waitForFile(t *testing.T, path string) string {
	t.Helper()
	deadline := time.After(clitest.Patience)
	for {
		if text, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(text))
		}
		select {
		case <-deadline:
			t.Fatalf("%s is not written", path)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// devRun is a skiff-dev that runs in this process.
type devRun struct {
	config   kube.Config
	replicas []string // the addresses of --replicas
	*clitest.Follower
	client *kube.Client
	ready  string // the path of its ready file

	kubeconfig string
}

// startDev runs skiff-dev and returns when its ready file is there.
func startDev(t *testing.T, args ...string) devRun {
	t.Helper()
	dir := t.TempDir()
	r := devRun{ready: filepath.Join(dir, "ready")}
	r.Follower = skiffDevs.Follow(t, append([]string{"--ready-file", r.ready,
		"--kubeconfig-out", filepath.Join(dir, "kubeconfig")}, args...)...)
	var ready struct {
		URL, Kubeconfig string
		PID             int
		Replicas        []string
	}
	if err := json.Unmarshal([]byte(waitForFile(t, r.ready)), &ready); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(ready.URL, "https://127.0.0.1:") || ready.PID != os.Getpid() {
		t.Errorf("the ready file says %+v", ready)
	}
	r.replicas = ready.Replicas
	r.kubeconfig = ready.Kubeconfig
	r.client, r.config = connect(t, ready.Kubeconfig, kubeconfig.Flags{})
	return r
}

// exists reports whether the server has an object.
func (r devRun) exists(res kube.Resource, namespace, name string) bool {
	r.T.Helper()
	var o struct{ kube.Meta }
	err := r.client.Get(r.T.Context(), res, kube.Key{Namespace: namespace, Name: name}, &o)
	if err != nil && !kube.IsNotFound(err) {
		r.T.Fatal(err)
	}
	return err == nil
}

var (
	configMaps      = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	nodes           = kube.Resource{Version: "v1", Plural: "nodes", Kind: "Node", ClusterScoped: true}
	namespaces      = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	serviceAccounts = kube.Resource{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount"}
)

func TestDevSimulatesTheChosenParts(t *testing.T) {
	for _, tt := range []struct {
		args                           []string
		crds, accounts, nodes, emptied bool
	}{
		{nil, true, true, true, true},
		{[]string{"--bare"}, false, false, false, false},
		{[]string{"--controllers", "none"}, true, true, true, true},
		{[]string{"--bare", "--simulate", "serviceaccounts"}, false, true, false, false},
		{[]string{"--bare", "--controllers", "redis"}, true, false, false, false},
		{[]string{"--simulate", "namespaces,pods", "--controllers", "none"}, true, false, true, true},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			r := startDev(t, tt.args...)
			for what, check := range map[string]struct{ have, want bool }{
				"skiff's CRDs":        {r.exists(crdsResource, "", "redis.skiff.dev"), tt.crds},
				"the ServiceAccounts": {r.exists(serviceAccounts, "default", "default"), tt.accounts},
				"the nodes":           {r.exists(nodes, "", "node-1"), tt.nodes},
			} {
				if check.have != check.want {
					t.Errorf("%s exist: %t, want %t", what, check.have, check.want)
				}
			}
			body := named("gone")
			body["apiVersion"], body["kind"] = "v1", "Namespace"
			if err := r.client.Create(t.Context(), namespaces, "", body, nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			k := kube.Key{Name: "gone"}
			if err := r.client.Delete(t.Context(), namespaces, k, kube.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if tt.emptied {
				r.Await("the deleted namespace goes away", func() bool { return !r.exists(namespaces, "", "gone") })
			}
			if !tt.emptied && !r.exists(namespaces, "", "gone") {
				t.Error("the deleted namespace has gone away without a namespace controller")
			}
			if code := r.Stop(); code != cli.ExitDone {
				t.Errorf("exit code %d: %s", code, r.Stderr)
			}
			if _, err := os.Stat(r.ready); !os.IsNotExist(err) {
				t.Errorf("the ready file still exists: %v", err)
			}
		})
	}
	for args, say := range map[string]string{
		"--simulate moons":                        `--simulate: unknown part "moons"`,
		"--simulate gc,all":                       "use all or none alone",
		"--controllers none,redis":                `unknown controller "none"`,
		"--bare --health-probe-bind-address :0":   "without controllers there are no probes",
		"--bare --kubeconfig-out x --listen :443": "loopback",
	} {
		skiffDev(t, strings.Fields(args)...).Want(t, cli.ExitUsage, say)
	}
}

func TestDevHasRolesDecideIfAsked(t *testing.T) {
	for _, args := range [][]string{{"--bare"}, {"--bare", "--rbac"}} {
		r := startDev(t, args...)
		bob, _ := connect(t, filepath.Join(filepath.Dir(r.ready), "kubeconfig"), kubeconfig.Flags{As: "bob"})
		var o struct{ kube.Meta }
		err := bob.Get(t.Context(), namespaces, kube.Key{Name: "default"}, &o)
		if want := len(args) == 2; kube.IsForbidden(err) != want {
			t.Errorf("%v: %v, want forbidden: %t", args, err, want)
		}
		r.Stop()
	}
}
