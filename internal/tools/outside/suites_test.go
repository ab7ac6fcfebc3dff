package outside

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const controllerRuntime = "sigs.k8s.io/controller-runtime/pkg/"

// suites are controller-runtime's own that start a server, in the release that go.mod names.
var suites = []string{"builder", "cache", "client", "cluster", "controller", "envtest", "internal/controller",
	"internal/recorder", "manager", "source", "webhook"}

var some = flag.String("suites", strings.Join(suites, " "), "the suites to run")

// Each test of a suite passes, or exceptions.txt says why not. One that passes has to be taken off that list.
func TestControllerRuntimesOwnSuites(t *testing.T) {
	known := readExceptions(t)
	for _, suite := range strings.Fields(*some) {
		t.Run(suite, func(t *testing.T) {
			report := filepath.Join(t.TempDir(), "report.json")
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=10m", controllerRuntime+suite,
				"-args", "-ginkgo.no-color", "-ginkgo.json-report="+report)
			cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets(t), "USE_EXISTING_CLUSTER=")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			passed, failed := readReport(t, report, out)
			for name, why := range failed {
				if !isKnown(known, suite, name) {
					t.Errorf("%s: %s", name, why)
				}
			}
			for name, reason := range known {
				own, ok := strings.CutPrefix(name, suite+": ")
				if _, fails := failed[own]; ok && !fails && !strings.HasPrefix(reason, "sometimes: ") {
					t.Errorf("%s passes now: take it off exceptions.txt (%s)", own, reason)
				}
			}
			if err != nil && len(failed) == 0 || err == nil && passed == 0 {
				t.Errorf("%s: %v\n%s", cmd, err, out)
			}
			t.Logf("%d passed, %d failed", passed, len(failed))
		})
	}
}

// isKnown reports whether a test is known to fail: by its name, or by the end of it, behind "...".
func isKnown(known map[string]string, suite, name string) bool {
	for k := range known {
		own, ok := strings.CutPrefix(k, suite+": ")
		end, isEnd := strings.CutPrefix(own, "...")
		if ok && (own == name || isEnd && strings.HasSuffix(name, end)) {
			return true
		}
	}
	return false
}

// readExceptions reads the tests that are known to fail: "SUITE: NAME | REASON" in each line. The
// reason of a test that fails at times only begins with "sometimes: ".
func readExceptions(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			name, reason, ok := strings.Cut(line, " | ")
			if !ok || reason == "" {
				t.Fatalf("exceptions.txt: %q has no reason", line)
			}
			known[name] = reason
		}
	}
	return known
}

// readReport returns how many tests have passed, and the messages of the others by their names. What runs before a
// suite is named by its type. output is what was printed, for a suite that made no report.
func readReport(t *testing.T, file string, output []byte) (passed int, failed map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the suite has not run:\n%s", output)
	}
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
			Failure                 struct{ Message string }
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &reports)
	}
	if err != nil {
		t.Fatal(err)
	}
	failed = map[string]string{}
	for _, r := range reports {
		for _, s := range r.SpecReports {
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			switch {
			case s.LeafNodeType != "It":
				name = s.LeafNodeType
			case s.State == "passed":
				passed++
			}
			if s.State != "passed" && s.State != "skipped" && s.State != "pending" {
				failed[name] = s.Failure.Message
			}
		}
	}
	return passed, failed
}
