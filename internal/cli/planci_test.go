package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// The example for pull requests comments a plan that has lines, and fails where something is in the way.
func TestTheExampleForPullRequestsCommentsThePlan(t *testing.T) {
	for code, want := range map[int]struct {
		exit    int
		comment bool
	}{0: {0, false}, 3: {0, true}, 4: {4, true}, 1: {1, true}, 2: {2, false}} {
		exit, said, out := runPlanScript(t, code, "WebServer default/web\n  + Deployment web ($*)")
		text := "```diff\nWebServer default/web\n+  Deployment web (plan -f deploy --full)\n```\n"
		if exit != want.exit || want.comment != strings.HasSuffix(said, text) {
			t.Errorf("after %d: exit code %d, comment %q, output %s", code, exit, said, out)
		}
	}
	var workflow map[string]any
	noError(t, yaml.Unmarshal([]byte(read(t, "examples/ci/plan.yaml")), &workflow))
}

// A code host refuses a comment that is too long: GitHub one of more than 65,536 characters. The example cuts the plan
// at a line, and says how much is missing and where it is.
func TestTheExampleForPullRequestsCutsALongComment(t *testing.T) {
	t.Setenv("GITHUB_RUN_ID", "17")
	t.Setenv("GITHUB_SERVER_URL", "https://code.example")
	t.Setenv("GITHUB_REPOSITORY", "shop/web")
	const most = 65_536
	line := "  + " + strings.Repeat("ü", 95)
	for lines, cut := range map[int]bool{300: false, 331: false, 400: true, 4000: true} {
		exit, said, out := runPlanScript(t, 3, strings.Repeat(line+"\n", lines-1)+line)
		shown := strings.Count(said, "+  ü")
		note := fmt.Sprintf("\n```\nThe plan is too long for a comment: the last %d of its %d lines are not shown."+
			" All of it is in the log of this job: https://code.example/shop/web/actions/runs/17\n",
			lines-shown, lines)
		switch {
		case exit != 0, len(said) > most, strings.Count(out, "ü\n") != lines, !utf8.ValidString(said):
			t.Errorf("%d lines: exit code %d, a comment of %d bytes, output of %d lines", lines, exit, len(said),
				strings.Count(out, "\n"))
		case strings.HasSuffix(said, note) != cut, cut != (shown < lines), cut && shown < 300:
			t.Errorf("%d lines: %d are in the comment, which ends with %q", lines, shown,
				said[max(0, len(said)-300):])
		}
	}
	_, said, _ := runPlanScript(t, 3, strings.Repeat("x", most+1))
	if !strings.Contains(said, "the last 1 of its 1 lines") {
		t.Errorf("one line that is too long: %.300q", said)
	}
}

// runPlanScript runs the example for pull requests with programs in place of skiff and gh. It returns its exit code,
// what it comments, "" for nothing, and its output.
func runPlanScript(t *testing.T, code int, plan string) (exit int, comment, output string) {
	t.Helper()
	script, err := filepath.Abs(repositoryFile("examples/ci/plan.sh"))
	noError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "comment")
	noError(t, os.WriteFile(filepath.Join(dir, "plan"), []byte(plan+"\n"), 0o600))
	for name, text := range map[string]string{
		"skiff": fmt.Sprintf("sed \"s|\\$\\*|$*|\" %s/plan; exit %d", dir, code),
		"gh":    `while [ "$1" != --body-file ]; do shift; done; cp "$2" ` + file,
	} {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	cmd := exec.CommandContext(t.Context(), "sh", script, "deploy", "--full")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PULL_REQUEST=7")
	out, err := cmd.CombinedOutput()
	if e := new(exec.ExitError); errors.As(err, &e) {
		exit = e.ExitCode()
	}
	said, _ := os.ReadFile(file) // there is none without a comment
	return exit, string(said), string(out)
}
