package outside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// repository is the root of skiff's module, seen from this package.
var repository = filepath.Join("..", "..", "..")

var directory string // for the binary and its links

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "skiff-outside-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		os.Exit(1)
	}
	directory = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		code = 1
	}
	os.Exit(code)
}

var buildAssets = sync.OnceValue(func() error {
	program := filepath.Join(directory, "skiff-dev")
	build := exec.Command("go", "build", "-o", program, "./cmd/skiff-dev")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	links := exec.Command(program, "assets", filepath.Join(directory, "assets"))
	if out, err := links.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", links, err, out)
	}
	return nil
})

// assets builds skiff-dev and returns the directory that `skiff-dev assets` has written.
func assets(t *testing.T) string {
	t.Helper()
	if err := buildAssets(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(directory, "assets")
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("not within 30 seconds: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func newReview() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }
