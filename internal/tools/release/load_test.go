package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// newStore makes an empty content store, as that of a containerd.
func newStore(t *testing.T) content.Store {
	t.Helper()
	// It warns of file systems without fs-verity.
	if err := log.SetLevel("error"); err != nil {
		t.Fatal(err)
	}
	store, err := local.NewStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// imported has containerd import an archive into a store of its own, as `ctr images import`, `kind load image-archive`
// and a Docker with containerd's image store do, and returns the images by name.
func imported(t *testing.T, store content.Store, file string) map[string]ocispec.Descriptor {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	index, err := archive.ImportIndex(t.Context(), store, f)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := images.Children(t.Context(), store, index)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]ocispec.Descriptor{}
	for _, d := range entries {
		out[d.Annotations[images.AnnotationImageName]] = d
	}
	return out
}

// runnable checks that a store has all that a node of a platform needs of an image, and that the image is for it.
func runnable(t *testing.T, store content.Store, image ocispec.Descriptor, platform string) {
	t.Helper()
	ctx, node := t.Context(), platforms.Only(platforms.MustParse(platform))
	available, required, _, missing, err := images.Check(ctx, store, image, node)
	if err != nil || !available || len(required) < 2 || len(missing) > 0 {
		t.Errorf("%s: %d blobs needed, missing %v, %v", platform, len(required), missing, err)
	}
	config, err := images.Config(ctx, store, image, node)
	if err != nil {
		t.Fatal(err)
	}
	is, err := images.ConfigPlatform(ctx, store, config)
	if err != nil || platforms.Format(is) != platform {
		t.Errorf("%s: a node gets an image for %s, %v", platform, platforms.Format(is), err)
	}
	if layers, err := images.RootFS(ctx, store, config); err != nil || len(layers) != 1 {
		t.Errorf("%s: layers %v, %v", platform, layers, err)
	}
}

func TestContainerdImportsTheArchiveForEachPlatform(t *testing.T) { eachImage(t, isImported) }

func isImported(t *testing.T, r release, p program) {
	store := newStore(t)
	all := imported(t, store, r.imageFile(p))
	if len(all) != 1 {
		t.Fatalf("images %v", all)
	}
	for name, image := range all {
		if !strings.HasPrefix(name, "docker.io/library/"+p.name+":") {
			t.Errorf("`kubectl run --image %s:TAG` does not find %q", p.name, name)
		}
		for _, platform := range platformsOf(t, r) {
			runnable(t, store, image, ofNode(platform))
		}
	}
}

// Docker without containerd's image store goes by manifest.json, and so does containerd where there is no OCI layout.
func TestWhatKnowsNoOCILayoutLoadsTheArchiveByItsManifest(t *testing.T) { eachImage(t, isLoaded) }

func isLoaded(t *testing.T, r release, p program) {
	file := r.imageFile(p)
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved.tar")
	without(t, file, saved, "oci-layout", "index.json")
	store := newStore(t)
	all := imported(t, store, saved)
	for i, m := range manifest {
		for _, text := range m.RepoTags {
			tag, err := name.NewTag(text)
			if err != nil {
				t.Fatal(err)
			}
			image, err := tarball.ImageFromPath(file, &tag)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Image(image); err != nil {
				t.Errorf("%s: %v", tag, err)
			}
			runnable(t, store, all["docker.io/library/"+text], ofNode(platformsOf(t, r)[i]))
		}
	}
}

// ofNode returns a platform as a node says it.
func ofNode(p v1.Platform) string {
	return platforms.Format(platforms.Normalize(platforms.MustParse(p.String())))
}

// without copies an archive without some files.
func without(t *testing.T, from, to string, names ...string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := tar.NewWriter(out)
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names, h.Name) {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
