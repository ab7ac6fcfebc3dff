package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// What `make dist` and `make image` have made, or else what is made here of binaries for this machine, under the name
// of each platform.
var (
	distFlag      = flag.String("dist", "", "test the files in this directory")
	platformsFlag = flag.String("platforms", "", "platforms of these files, separated by spaces")
)

var repository = filepath.Join("..", "..", "..")

// madeIn is the directory of what the tests make, once for all of them.
var madeIn string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "skiff-release-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	madeIn = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		code = 1
	}
	os.Exit(code)
}

// makeOnce makes the images of the programs that `go build` makes for this machine. Its skiff-dev has no CEL: to build
// one that has takes minutes.
var makeOnce = sync.OnceValues(func() (release, error) {
	r := release{dir: madeIn, root: repository, version: "v1+test", commit: "c0ffee", time: time.Unix(1e9, 0)}
	for _, b := range builds {
		r.platforms = append(r.platforms, b.name)
	}
	for _, p := range programs {
		first := r.binary(p, r.platforms[0])
		build := exec.Command("go", "build", "-trimpath", "-o", first, "./cmd/"+p.name)
		build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		if out, err := build.CombinedOutput(); err != nil {
			return r, fmt.Errorf("%s: %w\n%s", build, err, out)
		}
		for _, platform := range r.platforms[1:] {
			if err := os.Link(first, r.binary(p, platform)); err != nil {
				return r, err
			}
		}
	}
	return r, each(r.writeImage)
})

func made(t *testing.T) release {
	t.Helper()
	r, err := makeOnce()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tested returns the release to test.
func tested(t *testing.T) release {
	t.Helper()
	if *distFlag != "" {
		return release{dir: *distFlag, root: repository, platforms: strings.Fields(*platformsFlag)}
	}
	return made(t)
}

// eachImage runs a test for the image of each program.
func eachImage(t *testing.T, test func(t *testing.T, r release, p program)) {
	r := tested(t)
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) { test(t, r, p) })
	}
}

// platformsOf returns the platforms that an image of a release has.
func platformsOf(t *testing.T, r release) []v1.Platform {
	t.Helper()
	chosen, err := r.imageBuilds()
	if err != nil {
		t.Fatal(err)
	}
	var out []v1.Platform
	for _, b := range chosen {
		out = append(out, b.platform)
	}
	return out
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
		if h.Typeflag == tar.TypeDir {
			if err := errors.Join(os.Mkdir(file, 0o755), os.Chmod(file, h.FileInfo().Mode())); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := io.ReadAll(tr)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, h.FileInfo().Mode()))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// imagesOf returns the images of a program, read as an OCI layout, by platform.
