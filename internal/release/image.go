package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	imageFile = "skiff-image.tar"
	// nobody is the user of the image: a number, so that runAsNonRoot can be checked without a file of users.
	nobody = "65532:65532"
)

// builds are the platforms of the image, with the name of the binary of each. The first one is what an old Docker,
// which knows one architecture only, gets under the plain tag.
var builds = []struct {
	file     string
	platform v1.Platform
}{
	{"skiff-linux-amd64", v1.Platform{OS: "linux", Architecture: "amd64"}},
	{"skiff-linux-arm64", v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}},
	{"skiff-linux-armv7", v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}},
}

// tagOf makes a tag of a version: "v1.2-3-gabc+dirty" has a character that a tag may not have.
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
func (r release) writeImage() error {
	index := mutate.IndexMediaType(v1.ImageIndex(empty.Index), types.OCIImageIndex)
	var saved []savedImage
	for n, p := range builds {
		img, err := r.image(p.file, p.platform)
		if err != nil {
			return fmt.Errorf("make the image for %s: %w", p.platform, err)
		}
		platform := p.platform
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
		tags := []string{"skiff:" + r.tag() + strings.TrimPrefix(p.file, "skiff-linux")}
		if n == 0 {
			tags = append(tags, "skiff:"+r.tag())
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
		"io.containerd.image.name":          "docker.io/library/skiff:" + r.tag(),
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
	return r.archive(dir, filepath.Join(r.dir, imageFile))
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

// image is an empty file system with the binary and the licenses.
func (r release) image(file string, platform v1.Platform) (v1.Image, error) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, f := range []struct {
		name, from string
		mode       int64
	}{
		{"skiff", filepath.Join(r.dir, file), 0o755},
		{"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644},
		{"THIRD_PARTY_LICENSES", filepath.Join(r.root, "cmd/skiff/THIRD_PARTY_LICENSES"), 0o644},
	} {
		if err := r.add(w, f.name, f.from, f.mode); err != nil {
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
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: r.time}
	config.Config = v1.Config{User: nobody, Entrypoint: []string{"/skiff"}, WorkingDir: "/", Labels: r.labels()}
	return mutate.ConfigFile(img, config)
}

func (r release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "skiff",
		"org.opencontainers.image.description": "Kubernetes controllers over plain HTTP",
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
