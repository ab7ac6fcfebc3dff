package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The example for pull requests comments a plan that has lines, and fails where something is in the way.
func TestTheExampleForPullRequestsCommentsThePlan(t *testing.T) {
	script, err := filepath.Abs(repositoryFile("examples/ci/plan.sh"))
	noError(t, err)
	for code, want := range map[int]struct {
		exit    int
		comment bool
	}{0: {0, false}, 3: {0, true}, 4: {4, true}, 1: {1, true}, 2: {2, false}} {
		dir := t.TempDir()
		comment := filepath.Join(dir, "comment")
		for name, text := range map[string]string{
			"skiff": fmt.Sprintf("echo \"WebServer default/web\n  + Deployment web ($*)\"; exit %d", code),
			"gh":    `while [ "$1" != --body-file ]; do shift; done; cp "$2" ` + comment,
		} {
			noError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		}
		cmd := exec.CommandContext(t.Context(), "sh", script, "deploy", "--full")
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "PULL_REQUEST=7"}
		out, err := cmd.CombinedOutput()
		exit := 0
		if e := new(exec.ExitError); errors.As(err, &e) {
			exit = e.ExitCode()
		}
		said, _ := os.ReadFile(comment)
		text := "```diff\nWebServer default/web\n+  Deployment web (plan -f deploy --full)\n```\n"
		if exit != want.exit || want.comment != strings.HasSuffix(string(said), text) {
			t.Errorf("after %d: exit code %d, comment %q, output %s", code, exit, said, out)
		}
	}
	var workflow map[string]any
	noError(t, yaml.Unmarshal([]byte(read(t, "examples/ci/plan.yaml")), &workflow))
}
