package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"skiff/crds"
	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// TestMain makes the test binary the skiff binary where a test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("SKIFF_TEST_RUN_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// command prepares a skiff process that cannot reach the developer's own cluster.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	// The process is killed when the test takes too long, so that nothing is left behind.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	// The race detector otherwise waits a second at the end of each process.
	cmd.Env = []string{"SKIFF_TEST_RUN_MAIN=1", "GORACE=atexit_sleep_ms=0", "HOME=" + t.TempDir()}
	return cmd
}

func server(t *testing.T) (*apiserver.Server, string) {
	t.Helper()
	api := apiserver.New(apiserver.Options{})
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	t.Cleanup(api.Close)
	return api, s.URL
}

func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Wait(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode()
}

// waitForLine reads until a line has the text.
func waitForLine(t *testing.T, r *bufio.Scanner, text string) {
	t.Helper()
	var seen []string
	for r.Scan() {
		if seen = append(seen, r.Text()); strings.Contains(r.Text(), text) {
			return
		}
	}
	t.Fatalf("the output ended without %q: %q", text, seen)
}

func TestExitCodes(t *testing.T) {
	_, url := server(t)
	for _, tt := range []struct {
		args string
		code int
		out  string // of stdout and stderr
	}{
		{"version", 0, "skiff "},
		{"--help", 0, "Usage:"},
		{"crds install --server " + url, 0, "webservers.skiff.dev created"},
		{"crds install --server " + url, 0, "webservers.skiff.dev unchanged"},
		{"crds diff --server " + url, 0, ""},
		{"watch nothing --server " + url, 1, `skiff: the server has no resource "nothing"`},
		{"run", 1, "skiff: no cluster configured"},
		{"run --nope", 2, "skiff: unknown flag: --nope\nrun 'skiff run --help'\n"},
		{"nope", 2, "skiff: unknown command"},
	} {
		cmd := command(t, strings.Fields(tt.args)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.out) {
			t.Errorf("skiff %s: exit code %d, output %q; want %d, %q", tt.args, code, out, tt.code, tt.out)
		}
	}
}

func TestSignalsDrainAndExitWith0(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		_, url := server(t)
		cmd := command(t, "run", "--server", url)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		log := bufio.NewScanner(stderr)
		waitForLine(t, log, "starting")
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		waitForLine(t, log, "stopped")
		if code := exitCode(t, cmd); code != 0 {
			t.Errorf("after %s: exit code %d", signal, code)
		}
	}
}

// Rules: MGR-03
func TestASecondSignalExitsAtOnceWith1(t *testing.T) {
	api, url := server(t)
	client, err := kube.New(kube.Config{Server: url})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if out, err := command(t, "crds", "install", "--server", url).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	webservers := kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	if err := client.Create(t.Context(), webservers, "default",
		map[string]any{"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer",
			"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"image": "nginx"}}, nil,
		kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The reconcile hangs: its POST gets no answer.
	api.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", Cut: apiserver.Blackhole})
	cmd := command(t, "run", "--server", url)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for hangs := false; !hangs; {
		for _, r := range api.Requests() {
			hangs = hangs || r.Method == "POST" && strings.HasSuffix(r.Path, "/deployments")
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the reconcile did not begin")
		case <-time.After(10 * time.Millisecond):
		}
	}
	for range 2 { // as timeout(1) does, to the process and to its group
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	lines, gone := bufio.NewScanner(stderr), make(chan struct{})
	waitForLine(t, lines, "stopping")
	go func() { // until the process ends
		defer close(gone)
		for lines.Scan() {
		}
	}()
	select {
	case <-gone:
		t.Error("a signal that came twice at once ended the process")
	case <-time.After(2 * cli.SameSignal):
	}
	second := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-gone
	if code := exitCode(t, cmd); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if took := time.Since(second); took > 5*time.Second {
		t.Errorf("the second signal took %s", took)
	}
}

func TestACredentialPluginThatHangsEndsWithSkiff(t *testing.T) {
	_, url := server(t)
	for _, signals := range []int{1, 2} {
		dir := t.TempDir()
		children := filepath.Join(dir, "children")
		if err := os.WriteFile(filepath.Join(dir, "plugin.sh"), []byte("sleep 1000 >/dev/null 2>&1 & echo $! $$ > "+
			children+".new; mv "+children+".new "+children+"; sleep 1000\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "kubeconfig")
		if err := os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users:
- name: u
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [%q]}}
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, url, filepath.Join(dir, "plugin.sh")), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := command(t, "run", "--kubeconfig", path, "--insecure-loopback-http")
		cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pids []string
		for deadline := time.Now().Add(30 * time.Second); len(pids) == 0; <-time.After(10 * time.Millisecond) {
			text, err := os.ReadFile(children)
			if err != nil && !os.IsNotExist(err) || time.Now().After(deadline) {
				t.Fatalf("the plugin did not begin: %v", err)
			}
			pids = strings.Fields(string(text))
		}
		for i := range signals {
			if i > 0 {
				<-time.After(2 * cli.SameSignal)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && i == 0 {
				t.Fatal(err)
			}
		}
		exitCode(t, cmd)
		for _, pid := range pids {
			for deadline := time.Now().Add(10 * time.Second); running(t, pid); <-time.After(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("after %d signals: process %s of the plugin is still there", signals, pid)
				}
			}
		}
	}
}

// running says whether a process is there and has not ended.
func running(t *testing.T, pid string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if os.IsNotExist(err) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return !strings.Contains(string(stat), ") Z ")
}

func TestAReaderThatGoesAwayEndsWatchWith0(t *testing.T) {
	_, url := server(t)
	cmd := command(t, "watch", "namespaces", "--server", url)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	client, err := kube.New(kube.Config{Server: url})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// Something to print, until it is noticed that nobody reads.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for i := 0; ; i++ {
		err := client.Patch(t.Context(), kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace",
			ClusterScoped: true},
			kube.Key{Name: "default"}, kube.MergePatch,
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"round": strings.Repeat("x",
				i%50)}}},
			nil, kube.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err != nil || stderr.String() != "" {
				t.Errorf("%v, stderr %q", err, &stderr)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestTheBinaryHoldsItsDefinitions(t *testing.T) {
	out, err := command(t, "crds", "print").Output()
	if err != nil || !strings.Contains(string(out), string(crds.All()[0])) {
		t.Errorf("%v: %.200s", err, out)
	}
}

func TestAReadOnlyDirectoryAndNoHomeAreFine(t *testing.T) {
	_, url := server(t)
	cmd := command(t, "run", "--server", url, "--leader-elect", "--leader-election-namespace", "default")
	cmd.Env = []string{"SKIFF_TEST_RUN_MAIN=1", "GORACE=atexit_sleep_ms=0", "TMPDIR=/proc"}
	cmd.Dir = "/proc" // nobody can write there, not even root
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("there is no /proc here: ", err)
	}
	log := bufio.NewScanner(stderr)
	waitForLine(t, log, "leading")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitForLine(t, log, "stopped")
	if code := exitCode(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
