package internal_test

import (
	"context"
	"errors"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"skiff/internal/cli/clitest"
)

// shell runs the commands of the README in a directory that looks like the repository after `make build`, on a
// skiff-dev of its own.
type shell struct {
	t   *testing.T
	dir string
	env []string
}

// lasting are commands that run until they are stopped.
var lasting = regexp.MustCompile(`^bin/skiff (run|restart|watch)\b`)

func newShell(t *testing.T) *shell {
	t.Helper()
	for _, tool := range []string{"bash", "kubectl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s on this machine", tool)
		}
	}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, dir: t.TempDir()}
	// As make build does, so that what one has compiled is there for the other.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(s.dir, "bin")+"/",
		"./cmd/...")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	for _, name := range []string{"examples", "crds"} {
		if err := os.Symlink(filepath.Join(repository, name), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	s.env = append(os.Environ(), "HOME="+s.dir, "KUBECONFIG="+kubeconfig, "KUBERNETES_SERVICE_HOST=")
	out := s.start("bin/skiff-dev --kubeconfig-out " + kubeconfig)
	s.eventually("skiff-dev is ready", func() bool { return strings.Contains(out.String(), "In another terminal") })
	return s
}

// run runs a command to its end, which has to be a good one.
func (s *shell) run(line string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute) // the longest waits for a debounce of ten seconds
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// start runs a command until the test is over. Then it has to be there still, and to end well.
func (s *shell) start(line string) *clitest.Buffer {
	s.t.Helper()
	out := &clitest.Buffer{}
	cmd := exec.Command("bash", "-c", "exec "+line)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.t.Cleanup(func() {
		select {
		case err := <-ended:
			s.t.Errorf("%s has ended: %v\n%s", line, err, out)
			return
		default:
		}
		err := cmd.Process.Signal(syscall.SIGTERM)
		if err = errors.Join(err, <-ended); err != nil {
			s.t.Errorf("%s: %v\n%s", line, err, out)
		}
		if s.t.Failed() {
			s.t.Logf("%s:\n%.8000s", line, out)
		}
	})
	return out
}

// probesAt is the address of the probes in the log of skiff.
var probesAt = regexp.MustCompile(`serving probes"? "?address"?="?([0-9.:]+)`)

// findsSkiff waits until a command says that the skiff with this log is fine. The command may find others, too, which
// other tests run on this machine.
func (s *shell) findsSkiff(command string, log *clitest.Buffer) {
	s.t.Helper()
	s.eventually(command+" finds the skiff that was started", func() bool {
		m := probesAt.FindStringSubmatch(log.String())
		if m == nil {
			return false
		}
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir, cmd.Env = s.dir, s.env
		out, err := cmd.Output()
		if code := new(exec.ExitError); err != nil && !errors.As(err, &code) {
			s.t.Fatal(err)
		}
		return strings.Contains(string(out), "skiff at "+m[1]+" is ready; all is well\n")
	})
}

func (s *shell) eventually(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			s.t.Fatalf("not within 30 seconds: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readmeCommands returns the lines of the README that are set as commands, but those of make: some of them run this
// test.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(read(t, "README.md")) {
		if command, ok := strings.CutPrefix(line, "    "); ok && !strings.HasPrefix(command, "make ") {
			out = append(out, strings.TrimSpace(command))
		}
	}
	// Each of the three kinds takes five or so.
	if len(out) < 20 {
		t.Fatalf("%d commands were found in README.md: this test no longer understands it", len(out))
	}
	return out
}

// From top to bottom, as a reader does.
func TestTheCommandsOfTheReadmeRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute, most of which is waiting")
	}
	t.Parallel()
	s := newShell(t)
	var restarts string
	var running *clitest.Buffer
	for _, command := range readmeCommands(t) {
		switch {
		case lasting.MatchString(command):
			running = s.start(command)
			continue
		case strings.HasPrefix(command, "bin/skiff status "):
			s.findsSkiff(command, running)
			continue
		}
		out := s.run(command)
		if strings.HasPrefix(command, "kubectl events --for deployment/predixy") {
			restarts = out
		}
	}
	if !strings.Contains(restarts, "restarted by RestartTrigger predixy: pod cache-0") {
		t.Errorf("the Events of the proxy do not have its restart: %s", restarts)
	}
	s.eventually("the garbage collector has removed all that skiff made", func() bool {
		return strings.Contains(s.run("kubectl get deployments,services,pods -n default -l "+
			"app.kubernetes.io/managed-by=skiff"), "No resources found")
	})
}

// benchmark is the name of one in backquotes.
var benchmark = regexp.MustCompile("`(Benchmark\\w+)`")

func TestTheBenchmarksOfTheReadmeExist(t *testing.T) {
	found := benchmark.FindAllStringSubmatch(section(t, codeMap, "Figures"), -1)
	if len(found) == 0 {
		t.Errorf("%s, Figures names no benchmark", codeMap)
	}
	declared := map[string]bool{}
	for _, f := range sources(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test {
				declared[fn.Name.Name] = true
			}
		}
	}
	for _, m := range found {
		if !declared[m[1]] {
			t.Errorf("%s, Figures: there is no %s", codeMap, m[1])
		}
	}
}
