package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// imageUser is the user of the image: a number, so that runAsNonRoot can be checked without a file of users.
	imageUser = "65532:65532"
)

// build is a platform of an image, with its name in -platforms.
type build struct {
	name     string
	platform v1.Platform
}

// builds are the platforms that an image may have. The first one of an image is what an old Docker, which knows one
// architecture only, gets under the plain tag.
var builds = []build{
	{"linux-amd64", v1.Platform{OS: "linux", Architecture: "amd64"}},
	{"linux-arm64", v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}},
	{"linux-armv7", v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}},
}

// imageBuilds returns the platforms of the images of a release.
func (r release) imageBuilds() ([]build, error) {
	chosen := slices.DeleteFunc(slices.Clone(builds), func(b build) bool {
		return !slices.Contains(r.platforms, b.name)
	})
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-platforms %s: an image needs linux-amd64, linux-arm64 or linux-armv7",
			strings.Join(r.platforms, " "))
	}
	return chosen, nil
}

// imageFile returns the path of the image of a program.
func (r release) imageFile(p program) string { return filepath.Join(r.dir, p.name+"-image.tar") }

// tag makes a tag of the version: "v1.2-3-gabc+dirty" has a character that a tag may not have.
func (r release) tag() string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.', c == '-', c == '_':
			return c
		}
		return '_'
	}, r.version)
}

// writeImage writes an archive that is both an OCI layout, for ctr and kind and the Docker of today, and what `docker
// save` wrote before.
func (r release) writeImage(p program) error {
	chosen, err := r.imageBuilds()
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(v1.ImageIndex(empty.Index), types.OCIImageIndex)
	var saved []savedImage
	for n, b := range chosen {
		img, err := r.image(p, b)
		if err != nil {
			return fmt.Errorf("make the image for %s: %w", b.platform, err)
		}
		platform := b.platform
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
		tags := []string{p.name + ":" + r.tag() + strings.TrimPrefix(b.name, "linux")}
		if n == 0 {
			tags = append(tags, p.name+":"+r.tag())
		}
		one, err := save(img, tags)
		if err != nil {
			return err
		}
		saved = append(saved, one)
	}
	dir, err := os.MkdirTemp("", "skiff-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          "docker.io/library/" + p.name + ":" + r.tag(),
		"org.opencontainers.image.ref.name": r.tag(),
	})); err != nil {
		return err
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644); err != nil {
		return err
	}
	return r.archive(dir, r.imageFile(p))
}

// savedImage is an entry of the manifest.json that `docker save` writes.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func save(img v1.Image, tags []string) (savedImage, error) {
	m, err := img.Manifest()
	if err != nil {
		return savedImage{}, err
	}
	out := savedImage{Config: blob(m.Config.Digest), RepoTags: tags}
	for _, l := range m.Layers {
		out.Layers = append(out.Layers, blob(l.Digest))
	}
	return out, nil
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// image is an empty file system with the binary and the licenses, and with a /tmp for a program that needs one.
func (r release) image(p program, b build) (v1.Image, error) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, f := range []struct {
		name, from string
		mode       int64
	}{
		{p.name, r.binary(p, b.name), 0o755},
		{"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644},
		{"THIRD_PARTY_LICENSES", filepath.Join(r.root, p.licenses), 0o644},
	} {
		if err := r.add(w, f.name, f.from, f.mode); err != nil {
			return nil, err
		}
	}
	if p.temporary {
		if err := w.WriteHeader(&tar.Header{Name: "tmp/", Mode: 0o1777, ModTime: r.time, Typeflag: tar.TypeDir,
			Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make image"}}); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = b.platform.OS, b.platform.Architecture, b.platform.Variant
	config.Created = v1.Time{Time: r.time}
	config.Config = v1.Config{User: imageUser, Entrypoint: []string{"/" + p.name}, WorkingDir: "/",
		Labels: r.labels(p)}
	if p.temporary {
		config.Config.Env = []string{"HOME=/tmp"}
	}
	return mutate.ConfigFile(img, config)
}

func (r release) labels(p program) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       p.name,
		"org.opencontainers.image.description": p.description,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
	}
}

// add adds a file to an archive.
func (r release) add(w *tar.Writer, name, from string, mode int64) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: r.time,
		Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// archive writes all files below dir into an archive, in the order of their names.
func (r release) archive(dir, to string) error {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		return r.add(w, filepath.ToSlash(name), file, 0o644)
	}); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}
