package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
)

// maxManifest bounds a file of --crds and --load. The largest CRDs are around 1 MB.
const maxManifest = 64 << 20

// manifest is an object of a file of --crds or --load.
type manifest struct {
	file   string
	object map[string]any
	node   *yaml.Node // with the lines of its fields; nil: they are not known
}

// place is where it was read.
func (m manifest) place() cli.Place { return cli.Place{File: m.file, Node: m.node} }

// String names the manifest in errors.
func (m manifest) String() string {
	name, _ := field(m.object, "metadata name").(string)
	return fmt.Sprintf("%s: %v %s", m.file, m.object["kind"], name)
}

// isCRD reports whether the object is a custom resource definition.
func (m manifest) isCRD() bool { return m.object["kind"] == "CustomResourceDefinition" }

// readManifests reads the YAML and JSON files that a flag names, each a file or a directory with at least one object.
func readManifests(flag string, paths []string) ([]manifest, error) {
	var out []manifest
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		before := len(out)
		for _, file := range files {
			objects, err := readManifest(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", flag, err)
			}
			out = append(out, objects...)
		}
		if len(out) == before {
			return nil, fmt.Errorf("%s: %s: there is no object in it", flag, path)
		}
	}
	return out, nil
}

// readCRDs reads the files of --crds. Those of a directory may have other objects, too, which are left out.
func readCRDs(paths []string) ([]manifest, error) {
	var out []manifest
	for _, path := range paths {
		all, err := readManifests("--crds", []string{path})
		if err != nil {
			return nil, err
		}
		before := len(out)
		for _, m := range all {
			switch {
			case m.isCRD():
				out = append(out, m)
			case m.file == path: // which is no directory
				return nil, fmt.Errorf("--crds: %s is not a custom resource definition: pass it with --load", m)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("--crds: %s: there is no custom resource definition in it", path)
		}
	}
	return out, nil
}

// manifestFiles returns the files of a directory in the order of their names, without those of its subdirectories, as
// `kubectl apply -f` does.
func manifestFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if files == nil {
		return nil, fmt.Errorf("%s: the directory has no .yaml, .yml or .json file", path)
	}
	return files, nil
}

func readManifest(file string) ([]manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%s: larger than %d MB", file, maxManifest>>20)
	}
	return parseManifests(file, text)
}

// parseManifests reads the documents of a YAML or JSON text. file names it in errors.
func parseManifests(file string, text []byte) ([]manifest, error) {
	var out []manifest
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, notYAML(file, err)
		}
		timestampsAreStrings(&doc)
		if root := doc.Content[0]; root.Kind != yaml.MappingNode && root.ShortTag() != "!!null" {
			return nil, noObject(file, root)
		}
		var object map[string]any
		if err := doc.Decode(&object); err != nil {
			return nil, notYAML(file, err)
		}
		found, err := flatten(file, object, doc.Content[0])
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
}

// maxYAMLError is how much of an error of the YAML parser is shown.
const maxYAMLError = 300

// notYAML says where a file is not what it should be.
func notYAML(file string, err error) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		_, text, _ = strings.Cut(text, ": ")
		return fmt.Errorf("%s:%d: is not YAML: %s", file, line, kube.Printable(text, maxYAMLError))
	}
	return fmt.Errorf("%s: is not YAML: %s", file, kube.Printable(text, maxYAMLError))
}

// noObject says where a file has something else than an object.
func noObject(file string, n *yaml.Node) error {
	place := cli.Place{File: file, Node: n}.At("")
	return fmt.Errorf("%s: is no Kubernetes object: want apiVersion, kind and metadata", place)
}

// timestampsAreStrings keeps a date without quotes as it is written. JSON has no other form of it.
func timestampsAreStrings(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		timestampsAreStrings(c)
	}
}

// flatten returns the objects of a document: none of an empty one, the items of a List.
func flatten(file string, object map[string]any, node *yaml.Node) ([]manifest, error) {
	if len(object) == 0 {
		return nil, nil
	}
	m := manifest{file, object, node}
	kind, _ := object["kind"].(string)
	if version, _ := object["apiVersion"].(string); kind == "" || version == "" {
		return nil, noObject(file, node)
	}
	items, isList := object["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") {
		return []manifest{m}, nil
	}
	var out []manifest
	for i, item := range items {
		o, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: items[%d] is not an object", m, i)
		}
		found, err := flatten(file, o, cli.NodeAt(node, fmt.Sprintf("items[%d]", i)))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}
