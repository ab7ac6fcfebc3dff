package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"skiff/crds"
	"skiff/internal/cli"
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

// build builds the program: the race detector, which may be in the test binary, multiplies memory.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "skiff")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, ".") // as make build does: it may be cached
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build skiff: %v\n%s", err, out)
	}
	return binary
}

// start starts a process and returns the lines of its log.
func start(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(stderr)
}

func signal(t *testing.T, cmd *exec.Cmd, s os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	var code *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &code) {
		t.Fatal(err)
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

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 seconds: %s", what)
		}
	}
}

// post creates an object.
func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s %s: %s", url, body, resp.Status)
	}
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
		{"crds print", 0, string(crds.All()[0])},
		{"crds install --server " + url, 0, "webservers.skiff.dev created"},
		{"crds install --server " + url, 0, "webservers.skiff.dev unchanged"},
		{"crds diff --server " + url, 0, ""},
		{"watch nothing --server " + url, 1, `skiff: the server has no resource "nothing"`},
		{"run", 1, "skiff: no cluster: "},
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
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		_, url := server(t)
		cmd := command(t, "run", "--server", url)
		log := start(t, cmd)
		waitForLine(t, log, "starting")
		signal(t, cmd, s)
		waitForLine(t, log, "stopped")
		if code := exitCode(t, cmd); code != 0 {
			t.Errorf("after %s: exit code %d", s, code)
		}
	}
}

func TestAReadOnlyDirectoryAndNoHomeAreFine(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("there is no /proc here: ", err)
	}
	_, url := server(t)
	cmd := command(t, "run", "--server", url, "--leader-elect", "--leader-election-namespace", "default")
	cmd.Env = []string{"SKIFF_TEST_RUN_MAIN=1", "GORACE=atexit_sleep_ms=0", "TMPDIR=/proc"}
	cmd.Dir = "/proc" // not even root can write there
	log := start(t, cmd)
	waitForLine(t, log, "leading")
	signal(t, cmd, syscall.SIGTERM)
	waitForLine(t, log, "stopped")
	if code := exitCode(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Rules: MGR-03
func TestASecondSignalExitsAtOnceWith1(t *testing.T) {
	api, url := server(t)
	if out, err := command(t, "crds", "install", "--server", url).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	post(t, url+"/apis/skiff.dev/v1alpha1/namespaces/default/webservers",
		`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"web"},"spec":{"image":"nginx"}}`)
	// The reconcile hangs: its POST gets no answer.
	api.Inject(apiserver.Fault{Verb: "create", Resource: "deployments", Cut: apiserver.Blackhole})
	cmd := command(t, "run", "--server", url)
	log := start(t, cmd)
	eventually(t, "the reconcile begins", func() bool {
		return slices.ContainsFunc(api.Requests(), func(r apiserver.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/deployments")
		})
	})
	for range 2 { // as timeout(1) does, to the process and to its group
		signal(t, cmd, syscall.SIGTERM)
	}
	waitForLine(t, log, "stopping")
	gone := make(chan struct{})
	go func() { // until the process ends
		defer close(gone)
		for log.Scan() {
		}
	}()
	select {
	case <-gone:
		t.Error("a signal that came twice at once ended the process")
	case <-time.After(2 * cli.SameSignal):
	}
	second := time.Now()
	signal(t, cmd, syscall.SIGTERM)
	<-gone
	if code, took := exitCode(t, cmd), time.Since(second); code != 1 || took > 5*time.Second {
		t.Errorf("the second signal took %s, exit code %d, want 1", took, code)
	}
}

func TestACredentialPluginThatHangsEndsWithSkiff(t *testing.T) {
	_, url := server(t)
	for _, signals := range []int{1, 2} {
		dir := t.TempDir()
		children, plugin, path := filepath.Join(dir, "children"), filepath.Join(dir, "plugin.sh"),
			filepath.Join(dir, "kubeconfig")
		for file, text := range map[string]string{
			plugin: strings.ReplaceAll("sleep 1000 >/dev/null 2>&1 & echo $! $$ > F.new; mv F.new F; sleep 1000\n",
				"F", children),
			path: fmt.Sprintf(`{clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {exec: {
				apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [%q]}}}],
				contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c}`, url, plugin),
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := command(t, "run", "--kubeconfig", path, "--insecure-loopback-http")
		cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pids []string
		eventually(t, "the plugin begins", func() bool {
			text, err := os.ReadFile(children)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			pids = strings.Fields(string(text))
			return len(pids) > 0
		})
		signal(t, cmd, syscall.SIGTERM)
		if signals == 2 {
			<-time.After(2 * cli.SameSignal)
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
		exitCode(t, cmd)
		for _, pid := range pids {
			eventually(t, "process "+pid+" of the plugin ends", func() bool { return !running(t, pid) })
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
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.ReadFull(stdout, make([]byte, 10))
	}
	if err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for i := 0; ; i++ { // something to print, until the broken pipe is noticed
		post(t, url+"/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"n%d"}}`, i))
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
