package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
)

// Bounds of files. A ConfigMap, in which they often are, has at most 1 MiB.
const (
	maxFile        = 1 << 20
	maxFiles       = 1000
	maxControllers = 1000
)

// ReadFiles reads the controllers of files, and of the YAML and JSON files of [Directories], in their order. Objects
// of other kinds are skipped, each with a warning. The error names all problems of all files, one a line:
// FILE:LINE: PATH: MESSAGE.
func ReadFiles(paths []string) (controllers []*Controller, warnings []string, err error) {
	if controllers, warnings, err = ReadValid(paths); err != nil {
		return nil, warnings, err
	}
	return controllers, warnings, nil
}

// ReadValid is ReadFiles, and returns the valid controllers beside Problems of the others.
func ReadValid(paths []string) (controllers []*Controller, warnings []string, err error) {
	r, err := readAll(paths, false)
	if err != nil {
		return r.valid, r.warnings, err
	}
	if len(r.valid) == 0 {
		return nil, r.warnings, fmt.Errorf("%s: there is no %s or %s of %s", strings.Join(paths, ", "), Composite,
			Decorator, APIVersion)
	}
	return r.valid, r.warnings, nil
}

// ReadObjects reads all objects of files, and of the YAML and JSON files of directories, in their order and as JSON.
// The items of a List are objects, too.
func ReadObjects(paths []string) ([]Object, error) {
	r, err := readAll(paths, true)
	return r.objects, err
}

// readAll reads files; after an error other than Problems, the result is empty.
func readAll(paths []string, all bool) (reader, error) {
	r := reader{all: all}
	for _, path := range paths {
		if err := r.path(path); err != nil {
			return reader{}, err
		}
	}
	return r, r.found.err()
}

// Object is an object of a file.
type Object struct {
	Raw  kube.Raw
	File string
	Node *yaml.Node // with the lines of its fields
}

// object takes any object.
func (r *reader) object(o origin, y *yaml.Node) {
	before := r.found.count()
	d, members := decoder{found: &r.found}, map[string]any{}
	if d.document(y, &members); r.found.count() == before {
		r.objects = append(r.objects, Object{d.json, o.file, y})
	}
}

// FromObject reads the object of a controller in a cluster. The error names all problems, one a line: PATH:
// MESSAGE.
func FromObject(raw kube.Raw) (*Controller, error) {
	var found Problems
	y, err := fromJSON(raw)
	if err != nil {
		return nil, err
	}
	c := origin{}.controller(y, &found)
	return c, found.err()
}

// reader has the objects of the files read so far.
type reader struct {
	all         bool // take all objects, not controllers
	objects     []Object
	controllers []*Controller
	valid       []*Controller // those of controllers without a problem
	warnings    []string
	found       Problems
	files       []string // absolute, so that none is read twice
}

// HookDirectory is the sub-directory in which a directory may have its controllers, so that `kubectl apply -f` takes
// the definition beside it and nothing else.
const HookDirectory = "hook"

// Directories are read for a directory: itself and the HookDirectory in there, if any.
func Directories(dir string) []string {
	below := filepath.Join(dir, HookDirectory)
	if info, err := os.Stat(below); err != nil || !info.IsDir() {
		return []string{dir}
	}
	return []string{dir, below}
}

