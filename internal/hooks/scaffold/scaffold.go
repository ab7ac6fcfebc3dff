// Package scaffold writes the directory of a new hook controller: a definition, the controller, a hook in the author's
// language with real work to do, an example, and a test.
//
// The package checks names and writes files, runs nothing and asks no cluster, on the goroutine of the caller and on
// no event path.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
)

//go:embed template
var templates embed.FS

// language is the difference between languages besides the hook.
type language struct {
	hook    string // the file of the hook
	needs   string
	command string
	mode    string
	build   string // the command to make the program, "" for none
	runtime string // a public image to run the hook, "" where the author must build an image
}

// Modes of the hooks, with their meaning.
const (
	oneshot = "oneshot # a process for each call"
	lines   = "lines # a process for each worker, and a line for each call"
)

var languages = map[string]language{
	"shell": {hook: "hook.sh", needs: "jq", command: "[./hook.sh]", mode: oneshot},
	"python": {hook: "hook.py", needs: "Python 3", command: "[python3, hook.py]", mode: lines,
		runtime: "python:3-slim"},
	"node": {hook: "hook.mjs", needs: "Node", command: "[node, hook.mjs]", mode: lines, runtime: "node:22-slim"},
	"go":   {hook: "hook.go", needs: "Go", command: "[./hook]", mode: lines, build: "go build -o hook ."},
}

// aliases are other names of languages, as their programs and files have them.
var aliases = map[string]string{"bash": "shell", "sh": "shell", "python3": "python", "py": "python",
	"js": "node", "javascript": "node", "nodejs": "node", "mjs": "node", "ts": "node", "typescript": "node",
	"golang": "go"}

// Language returns the name in [Languages] of a language, "" if there is none.
func Language(name string) string {
	name = strings.ToLower(name)
	if _, ok := languages[name]; ok {
		return name
	}
	return aliases[name]
}

// Languages are the names of the languages for hooks.
func Languages() []string { return slices.Sorted(maps.Keys(languages)) }

// Names are those of the custom resource of a new controller.
type Names struct {
	Kind, Singular, Plural, Group string
}

var (
	word = regexp.MustCompile(`[A-Za-z0-9]+`)
	kind = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,59}$`) // a plural has at most 63, as a DNS label
)

// NamesOf makes the names of a custom resource from its kind, or for "" from the name of a directory:
// "web-shop" becomes WebShop. group is a domain of the author's.
func NamesOf(dir, of, group string) (Names, error) {
	if of == "" {
		for _, w := range word.FindAllString(filepath.Base(dir), -1) {
			of += strings.ToUpper(w[:1]) + w[1:]
		}
	}
	if !kind.MatchString(of) {
		return Names{}, fmt.Errorf("kind %q: must be a word such as WebShop, of at most 60 letters and digits, with "+
			"a capital at the beginning", kube.Printable(of, maxShown))
	}
	if !kube.ValidName(group) || !strings.Contains(group, ".") || strings.HasSuffix("."+group, ".k8s.io") ||
		strings.HasSuffix("."+group, ".kubernetes.io") {
		return Names{}, fmt.Errorf("group %q: must be a domain of your own, such as shop.example.com, and not of "+
			"Kubernetes", kube.Printable(group, maxShown))
	}
	n := Names{Kind: of, Singular: strings.ToLower(of), Group: group}
	n.Plural = n.Singular + "s"
	if stem, y := strings.CutSuffix(n.Singular, "y"); y && !endsIn(stem, "a", "e", "i", "o", "u") {
		n.Plural = stem + "ies"
	} else if endsIn(n.Singular, "s", "x", "z", "ch", "sh") {
		n.Plural = n.Singular + "es"
	}
	return n, nil
}

// maxShown bounds how much of an invalid name is shown.
const maxShown = 100

func endsIn(s string, endings ...string) bool {
	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(s, e) })
}

// Write writes the files of a new controller into dir, which must not exist or be empty, and returns their names. lang
// is one of [Languages].
func Write(dir, lang string, n Names) ([]string, error) {
	l := languages[lang]
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("write a controller: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty: nothing is overwritten, name a new directory", dir)
	}
	build, buildLine := "", ""
	if l.build != "" {
		command := "(cd " + spec.HookDirectory + " && " + l.build + ")\n"
		build, buildLine = command, "    "+command
	}
	inCluster := "IMAGE --crds      # to run it in the cluster: the Dockerfile makes the image"
	if l.runtime != "" {
		inCluster = "SKIFF --runtime " + l.runtime + " --crds   # to run it in the cluster: SKIFF is skiff's image\n" +
			"    skiff hooks manifests -f . --image IMAGE --crds      # or with the image that the Dockerfile makes"
	}
	fill := strings.NewReplacer("{{Kind}}", n.Kind, "{{singular}}", n.Singular, "{{plural}}", n.Plural,
		"{{group}}", n.Group, "{{hook}}", l.hook, "{{needs}}", l.needs, "{{command}}", l.command, "{{mode}}", l.mode,
		"{{build}}", build, "{{build-line}}", buildLine, "{{in-cluster}}", inCluster)
	var written []string
	for _, part := range []string{"common", lang} {
		root := path.Join("template", part)
		err := fs.WalkDir(templates, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := templates.ReadFile(name)
			if err != nil {
				return err
			}
			name = strings.TrimSuffix(strings.TrimPrefix(name, root+"/"), notGo)
			written = append(written, name)
			return write(filepath.Join(dir, filepath.FromSlash(name)), fill.Replace(string(text)))
		})
		if err != nil {
			return nil, fmt.Errorf("write a controller: %w", err)
		}
	}
	slices.Sort(written)
	return written, nil
}

// notGo is the ending of templates, which the go command would take for a part of skiff.
const notGo = ".tmpl"

// write writes a new file. A script can be run.
func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
