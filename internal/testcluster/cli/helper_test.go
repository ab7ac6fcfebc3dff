package cli

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var crdsResource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// skiffDev runs a command in this process, with nothing of the developer's own configuration in reach.
func skiffDev(t *testing.T, args ...string) result {
	t.Helper()
	return skiffDevUntil(t.Context(), t, args...)
}

func skiffDevUntil(ctx context.Context, t *testing.T, args ...string) result {
	t.Helper()
	isolate(t)
	var stdout, stderr lockedBuffer
	code := Main(ctx, append([]string{"skiff-dev"}, args...), &stdout, &stderr, nil)
	return result{code, stdout.String(), stderr.String()}
}

// isolate hides the developer's kubeconfig and the pod that the test may run in.
func isolate(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		t.Setenv(name, "")
	}
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (r result) want(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d; stderr: %s", r.code, code, r.stderr)
	}
	for _, part := range stderr {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("stderr %q does not say %q", r.stderr, part)
		}
	}
	if code != cli.ExitDone && len(stderr) > 0 && strings.Count("\n"+r.stderr, "\nskiff-dev: ") != 1 {
		t.Errorf("stderr %q: want the error once, as skiff-dev: ...", r.stderr)
	}
	if strings.Contains(r.stderr+r.stdout, "Usage:") && code != cli.ExitDone {
		t.Errorf("an error dumps the usage: %s%s", r.stdout, r.stderr)
	}
}

// follower is a skiff-dev that runs in this process.
type follower struct {
	t      *testing.T
	lines  chan string
	stderr *lockedBuffer
	cancel context.CancelFunc
	code   chan int
}

// follow starts a command and returns once it runs; it is stopped at the end of the test.
func follow(t *testing.T, args ...string) *follower {
	t.Helper()
	isolate(t)
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{t: t, lines: make(chan string, 1000), stderr: &lockedBuffer{},
		cancel: cancel, code: make(chan int, 1)}
	go func() {
		f.code <- Main(ctx, append([]string{"skiff-dev"}, args...), &lineWriter{lines: f.lines}, f.stderr, nil)
	}()
	t.Cleanup(cancel)
	return f
}

// next is the next line of output.
func (f *follower) next() string {
	f.t.Helper()
	select {
	case line := <-f.lines:
		return line
	case code := <-f.code:
		f.t.Fatalf("the command ended with %d: %s", code, f.stderr)
	case <-time.After(20 * time.Second):
		f.t.Fatalf("no further line; stderr: %s", f.stderr)
	}
	return ""
}

// stop ends the command as a signal does, and returns its exit code.
func (f *follower) stop() int {
	f.t.Helper()
	f.cancel()
	select {
	case code := <-f.code:
		return code
	case <-time.After(20 * time.Second):
		f.t.Fatal("the command does not stop")
		return 0
	}
}

// lineWriter hands out what is written line by line.
type lineWriter struct {
	lines chan string
	part  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.part = append(w.part, p...)
	for {
		line, rest, ok := bytes.Cut(w.part, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		w.lines <- string(line)
		w.part = rest
	}
}

func named(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}}
}

// pipeCluster is a cluster for a test in a synctest bubble. Its run takes it down.
func pipeCluster() *devCluster {
	api := apiserver.New(apiserver.Options{})
	pipe := api.ListenPipe()
	return &devCluster{api: api, serving: pipe, to: kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial},
		o: devOptions{simulate: demoPods}}
}
