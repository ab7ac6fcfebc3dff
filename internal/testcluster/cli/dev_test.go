package cli

import (
	"context"
	"fmt"
	"net"
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

func TestASecondDevLeavesTheKubeconfigOfTheFirstAlone(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	started := func() (f *clitest.Follower, path string) {
		f = skiffDevs.Follow(t, "--bare")
		for path == "" {
			if _, quoted, ok := strings.Cut(f.Next(), "export KUBECONFIG="); ok {
				path = strings.Trim(quoted, "'")
			}
		}
		return f, path
	}
	first, path := started()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second, other := started()
	second.Stop()
	if after, err := os.ReadFile(path); err != nil || other == path || string(after) != string(before) {
		t.Errorf("the first has %s, the second %s; then %v, %s", path, other, err, after)
	}
	first.Stop()
	// A file that is left behind by one that was killed does no harm.
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, third := started(); filepath.Base(third) != "dev.kubeconfig" {
		t.Error(third)
	}
}

func TestDevIsAClusterForKubeconfigUsersUntilItEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "dev.kubeconfig")
	f := skiffDevs.Follow(t, "--kubeconfig-out", path)
	intro := ""
	for !strings.Contains(intro, "skiff watch pods") {
		intro += f.Next() + "\n"
	}
	if !strings.Contains(intro, "export KUBECONFIG='"+path+"'") || !strings.Contains(intro, "https://127.0.0.1:") {
		t.Errorf("intro %s", intro)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info.Mode(), err)
	}

	client, cfg := connect(t, path, kubeconfig.Flags{})
	if err := apply(devObjects)(t.Context(), client); err != nil { // what the intro tells users to apply
		t.Fatal(err)
	}
	deadline := time.After(clitest.Patience)
	for done := false; !done; {
		var states []string
		for r, name := range map[kube.Resource]string{webServers: "web", redises: "cache", triggers: "web"} {
			var o object
			if err := client.Get(t.Context(), r, kube.Key{Namespace: demoNamespace, Name: name}, &o); err != nil {
				t.Fatal(err)
			}
			states = append(states, fill(r.String()+" {ready}", o))
		}
		done = !strings.Contains(fmt.Sprint(states), "not ready")
		select {
		case <-deadline:
			t.Fatalf("not all become ready: %v", states)
		case <-time.After(demoLook):
		}
	}

	cfg.Credentials = nil
	anonymous, err := kube.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	if err := remove(pods, "cache-0")(t.Context(), anonymous); !kube.IsForbidden(err) {
		t.Errorf("without the token: %v, want 403", err)
	}

	if code := f.Stop(); code != cli.ExitDone {
		t.Errorf("exit code %d: %s", code, f.Stderr)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
}

// Another process may write to the same file at any time, before the first connection, too.
func TestDevDoesNotRemoveAKubeconfigThatAnotherProcessWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dev.kubeconfig")
	d, err := newDevCluster(devOptions{listen: "127.0.0.1:0", kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = d.run(t.Context(), "", func(ctx context.Context, client *kube.Client) error {
		return client.Create(ctx, configMaps, "default", named("alive"), nil, kube.WriteOptions{})
	})
	if err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "another's" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestDevRefusesAddressesAndFilesThatItCannotUse(t *testing.T) {
	out := filepath.Join(t.TempDir(), "kubeconfig")
	for listen, say := range map[string]string{
		"0.0.0.0:0":      "must be a loopback address",
		":6443":          "must be a loopback address",
		"example.com:80": "must be a loopback address",
		"":               "want HOST:PORT",
		"127.0.0.1":      "want HOST:PORT",
		"[::1]:99999":    "the port must be a number",
	} {
		skiffDev(t, "--kubeconfig-out", out, "--listen", listen).Want(t, cli.ExitUsage, "--listen "+listen, say)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	skiffDev(t, "--kubeconfig-out", out, "--listen", taken.Addr().String()).Want(t, cli.ExitFailed, "--listen",
		"is taken")
	if err := os.WriteFile(out, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	skiffDev(t, "--kubeconfig-out", filepath.Join(out, "below-a-file")).Want(t, cli.ExitFailed,
		"--kubeconfig-out", "not a directory")
}

func TestDevNamesItsFlagForWhatOthersCallOtherwise(t *testing.T) {
	for flag, say := range map[string]string{"--port": "see --listen 127.0.0.1:PORT", "--persist": "see --data DIR",
		"--kubeconfig": "see --kubeconfig-out FILE"} {
		skiffDev(t, flag, "x").Want(t, cli.ExitUsage, "unknown flag: "+flag, say)
	}
}

func TestTheHelpOfSkiffDevShowsItsFlagsInGroups(t *testing.T) {
	help, title, groups := skiffDev(t, "--help").Stdout, "", map[string]string{}
	_, flags, _ := strings.Cut(help, "\nFlags:\n")
	for line := range strings.Lines("Flags:\n" + flags) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ":"); ok {
			title = name
		} else if _, rest, ok := strings.Cut(line, " --"); ok && title != "" {
			groups[title] += strings.Fields(rest)[0] + " "
		}
	}
	for title, want := range map[string]string{"Flags": "help version ",
		"Cluster flags": "bare crds data kubernetes-version load rbac simulate ",
		"Serving flags": "debug-bind-address debug-token-file health-probe-bind-address kubeconfig-out listen " +
			"metrics-bind-address "} {
		if groups[title] != want {
			t.Errorf("%s: %s, want %s", title, groups[title], want)
		}
	}
	for _, expert := range []string{"faults ", "ready-file ", "replicas "} {
		if !strings.Contains(groups["Advanced flags"], expert) {
			t.Errorf("advanced are %s, want also %s", groups["Advanced flags"], expert)
		}
	}
}

// 'skiff status' after skiff-dev works without a flag. A port that is taken stops nothing.
func TestDevServesItsProbesWhereStatusFindsThem(t *testing.T) {
	all := []devRun{startDev(t, "--controllers", "redis", "--simulate", "gc"),
		startDev(t, "--controllers", "webserver", "--simulate", "gc"), startDev(t, "--bare")}
	program := clitest.Program{Name: "skiff", Main: cli.Main}
	shows := func(status string) bool {
		return strings.Contains(status, "redis") && strings.Contains(status, "webserver")
	}
	deadline := time.After(clitest.Patience)
	for status := ""; !shows(status); { // the ready file does not wait for the controllers
		status = program.Run(t.Context(), t, "status", "--all").Stdout
		select {
		case <-deadline:
			t.Fatalf("skiff status does not know both: %s", status)
		default:
		}
	}
	for _, r := range all {
		if code := r.Stop(); code != cli.ExitDone {
			t.Errorf("exit code %d: %s", code, r.Stderr)
		}
	}
}
