package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The archive of `make image`, or else one that is made of this machine's binary, under the name of each platform.
var archiveFlag = flag.String("archive", "", "test this archive")

var repository = filepath.Join("..", "..")

// made returns a directory with an image of the binary that `go build` makes for this machine.
func made(t *testing.T) release {
	t.Helper()
	r := release{dir: t.TempDir(), root: repository, version: "v1+test", commit: "c0ffee", time: time.Unix(1e9, 0)}
	binary := filepath.Join(r.dir, builds[0].file)
	goBuild(t, binary, "./cmd/skiff")
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range builds[1:] {
		if err := os.WriteFile(filepath.Join(r.dir, p.file), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writeImage(); err != nil {
		t.Fatal(err)
	}
	return r
}

// goBuild builds a program for the processor of this machine.
func goBuild(t *testing.T, binary, program string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, program)
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// archivePath returns the path of the archive to test.
func archivePath(t *testing.T) string {
	t.Helper()
	if *archiveFlag != "" {
		return *archiveFlag
	}
	return filepath.Join(made(t).dir, imageFile)
}

// unpack writes the files of an archive below a directory.
func unpack(t *testing.T, r io.Reader, dir string) {
	t.Helper()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, h.Name)
		data, err := io.ReadAll(tr)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, h.FileInfo().Mode()))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// imagesOf returns the images of an archive, read as an OCI layout, by platform.
func imagesOf(t *testing.T, file string) map[string]v1.Image {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpack(t, f, dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Fatal(err)
	}
	entries, err := top.IndexManifest()
	if err != nil || len(entries.Manifests) != 1 {
		t.Fatalf("%d entries, %v; want one index, which kind and ctr give a name", len(entries.Manifests), err)
	}
	name := entries.Manifests[0].Annotations["io.containerd.image.name"]
	if !strings.HasPrefix(name, "docker.io/library/skiff:") {
		t.Errorf("containerd gets the name %q", name)
	}
	index, err := top.ImageIndex(entries.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1.Image{}
	for _, d := range m.Manifests {
		if out[d.Platform.String()], err = index.Image(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestTheArchiveIsAnOCILayoutAndWhatDockerSaves(t *testing.T) {
	file := archivePath(t)
	all := imagesOf(t, file)
	for _, platform := range []string{"linux/amd64", "linux/arm64/v8", "linux/arm/v7"} {
		if all[platform] == nil {
			t.Fatalf("there is no image for %s", platform)
		}
		config, err := all[platform].ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != nobody || !slices.Equal(c.Entrypoint, []string{"/skiff"}) ||
			c.Labels["org.opencontainers.image.version"] == "" || config.Platform().String() != platform {
			t.Errorf("%s: configuration %+v", platform, config)
		}
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil || len(manifest) != len(builds) || len(manifest[0].RepoTags) != 2 {
		t.Errorf("manifest.json: %+v, %v", manifest, err)
	}
	for _, m := range manifest {
		if err := loadable(file, m); err != nil {
			t.Errorf("%v: %v", m.RepoTags, err)
		}
	}
}

// loadable checks that the files that an entry of manifest.json names are those that their names promise.
func loadable(file string, m tarball.Descriptor) error {
	for _, name := range append([]string{m.Config}, m.Layers...) {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		found := false
		for tr := tar.NewReader(f); !found; {
			h, err := tr.Next()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if found = h.Name == name; found {
				sum := sha256.New()
				if _, err := io.Copy(sum, tr); err != nil {
					return err
				}
				if want := fmt.Sprintf("%x", sum.Sum(nil)); filepath.Base(name) != want {
					return fmt.Errorf("%s has the checksum %s", name, want)
				}
			}
		}
	}
	return nil
}

func TestTheSameBinariesMakeTheSameImage(t *testing.T) {
	r := made(t)
	one, err := os.ReadFile(filepath.Join(r.dir, imageFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.writeImage(); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(r.dir, imageFile))
	if err != nil || !bytes.Equal(one, other) {
		t.Errorf("two archives of the same files differ: %v", err)
	}
}

// inImage makes a command that runs in the file system of the image, as its user. Without the right to change the root
// and the user it runs in an empty directory.
func inImage(t *testing.T, root string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/skiff", args...)
	cmd.Env = []string{} // no HOME, no PATH
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
			Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	t.Log("not root: skiff runs in an empty directory, without chroot and as this user")
	cmd.Path, cmd.Dir = filepath.Join(root, "skiff"), t.TempDir()
	return cmd
}

// What is in the image runs with nothing else, as its user, and works against a server.
func TestTheImageRunsAsNobodyInAnEmptyRoot(t *testing.T) {
	arch := map[string]string{"arm64": "arm64/v8", "amd64": "amd64"}[runtime.GOARCH]
	img := imagesOf(t, archivePath(t))["linux/"+arch]
	if img == nil {
		t.Fatalf("there is no image for %s/%s; test on linux/amd64 or linux/arm64", runtime.GOOS, runtime.GOARCH)
	}
	root := t.TempDir()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		files, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, files, root)
	}
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Directories of tests are closed to others; a container's root is not.
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	server := startDev(t, filepath.Join(root, "kubeconfig"))
	defer server()
	out, err := inImage(t, root, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "skiff ") {
		t.Fatalf("skiff version: %v: %s", err, out)
	}
	kubeconfig := "/kubeconfig"
	if os.Geteuid() != 0 {
		kubeconfig = filepath.Join(root, kubeconfig)
	}
	run := inImage(t, root, "run", "--kubeconfig", kubeconfig, "--leader-elect",
		"--leader-election-namespace", "default", "--log-format=json", "--health-probe-bind-address=127.0.0.1:0")
	log, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	seen := waitFor(t, log, `"msg":"started","controller":"webserver"`)
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, log) // to its end
	if err := run.Wait(); err != nil {
		t.Errorf("skiff run: %v\n%s", err, seen)
	}
}

// startDev runs skiff-dev and returns when its kubeconfig is there, readable for the user of the image.
func startDev(t *testing.T, kubeconfig string) (stop func()) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "skiff-dev")
	goBuild(t, binary, "./cmd/skiff-dev")
	dev := exec.CommandContext(t.Context(), binary, "--controllers", "none", "--kubeconfig-out", kubeconfig)
	dev.Env = []string{"HOME=" + t.TempDir()}
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	dev.Stderr = dev.Stdout
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, "export KUBECONFIG=")
	go func() { _, _ = io.Copy(io.Discard, out) }() // it ends with the process
	if err := os.Chmod(kubeconfig, 0o644); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(dev.Process.Signal(syscall.SIGTERM), dev.Wait()); err != nil {
			t.Errorf("skiff-dev: %v", err)
		}
	}
}

