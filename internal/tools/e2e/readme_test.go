package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readmeCommands are the lines of the examples' README that begin with kubectl, in order.
func readmeCommands(t *testing.T) (lines []string) {
	t.Helper()
	for line := range strings.Lines(readFile(t, filepath.Join(repository, "examples", "README.md"))) {
		if strings.HasPrefix(line, "    kubectl ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) < 18 {
		t.Fatalf("examples/README.md has only these commands for kubectl: %q", lines)
	}
	return lines
}

// Whoever types what examples/README.md says, line by line, on skiff-dev, sees each line succeed. Nothing of what
// skiff-dev prints, at its most talkative, is the secret of its kubeconfig. Rules: AUTH-26
func TestReadmeOnSkiffDev(t *testing.T) {
	s := newScope(t) // for a place to run things in; the cluster of this test is skiff-dev
	binary := must(skiffDevBinary())(t)
	kubectl := must(kubectlPath())(t)
	kubeconfig := s.c.path("readme.kubeconfig")
	dev := must(s.c.Start("readme", []string{"KUBECONFIG=", "HOME=" + s.c.Dir}, binary, "--kubeconfig-out",
		kubeconfig, "-v", "9"))(t)
	Eventually(t, limit, "skiff-dev says how to reach it", func() (bool, string) {
		return strings.Contains(dev.Log(), "export KUBECONFIG='"+kubeconfig+"'"), dev.Log()
	})
	token := regexp.MustCompile(`token: "?(\w{10,})`).FindStringSubmatch(readFile(t, kubeconfig))
	if token == nil {
		t.Fatal("the kubeconfig of skiff-dev has no token")
	}

	root := must(filepath.Abs(repository))(t)
	env := []string{"KUBECONFIG=" + kubeconfig, "KUBECACHEDIR=" + s.c.path("readme-cache"),
		"PATH=" + filepath.Dir(kubectl) + ":" + os.Getenv("PATH")}
	for _, line := range readmeCommands(t) {
		r, err := runCommand(t.Context(), env, "", "/bin/sh", "-c", "cd '"+root+"' && "+line)
		if err != nil || r.Code != 0 {
			t.Fatalf("%s: %v %v\n%s", line, err, r, dev.Tail(20))
		}
		switch {
		case strings.Contains(line, "describe redis") && !strings.Contains(r.Stdout, "created pod cache-0"),
			strings.Contains(line, "events --for deployment/predixy") &&
				!strings.Contains(r.Stdout, "restarted by RestartTrigger predixy: pod cache-0 replaced, new IP"):
			t.Errorf("%s: %v", line, r)
		}
	}
	if inTime, err := dev.Stop(limit); err != nil || !inTime || dev.ExitCode() != 0 {
		t.Errorf("SIGTERM: in time %v, exit code %d, error %v", inTime, dev.ExitCode(), err)
	}
	if strings.Contains(dev.Log(), token[1]) {
		t.Error("the token of skiff-dev is in its output")
	}
}