func imagesOf(t *testing.T, r release, p program) map[string]v1.Image {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(r.imageFile(p))
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
	if !strings.HasPrefix(name, "docker.io/library/"+p.name+":") {
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

func TestTheArchiveIsAnOCILayoutAndWhatDockerSaves(t *testing.T) { eachImage(t, isLayoutAndSaved) }

func isLayoutAndSaved(t *testing.T, r release, p program) {
	file := r.imageFile(p)
	all, platforms := imagesOf(t, r, p), platformsOf(t, r)
	if len(all) != len(platforms) {
		t.Errorf("there are %d images, want %d", len(all), len(platforms))
	}
	for _, want := range platforms {
		platform := want.String()
		if all[platform] == nil {
			t.Fatalf("there is no image for %s", platform)
		}
		config, err := all[platform].ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != imageUser || !slices.Equal(c.Entrypoint, []string{"/" + p.name}) ||
			c.Labels["org.opencontainers.image.version"] == "" || config.Platform().String() != platform {
			t.Errorf("%s: configuration %+v", platform, config)
		}
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil || len(manifest) != len(platforms) || len(manifest[0].RepoTags) != 2 {
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
	for _, p := range programs {
		one, err := os.ReadFile(r.imageFile(p))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.writeImage(p); err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(r.imageFile(p))
		if err != nil || !bytes.Equal(one, other) {
			t.Errorf("two archives of the same files differ: %v", err)
		}
	}
}

func TestAnImageNeedsAPlatformThatHasContainers(t *testing.T) {
	r := release{dir: t.TempDir(), platforms: []string{"darwin-arm64", "windows-amd64.exe"}}
	if err := r.writeImage(programs[0]); err == nil || !strings.Contains(err.Error(), "-platforms darwin-arm64") {
		t.Errorf("error %v", err)
	}
}

// inImage makes a command that runs the program of an image in the file system of that, as its user. Without the right
// to change the root and the user it runs in an empty directory.
func inImage(t *testing.T, p program, root string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/"+p.name, args...)
	cmd.Env = append([]string{}, env...) // no HOME, no PATH but for those of the image
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
			Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	t.Logf("not root: %s runs in an empty directory, without chroot and as this user", p.name)
	cmd.Path, cmd.Dir = filepath.Join(root, p.name), t.TempDir()
	return cmd
}

// thisMachine is the platform of images for this machine.
func thisMachine() (b build, ok bool) {
	i := slices.IndexFunc(builds, func(b build) bool {
		return b.platform.OS == runtime.GOOS && b.platform.Architecture == runtime.GOARCH
	})
	if i < 0 {
		return build{}, false
	}
	return builds[i], true
}

// rootOf unpacks the image of a program for this machine, and returns its root and its environment.
func rootOf(t *testing.T, r release, p program) (root string, env []string) {
	t.Helper()
	b, ok := thisMachine()
	img := imagesOf(t, r, p)[b.platform.String()]
	if !ok || img == nil {
		t.Skipf("there is no image for %s/%s, so none can run here", runtime.GOOS, runtime.GOARCH)
	}
	root = t.TempDir()
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
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return root, config.Config.Env
}

// What is in the image runs with nothing else, as its user, and works against a server.
func TestTheImageOfSkiffRunsAsAUserOfNoNameInAnEmptyRoot(t *testing.T) {
	r, p := tested(t), programs[0]
	root, env := rootOf(t, r, p)
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v: want the program and two files with licenses", entries, err)
	}
	defer startDev(t, r, filepath.Join(root, "kubeconfig"))()
	out, err := inImage(t, p, root, env, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "skiff ") {
		t.Fatalf("skiff version: %v: %s", err, out)
	}
	kubeconfig := "/kubeconfig"
	if os.Geteuid() != 0 {
		kubeconfig = filepath.Join(root, kubeconfig)
	}
	run := inImage(t, p, root, env, "run", "--kubeconfig", kubeconfig, "--leader-elect",
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

// The tour needs all of it: a directory for its kubeconfig, a port, the server, the simulation and the controllers.
func TestTheImageOfSkiffDevRunsAsAUserOfNoNameInAnEmptyRoot(t *testing.T) {
	r, p := tested(t), programs[1]
	root, env := rootOf(t, r, p)
	out, err := inImage(t, p, root, env, "demo").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "steps passed in") {
		t.Errorf("skiff-dev demo: %v: %s", err, out)
	}
	dev := inImage(t, p, root, env, "--bare")
	stdout, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, stdout, "export KUBECONFIG='/tmp/")
	if err := dev.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout) // to its end
	if err := dev.Wait(); err != nil {
		t.Errorf("skiff-dev: %v", err)
	}
}

// What is released evaluates CEL; what the tests build here does not.
func TestTheReleasedSkiffDevEvaluatesCEL(t *testing.T) {
	if *distFlag == "" {
		t.Skip("`make dist` has not made it")
	}
	for _, platform := range tested(t).platforms {
		info, err := buildinfo.ReadFile(tested(t).binary(programs[1], platform))
		if err != nil {
			t.Fatal(err)
		}
		isCEL := func(m *debug.Module) bool { return m.Path == "github.com/google/cel-go" }
		if !slices.ContainsFunc(info.Deps, isCEL) {
			t.Errorf("skiff-dev for %s has no CEL", platform)
		}
	}
}

// startDev runs skiff-dev and returns when its kubeconfig is there, readable for the user of the image.
func startDev(t *testing.T, r release, kubeconfig string) (stop func()) {
	t.Helper()
	b, _ := thisMachine()
	dev := exec.CommandContext(t.Context(), r.binary(programs[1], b.name), "--controllers", "none", "--kubeconfig-out",
		kubeconfig)
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
	r, p := made(t), programs[0]
	if err := r.writeBOM(p); err != nil {
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