// waitFor reads until a line has the text, and returns what came before it.
func waitFor(t *testing.T, r io.Reader, text string) (seen string) {
	t.Helper()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if seen += lines.Text() + "\n"; strings.Contains(lines.Text(), text) {
			return seen
		}
	}
	t.Fatalf("the output ended without %q:\n%s", text, seen)
	return ""
}

func TestTheBillOfMaterialsHasTheModulesOfTheBinaries(t *testing.T) {
	r := made(t)
	if err := r.writeBOM(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "skiff.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ PURL, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil || bom.BOMFormat != "CycloneDX" ||
		bom.Metadata.Component.Version != r.version {
		t.Fatalf("%v: %s", err, text)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{with .Module}}{{.Path}}@{{.Version}}{{end}}", "./cmd/skiff")
	list.Dir, list.Env = repository, append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")}
	for _, m := range strings.Fields(string(out)) {
		if m != "skiff@" && !slices.Contains(want, "pkg:golang/"+m) {
			want = append(want, "pkg:golang/"+m)
		}
	}
	var have []string
	for _, c := range bom.Components {
		have = append(have, c.PURL)
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("it has\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestChecksumsAreOfAllFiles(t *testing.T) {
	r := release{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(r.dir, "a"), []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the file of checksums is there
		if err := r.writeSums(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(r.dir, sumsFile))
	const want = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7  a\n"
	if err != nil || string(text) != want {
		t.Errorf("%v: %q", err, text)
	}
}
