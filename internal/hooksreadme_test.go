package internal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/hooks/scaffold"
)

// hooksTools are what hooks are run with in the examples, and in the controllers of `skiff hooks init`.
var hooksTools = map[string]string{"shell": "jq", "python": "python3", "node": "node", "go": "go"}

// newHooksShell is a shell that finds skiff in its PATH.
func newHooksShell(t *testing.T) *shell {
	t.Helper()
	for _, tool := range hooksTools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s on this machine", tool)
		}
	}
	s := newShell(t)
	s.env = append(s.env, "PATH="+filepath.Join(s.dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return s
}

// Rules: HK-100, HK-112, HK-113
func TestTheCommandsOfTheReadmeOfHooksRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	t.Parallel()
	s := newHooksShell(t)
	n := 0
	for line := range strings.Lines(read(t, "examples/hooks/README.md")) {
		command, ok := strings.CutPrefix(line, "    ")
		if !ok {
			continue
		}
		n++
		if command = strings.TrimSpace(command); strings.HasPrefix(command, "skiff hooks run ") {
			s.start(command)
		} else {
			s.run(command)
		}
	}
	if n < 20 {
		t.Fatalf("%d commands were found: this test no longer understands examples/hooks/README.md", n)
	}
}

// Rules: HK-112
func TestTheTestOfEachNewControllerPasses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	t.Parallel()
	s := newHooksShell(t)
	for _, lang := range scaffold.Languages() {
		s.run("skiff hooks init shop-" + lang + " --lang " + lang)
		if out := s.run("shop-" + lang + "/test.sh"); !strings.HasSuffix(out, "answers as in test/want.yaml\n") {
			t.Errorf("%s: %s", lang, out)
		}
	}
}
