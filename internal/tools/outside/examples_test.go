package outside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fence is a block of code of a document, with its language.
var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// blocks returns the blocks of one language in examples/testing/README.md.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "examples", "testing", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	if len(out) == 0 {
		t.Fatalf("there is no example for %s", language)
	}
	return out
}

// try runs a command in a directory and returns what it printed.
func try(t *testing.T, dir string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBEBUILDER_ASSETS="+assets(t), "USE_EXISTING_CLUSTER=")
	return cmd.CombinedOutput()
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := try(t, dir, args...); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// write writes an example into a new directory and returns both.
func write(t *testing.T, name, text string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s on this machine", tool)
		}
	}
}

// skiffDev are the first arguments of a command that runs another one on a new server.
func skiffDev(t *testing.T, more ...string) []string {
	return append([]string{filepath.Join(assets(t), "..", "skiff-dev"), "--bare"}, more...)
}

func TestTheExamplesRun(t *testing.T) {
	t.Run("go", func(t *testing.T) {
		_, file := write(t, "example_test.go", blocks(t, "go")[0])
		run(t, ".", "go", "test", "-count=1", file)
	})
	t.Run("sh", func(t *testing.T) {
		need(t, "sh", "kubectl")
		dir, file := write(t, "test.sh", blocks(t, "sh")[0])
		run(t, dir, skiffDev(t, "--", "sh", file)...)
	})
	t.Run("node", func(t *testing.T) {
		need(t, "node", "npm")
		dir, file := write(t, "test.mjs", blocks(t, "js")[0])
		const release = "@kubernetes/client-node@1.3.0" // later ones need Node 22
		if out, err := try(t, dir, "npm", "install", "--no-audit", "--no-fund", release); err != nil {
			t.Skipf("its client cannot be installed: %v\n%s", err, out)
		}
		run(t, dir, skiffDev(t, "--", "node", file)...)
	})
	t.Run("python", func(t *testing.T) {
		need(t, "python3")
		dir, file := write(t, "test.py", blocks(t, "python")[0])
		python := filepath.Join(dir, "venv", "bin", "python")
		if out, err := try(t, dir, "python3", "-m", "venv", "venv"); err != nil {
			t.Skipf("there is no venv: %v\n%s", err, out)
		}
		if out, err := try(t, dir, python, "-m", "pip", "install", "-q", "--retries", "0", "kubernetes"); err != nil {
			t.Skipf("its client cannot be installed: %v\n%s", err, out)
		}
		run(t, dir, skiffDev(t, "--", python, file)...)
	})
}

func TestTheFaultsOfTheExamplesAreTaken(t *testing.T) {
	for i, text := range blocks(t, "json") {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir, file := write(t, "faults.json", text) // one fault is of the second server
			run(t, dir, skiffDev(t, "--replicas", "2", "--faults", file, "--", "true")...)
		})
	}
}
