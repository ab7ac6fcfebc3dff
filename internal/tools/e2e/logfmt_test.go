package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logfmt/logfmt"
)

// The text log is logfmt, as collectors of logs read it, with any text of others in it.
func TestTheTextLogIsLogfmt(t *testing.T) {
	binary := must(skiffBinary())(t)
	group := must(NewGroup())(t)
	t.Cleanup(group.Close)
	dir := t.TempDir()
	words, kubeconfig := filepath.Join(dir, "words"), filepath.Join(dir, "config")
	writeFile(t, words, "a \"quoted\" x=y \\ text with \u00fc, \U0001F600 and \u2028\n")
	writeFile(t, kubeconfig, `{apiVersion: v1, kind: Config, current-context: c,
contexts: [{name: c, context: {cluster: c, user: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
users: [{name: c, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh,
args: [-c, "cat `+words+` >&2; exit 1"]}}}]}`)
	p := must(group.Start(dir, "skiff", []string{"KUBECONFIG=", "HOME=" + dir}, binary, "run", "-v=1", "--kubeconfig",
		kubeconfig, "--health-probe-bind-address=0"))(t)
	defer p.Kill()
	Eventually(t, limit, "the plugin has said something, and skiff that it has no server", func() (bool, string) {
		log := p.Log()
		return strings.Contains(log, "says:") && strings.Count(log, "\n") >= 3, p.Tail(10)
	})
	lines := logfmt.NewDecoder(strings.NewReader(p.Log()))
	n := 0
	for ; lines.ScanRecord(); n++ {
		fields := map[string]string{}
		for lines.ScanKeyval() {
			fields[string(lines.Key())] = string(lines.Value())
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000Z07:00", fields["time"]); err != nil ||
			fields["level"] == "" || fields["msg"] == "" {
			t.Errorf("line %d: %v, fields %q", n, err, fields)
		}
	}
	if err := lines.Err(); err != nil || n < 3 {
		t.Errorf("%d lines, %v\n%s", n, err, p.Tail(20))
	}
}
