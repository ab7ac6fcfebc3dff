package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Binaries are the programs of the control plane, built from the versions in go.mod and kwok/go.mod.
type Binaries struct {
	Dir     string // where they are
	Version string // of Kubernetes, such as v1.36.3

	etcd, apiserver, controllerManager, scheduler, kwok string
	kwokStages                                          string // the pod and node life cycles that kwok plays
}

// BuildBinaries returns the control plane's programs from the user's cache directory, building what is missing:
// minutes the first time, then the time of two `go list`. The directory's name holds the versions, so a changed go.mod
// builds anew and nothing stale is ever run. dir is the directory of this package.
func BuildBinaries(ctx context.Context, dir string) (Binaries, error) {
	kube, err := moduleVersion(ctx, dir, "k8s.io/kubernetes")
	if err != nil {
		return Binaries{}, err
	}
	etcd, err := moduleVersion(ctx, dir, "go.etcd.io/etcd/server/v3")
	if err != nil {
		return Binaries{}, err
	}
	kwokDir := filepath.Join(dir, "kwok")
	kwok, err := moduleVersion(ctx, kwokDir, "sigs.k8s.io/kwok")
	if err != nil {
		return Binaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, fmt.Errorf("find the user's cache directory: %w", err)
	}
	out := filepath.Join(cache, "skiff-e2e", strings.Join([]string{"kube-" + kube, "etcd-" + etcd, "kwok-" + kwok,
		runtime.Version()}, "_"))
	b := Binaries{
		Dir: out, Version: kube,
		etcd:              filepath.Join(out, "etcd"),
		apiserver:         filepath.Join(out, "kube-apiserver"),
		controllerManager: filepath.Join(out, "kube-controller-manager"),
		scheduler:         filepath.Join(out, "kube-scheduler"),
		kwok:              filepath.Join(out, "kwok"),
		kwokStages:        filepath.Join(out, "kwok-stages.yaml"),
	}
	unlock, err := lockDir(out)
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	ldflags := kubeLDFlags(kube)
	for _, target := range []struct{ dir, path, pkg, ldflags string }{
		{dir, b.etcd, "go.etcd.io/etcd/server/v3", "-s -w"},
		{dir, b.apiserver, "k8s.io/kubernetes/cmd/kube-apiserver", ldflags},
		{dir, b.controllerManager, "k8s.io/kubernetes/cmd/kube-controller-manager", ldflags},
		{dir, b.scheduler, "k8s.io/kubernetes/cmd/kube-scheduler", ldflags},
		{kwokDir, b.kwok, "sigs.k8s.io/kwok/cmd/kwok", ""},
	} {
		if err := buildOnce(ctx, target.dir, target.path, target.pkg, target.ldflags); err != nil {
			return Binaries{}, err
		}
	}
	return b, writeKwokStages(ctx, kwokDir, b.kwokStages)
}

// kubectl returns the path of the machine's kubectl or, where there is none, of one built from go.mod.
func (b Binaries) kubectl(ctx context.Context, dir string) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	unlock, err := lockDir(b.Dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(b.Dir, "kubectl")
	return path, buildOnce(ctx, dir, path, "k8s.io/kubernetes/cmd/kubectl", kubeLDFlags(b.Version))
}

// kubernetesSuite returns the paths of Kubernetes' own e2e suite and of what runs it in several processes, which it
// builds like the programs of the control plane.
func (b Binaries) kubernetesSuite(ctx context.Context, dir string) (ginkgo, suite string, err error) {
	unlock, err := lockDir(b.Dir)
	if err != nil {
		return "", "", err
	}
	defer unlock()
	ginkgo, suite = filepath.Join(b.Dir, "ginkgo"), filepath.Join(b.Dir, "e2e.test")
	if err := buildOnce(ctx, dir, ginkgo, "github.com/onsi/ginkgo/v2/ginkgo", ""); err != nil {
		return "", "", err
	}
	return ginkgo, suite, buildOnce(ctx, dir, suite, "k8s.io/kubernetes/test/e2e", kubeLDFlags(b.Version))
}

// kubeLDFlags stamps the version into a Kubernetes program: without it kubectl cannot parse the server's version.
// The flags leave out -trimpath so that Go's build cache is shared with other builds of the same programs.
func kubeLDFlags(version string) string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return fmt.Sprintf("-s -w -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s", pkg, version, pkg, parts[0], pkg,
		parts[1])
}

// buildOnce builds pkg, or its tests for a path that ends in .test, to path if path is not there yet. The rename at
// the end makes a half-written program impossible.
func buildOnce(ctx context.Context, dir, path, pkg, ldflags string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "e2e: building %s (once per version)\n", pkg)
	args := []string{"build", "-o", path + ".new"}
	if filepath.Ext(path) == ".test" {
		args = []string{"test", "-c", "-vet=off", "-o", path + ".new"}
	}
	if ldflags != "" {
		args = append(args, "-ldflags", ldflags)
	}
	if _, err := goTool(ctx, dir, nil, append(args, pkg)...); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("install %s: %w", pkg, err)
	}
	return nil
}

// writeKwokStages joins kwok's own "fast" stages into one configuration file: pods become Running and Ready at once,
// deleted pods go away, nodes become Ready and keep their heartbeat.
func writeKwokStages(ctx context.Context, kwokDir, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	module, err := goTool(ctx, kwokDir, nil, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, stage := range []string{"pod/fast", "node/fast", "node/heartbeat"} {
		files, err := filepath.Glob(filepath.Join(module, "kustomize", "stage", stage, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("find kwok's stages %s in %s: %d files, error %v", stage, module, len(files), err)
		}
		for _, file := range files {
			if strings.HasPrefix(filepath.Base(file), "kustomization") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read kwok stage: %w", err)
			}
			all.WriteString("---\n")
			all.Write(text)
		}
	}
	return os.WriteFile(path, all.Bytes(), 0o644)
}

// moduleVersion is the version of module as selected by the go.mod in dir.
func moduleVersion(ctx context.Context, dir, module string) (string, error) {
	return goTool(ctx, dir, nil, "list", "-m", "-f", "{{.Version}}", module)
}

// goTool runs the go command in dir, with env added, and returns its trimmed output; what it printed to stderr is in
// the error.
func goTool(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// lockDir creates dir and holds an exclusive lock on it, so that two suites that start together build once.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the cache directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the cache lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}