// path reads a file, or the files of a directory. Mistakes in files are in r.found: an error is of reading alone.
func (r *reader) path(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read files: %w", err)
	}
	if !info.IsDir() {
		return r.file(path)
	}
	dirs := []string{path}
	if !r.all {
		dirs = Directories(path)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("read files: %w", err)
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || e.Name()[0] == '.' {
				continue
			}
			info, err := os.Stat(name) // of the file that a symbolic link names
			if err == nil && info.Mode().IsRegular() {
				err = r.file(name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) file(name string) error {
	whole, err := filepath.Abs(name)
	if err != nil {
		return fmt.Errorf("read files: %w", err)
	}
	if slices.Contains(r.files, whole) {
		return nil
	}
	if r.files = append(r.files, whole); len(r.files) > maxFiles {
		return fmt.Errorf("read files: %s: more than %d files", name, maxFiles)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read files: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read files: %w", err)
	}
	if len(content) > maxFile {
		return fmt.Errorf("read files: %s: larger than %d MiB", name, maxFile>>20)
	}
	r.found.begin(name)
	r.documents(origin{file: name, dir: filepath.Dir(whole)}, content)
	return nil
}

// documents reads the documents of a file.
func (r *reader) documents(o origin, content []byte) {
	for d := yaml.NewDecoder(bytes.NewReader(withoutPairs(content))); ; {
		var doc yaml.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			line, text := yamlError(err)
			r.found.add(&place{line: line}, "%s", text)
			return
		}
		if len(doc.Content) > 0 {
			r.document(o, doc.Content[0], 0)
		}
	}
}

// pair is a character that JSON writes as two escapes (RFC 8259, section 7), as Python's json module does.
var pair = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// withoutPairs replaces such characters in JSON: the YAML parser refuses them. In YAML they may be plain text.
func withoutPairs(content []byte) []byte {
	if start := bytes.TrimSpace(content); len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return content
	}
	return pair.ReplaceAllFunc(content, func(escapes []byte) []byte {
		var text string
		if json.Unmarshal([]byte(`"`+string(escapes)+`"`), &text) != nil {
			return escapes
		}
		return []byte(text)
	})
}

// yamlError takes the line out of an error of the YAML parser.
func yamlError(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if n, scanErr := fmt.Sscanf(text, "line %d:", &line); n == 1 && scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return line, "is not YAML: " + kube.Printable(text, 3*maxShown)
}

// document reads a document, or an item of a List, as of `kubectl get -o yaml`.
func (r *reader) document(o origin, y *yaml.Node, depth int) {
	if y.Kind == yaml.ScalarNode && y.Tag == "!!null" {
		return // an empty document
	}
	if items := memberOf(y, "items"); items != nil && strings.HasSuffix(scalarOf(y, "kind"), "List") && depth == 0 {
		for _, item := range items.Content {
			r.document(o, item, depth+1)
		}
		return
	}
	if r.all {
		r.object(o, y)
	} else {
		r.controller(o, y)
	}
}

// controller takes a document that is a controller, and warns of another one.
func (r *reader) controller(o origin, y *yaml.Node) {
	apiVersion, kind := scalarOf(y, "apiVersion"), scalarOf(y, "kind")
	if group, _, _ := strings.Cut(apiVersion, "/"); group != Group || kind != Composite && kind != Decorator {
		what := "an object without a kind"
		if kind != "" {
			what = strings.TrimSuffix(kube.Printable(kind, maxShown)+" "+
				kube.Printable(scalarOf(memberOf(y, "metadata"), "name"), maxShown), " ")
		}
		r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: %s is skipped: only controllers are read", o.file, y.Line,
			what))
		return
	}
	if len(r.controllers) == maxControllers {
		r.found.add(&place{line: y.Line}, "more than %d controllers", maxControllers)
		return
	}
	before := r.found.count()
	o.before = r.controllers
	c := o.controller(y, &r.found)
	r.controllers = append(r.controllers, c)
	if r.found.count() == before {
		r.valid = append(r.valid, c)
	}
}

// memberOf returns the member of an object, nil if there is none.
func memberOf(y *yaml.Node, key string) *yaml.Node {
	if y == nil || y.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		if y.Content[i].Value == key {
			return y.Content[i+1]
		}
	}
	return nil
}

// scalarOf returns a scalar member, "" if there is none.
func scalarOf(y *yaml.Node, key string) string {
	if m := memberOf(y, key); m != nil && m.Kind == yaml.ScalarNode {
		return m.Value
	}
	return ""
}
