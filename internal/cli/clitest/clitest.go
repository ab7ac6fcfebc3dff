// Package clitest runs the commands of a program in the process of their tests. It knows neither program. Run works on
// the goroutine of its caller; Follow starts one, which ends with the command.
package clitest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// Program is one of the two programs.
type Program struct {
	Name string // what its errors begin with
	Main func(ctx context.Context, args []string, stdout, stderr io.Writer) (code int)
}

// Result is what a command left behind.
type Result struct {
	Code           int
	Stdout, Stderr string
	Program        string // its name
}

// Run runs a command, with nothing of the developer's own configuration in reach.
func (p Program) Run(ctx context.Context, t *testing.T, args ...string) Result {
	t.Helper()
	Isolate(t)
	var stdout, stderr Buffer
	code := p.Main(ctx, args, &stdout, &stderr)
	return Result{code, stdout.String(), stderr.String(), p.Name}
}

// Want checks the exit code, and that stderr has these parts.
func (r Result) Want(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d; stderr: %s", r.Code, code, r.Stderr)
	}
	for _, part := range stderr {
		if !strings.Contains(r.Stderr, part) {
			t.Errorf("stderr %q does not say %q", r.Stderr, part)
		}
	}
	if code != 0 && len(stderr) > 0 && strings.Count("\n"+r.Stderr, "\n"+r.Program+": ") != 1 {
		t.Errorf("stderr %q: want the error once, as %s: ...", r.Stderr, r.Program)
	}
	if strings.Contains(r.Stderr+r.Stdout, "Usage:") && code != 0 {
		t.Errorf("an error dumps the usage: %s%s", r.Stdout, r.Stderr)
	}
}

// Isolate hides the developer's kubeconfig and the pod that the test may run in.
func Isolate(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		t.Setenv(name, "")
	}
}

// Buffer is a bytes.Buffer for several goroutines.
type Buffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Follower is a command that runs until it is stopped.
type Follower struct {
	T      *testing.T
	Lines  chan string // of its output
	Stderr *Buffer

	cancel context.CancelFunc
	code   chan int
}

// Follow starts a command and returns once it runs; it is stopped at the end of the test.
func (p Program) Follow(t *testing.T, args ...string) *Follower {
	t.Helper()
	Isolate(t)
	ctx, cancel := context.WithCancel(t.Context())
	f := &Follower{T: t, Lines: make(chan string, 1000), Stderr: &Buffer{}, cancel: cancel, code: make(chan int, 1)}
	go func() { f.code <- p.Main(ctx, args, &lineWriter{lines: f.Lines}, f.Stderr) }()
	t.Cleanup(cancel)
	return f
}

// Patience is how long a command may take for the next line, or to stop: 200 objects took 20 seconds with the race
// detector beside another gate.
const Patience = time.Minute

// Next is the next line of output.
func (f *Follower) Next() string {
	f.T.Helper()
	select {
	case line := <-f.Lines:
		return line
	case code := <-f.code:
		f.T.Fatalf("the command ended with %d: %s", code, f.Stderr)
	case <-time.After(Patience):
		f.T.Fatalf("no further line; stderr: %s", f.Stderr)
	}
	return ""
}

// Want checks the next line: it begins with the first text and has the others in it.
func (f *Follower) Want(start string, parts ...string) {
	f.T.Helper()
	line := f.Next()
	if !strings.HasPrefix(line, start) {
		f.T.Errorf("line %q, want %q", line, start)
	}
	for _, part := range parts {
		if !strings.Contains(line, part) {
			f.T.Errorf("line %q does not say %q", line, part)
		}
	}
}

// Await waits until a condition holds while the command runs.
func (f *Follower) Await(what string, holds func() bool) {
	f.T.Helper()
	for deadline := time.Now().Add(Patience); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.T.Fatalf("never: %s; stderr: %s", what, f.Stderr)
		}
	}
}

// Stop ends the command as a signal does, and returns its exit code.
func (f *Follower) Stop() int {
	f.T.Helper()
	f.cancel()
	return f.Wait()
}

// Wait returns the exit code of a command that ends.
func (f *Follower) Wait() int {
	f.T.Helper()
	select {
	case code := <-f.code:
		return code
	case <-time.After(Patience):
		f.T.Fatalf("the command does not end; stderr: %s", f.Stderr)
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
