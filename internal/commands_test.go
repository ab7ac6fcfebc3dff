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

// shell runs the commands of a README in a directory that looks like the repository after `make build`.
type shell struct {
	t   *testing.T
	dir string
	env []string
}

// lasting are commands that run until they are stopped.
var lasting = regexp.MustCompile(`^bin/skiff (run|restart|reload|watch)\b|^bin/skiff-dev( --controllers none| hooks \S+)?$`)

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
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output() // else it is below HOME, and empty
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "HOME="+s.dir, "GOCACHE="+strings.TrimSpace(string(cache)), "KUBECONFIG=",
		"KUBERNETES_SERVICE_HOST=")
	return s
}

// cluster starts skiff-dev; commands from now on talk to it.
func (s *shell) cluster(line string) *clitest.Buffer {
	s.t.Helper()
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	out := s.start(line + " --kubeconfig-out " + kubeconfig)
	s.eventually("skiff-dev is ready", func() bool { return strings.Contains(out.String(), "In another terminal") })
	s.env = append(s.env, "KUBECONFIG="+kubeconfig)
	return out
}

// hooksCluster starts `skiff-dev hooks`, which has a cluster of its own, and waits until its hook has made something.
func (s *shell) hooksCluster(line string) {
	s.t.Helper()
	out := s.start(line + " --kubeconfig-out " + filepath.Join(s.t.TempDir(), "kubeconfig"))
	s.eventually(line+" creates what the hook declares", func() bool {
		return strings.Contains(out.String(), "created Deployment")
	})
}

// run runs a command to its end, which has to be a good one.
func (s *shell) run(line string) string {
	s.t.Helper()
	// One builds a program of Go when nothing is compiled yet, beside all other tests.
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
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

// The addresses of the probes and of the live page in the log of skiff.
var (
	probesAt = regexp.MustCompile(`serving probes"? "?address"?="?([0-9.:]+)`)
	pageAt   = regexp.MustCompile(`serving the live page"? "?url"?="?http://([0-9.:]+)`)
)

// findsSkiff waits until a command says that the skiff with this log is fine. The command may find others, too, which
// other tests run on this machine.
func (s *shell) findsSkiff(command string, log *clitest.Buffer) {
	s.t.Helper()
	s.eventually(command+" finds the skiff that was started", func() bool {
		probes, page := probesAt.FindStringSubmatch(log.String()), pageAt.FindStringSubmatch(log.String())
		if probes == nil {
			return false
		}
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir, cmd.Env = s.dir, s.env
		out, err := cmd.Output()
		if code := new(exec.ExitError); err != nil && !errors.As(err, &code) {
			s.t.Fatal(err)
		}
		if page != nil { // what it has to say is more
			return strings.Contains(string(out), " at "+page[1]+",") && strings.Contains(string(out), "All is well.")
		}
		return strings.Contains(string(out), "skiff at "+probes[1]+" is ready; all is well\n")
	})
}

func (s *shell) eventually(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.After(2 * time.Minute) // beside all other tests
	for !cond() {
		select {
		case <-deadline:
			s.t.Fatalf("not within 2 minutes: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readmes have commands for those who run skiff, each with the least number of them.
var readmes = []struct {
	name string
	min  int
}{{"README.md", 12}, {"examples/README.md", 20}, {"examples/install/README.md", 8},
	{"examples/monitoring/README.md", 3}, {"examples/reload/README.md", 10}, {"examples/reload/RELOADER.md", 1},
	{"examples/restart/README.md", 10}}

// readmeCommands returns the lines of a README that are set as commands, without comments. Those of make are left out:
// some of them run this test.
func readmeCommands(t *testing.T, name string, least int) []string {
	t.Helper()
	var out []string
	code := false // of a language
	for line := range strings.Lines(read(t, name)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if command, ok := strings.CutPrefix(line, "    "); ok && !code && !strings.HasPrefix(command, "make ") {
			command, _, _ = strings.Cut(command, "  #")
			out = append(out, strings.TrimSpace(command))
		}
	}
	if len(out) < least {
		t.Fatalf("%d commands were found in %s: this test no longer understands it", len(out), name)
	}
	return out
}

// Each from top to bottom, as a reader does.
func TestTheCommandsOfTheReadmesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute, most of which is waiting")
	}
	t.Parallel()
	built := newShell(t)
	for _, readme := range readmes {
		t.Run(readme.name, func(t *testing.T) {
			s := *built
			s.t = t
			s.follow(readmeCommands(t, readme.name, readme.min))
			if readme.name != "examples/README.md" { // which deletes what it has made
				return
			}
			s.eventually("the garbage collector has removed all that skiff made", func() bool {
				return strings.Contains(s.run("kubectl get deployments,services,pods -n default -l "+
					"app.kubernetes.io/managed-by=skiff"), "No resources found")
			})
		})
	}
}

// follow runs commands in their order. Those that start no cluster have one without controllers.
func (s *shell) follow(commands []string) {
	s.t.Helper()
	var running *clitest.Buffer
	if !strings.Contains(strings.Join(commands, "\n"), "bin/skiff-dev") {
		s.cluster("bin/skiff-dev --controllers none")
	}
	for _, command := range commands {
		switch {
		case strings.HasPrefix(command, "bin/skiff-dev hooks "):
			s.hooksCluster(command)
		case strings.HasPrefix(command, "bin/skiff-dev"):
			running = s.cluster(command)
		case lasting.MatchString(command):
			running = s.start(command)
		case strings.HasPrefix(command, "bin/skiff status"):
			s.findsSkiff(command, running)
		default:
			out := s.run(command)
			if strings.HasPrefix(command, "kubectl events --for deployment/predixy") &&
				!strings.Contains(out, "restarted by RestartTrigger predixy: pod cache-0") {
				s.t.Errorf("the Events of the proxy do not have its restart: %s", out)
			}
		}
	}
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
