package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// BuildProgram builds skiff or skiff-dev from the repository at root into dir, with the flags of `make build`, and
// returns its path. version is what it says of itself; "": what a build without git says.
func BuildProgram(ctx context.Context, program, root, dir, version string) (string, error) {
	path, flags := filepath.Join(dir, program+version), "-s -w"
	if version != "" {
		flags += " -X skiff/internal/runtime/kube.version=" + version
	}
	_, err := goTool(ctx, root, []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-ldflags", flags, "-o", path,
		"./cmd/"+program)
	return path, err
}

// Skiff is a running skiff that serves probes: `skiff run` or `skiff restart`.
type Skiff struct {
	*Process
	probes string // base URL
}

// StartSkiff runs `skiff run` as a user would. name is that of its log; extra arguments come last and so win.
func (c *Cluster) StartSkiff(binary, name, kubeconfig string, extra ...string) (*Skiff, error) {
	return c.StartSkiffCommand(binary, name, kubeconfig, append([]string{"run", "--controllers", "webserver",
		"--metrics-bind-address=0"}, extra...)...)
}

// StartSkiffCommand runs a command of skiff that goes on until it is told to end and serves probes. name is that of
// its log.
func (c *Cluster) StartSkiffCommand(binary, name, kubeconfig string, args ...string) (*Skiff, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	argv := append(append([]string{binary}, args...), "--kubeconfig", kubeconfig,
		"--health-probe-bind-address="+loopback(port))
	if args[0] == "run" || args[0] == "restart" {
		argv = append(argv, "--min-cooldown=1s") // tests do not wait for ten seconds
	}
	// HOME and KUBECONFIG out of the way: a forgotten flag must not reach the developer's own cluster.
	p, err := c.Start(name, []string{"KUBECONFIG=", "HOME=" + c.Dir}, argv...)
	if err != nil {
		return nil, err
	}
	return &Skiff{Process: p, probes: "http://" + loopback(port)}, nil
}

// Ready is nil if /readyz says 200.
func (s *Skiff) Ready() error {
	code, body, err := s.probe("/readyz")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("GET /readyz: %d %s", code, body)
	}
	return nil
}

// probe asks one of the probe endpoints.
func (s *Skiff) probe(path string) (code int, body string, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(s.probes + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(text)), err
}

// Terminate is SIGTERM; it fails if skiff does not exit with 0 within its drain time of 30 s, and as much again for a
// busy machine.
func (s *Skiff) Terminate() error {
	if s.Exited() {
		return fmt.Errorf("skiff ended before SIGTERM, with exit code %d", s.ExitCode())
	}
	inTime, err := s.Stop(time.Minute)
	if err != nil {
		return err
	}
	if !inTime {
		return errors.New("skiff did not stop within a minute of SIGTERM")
	}
	if code := s.ExitCode(); code != 0 {
		return fmt.Errorf("skiff exited with %d after SIGTERM, want 0", code)
	}
	return nil
}

// LogLines are the lines of skiff's log that hold all the words.
func (s *Skiff) LogLines(words ...string) []string {
	var out []string
	for line := range strings.Lines(s.Log()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}
