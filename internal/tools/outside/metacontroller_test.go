package outside

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Metacontroller's own examples pass with skiff in its place: each test.sh of the checkout that METACONTROLLER_SOURCE
// names. The e2e suite runs them on a real control plane.
func TestMetacontrollersOwnExamples(t *testing.T) {
	checkout := os.Getenv("METACONTROLLER_SOURCE")
	if checkout == "" {
		t.Skip("METACONTROLLER_SOURCE names no checkout of metacontroller")
	}
	need(t, "bash", "kubectl", "python3", "node", "jq", "openssl")
	known := readExceptions(t)
	tests, err := filepath.Glob(filepath.Join(checkout, "examples", "*", "test.sh"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("%s has no examples: %v", checkout, err)
	}
	skiff := buildSkiff(t)
	for _, test := range tests {
		example := filepath.Base(filepath.Dir(test))
		t.Run(example, func(t *testing.T) {
			if why := known["metacontroller: "+example]; why != "" {
				t.Skip(why)
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(assets(t), "..", "skiff-dev"), "--", "bash",
				filepath.Join("metacontroller", "run.sh"), checkout, example)
			cmd.Env = append(os.Environ(), "SKIFF="+skiff)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// buildSkiff builds skiff and returns where it is.
func buildSkiff(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(t.TempDir(), "skiff"))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/skiff")
	build.Dir = repository
	out, errBuild := build.CombinedOutput()
	if err := errors.Join(err, errBuild); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return program
}
