// Package internal_test holds the conventions of the tree as tests: who may import whom (this file), what every
// package and file must look like (conventions_test.go), and that the README tells the truth (readme_test.go). It
// reads source files with go/parser and nothing else, on one goroutine; it is no part of the program.
package internal_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "skiff"

// Modules that packages may name.
const (
	cobra = "github.com/spf13/cobra"
	logr  = "github.com/go-logr/logr"
	stdr  = "github.com/go-logr/stdr"
	yaml  = "gopkg.in/yaml.v3"
)

// dependencies are the modules that go.mod may require directly, each with its reason. What they bring along is
// theirs.
var dependencies = map[string]string{
	cobra: "commands, flags, help and shell completion",
	logr:  "the logging interface of the Kubernetes ecosystem",
	stdr:  "logr on the standard library's log: no logging framework",
	yaml:  "kubeconfig files, CRDs and YAML bodies",
}

// layer is one row of the import table, the architecture in one place. A package may import the standard library, what
// its row names, and its own subpackages. The order is from the top down: a row names only rows below it.
type layer struct {
	// below internal/, or a path from the root where it starts with a slash; a final /* means each package below
	pkg     string
	imports string // packages it may import, separated by spaces, "/*" as above
	modules []string
	why     string
}

var layers = []layer{
	{"/cmd/skiff", "cli", nil, "calls package cli, nothing else: it links nothing of the test cluster"},
	{"/cmd/skiff-dev", "devcli cli", nil, "calls package devcli, nothing else"},
	{"devcli", "cli manager simulate fakeapi kubeconfig kube /examples", []string{cobra, logr, yaml},
		"flags and output of skiff-dev, around the embedded server and the simulation"},
	{"cli", "manager leader operators/* kubeconfig check uninstall manifests controller events " +
		"cache labels podpolicy kube /crds",
		[]string{cobra, logr, stdr, yaml},
		"flags and output of skiff: turns flags into the packages' options"},
	{"manager", "controller leader cache events metrics kube", []string{logr},
		"composes what it is given; it does not know which controllers there are"},
	{"operators/*", "operator controller apply cache events conditions labels metrics patch kube", []string{logr},
		"a controller decides; how to decide when, to write and to mirror is below it"},
	{"operator", "controller apply cache events conditions podpolicy patch kube", []string{logr},
		"the one Reconcile of operators with children: it knows no kind of them"},
	{"operatortest", "controller events fakeapi patch kube /crds", []string{logr},
		"the world of the operators' tests: it knows no operator, and the program does not know it"},
	{"simulate", "controller apply cache events conditions cron labels patch kube", []string{logr},
		"controllers like any other, so that skiff is its own first user"},
	{"controller", "queue cache podpolicy metrics kube", []string{logr}, "when Reconcile runs; never what it does"},
	{"apply", "cache patch kube", []string{logr}, "the one way to write children"},
	{"leader", "kube", []string{logr}, "who may work; not what the work is"},
	{"events", "kube", []string{logr}, "writes Events, reads nothing"},
	{"conditions", "kube", nil, "pure functions on status conditions"},
	{"cache", "kube", []string{logr}, "mirrors objects; does not know who reads them"},
	{"queue", "kube", nil, "keys only: it must not know what they name"},
	{"kubeconfig", "kube", []string{yaml}, "makes a kube.Config and is done"},
	{"check", "manifests podpolicy patch kube", nil, "asks; what is wanted is the caller's, and it changes nothing"},
	{"uninstall", "kube", nil, "deletes what it is told to; says nothing"},
	{"manifests", "labels podpolicy kube", []string{yaml}, "writes text; what is installed is the caller's"},
	{"fakeapi", "cron patch kube", []string{yaml, logr}, "a server: sharing code with the client side would hide " +
		"errors that both have"},
	{"fakeapi/*", "cron patch kube fakeapi/*", []string{yaml}, "parts of the server, none knows the server"},
	{"labels", "kube", nil, "pure functions on what a user selects by"},
	{"metrics", "", nil, "a text format, and what the Go runtime says of itself"},
	{"kube", "", nil, "the wire stands on net/http alone"},
	{"podpolicy", "", nil, "pure functions on JSON values; what follows from a refusal is the caller's"},
	{"cron", "", nil, "pure functions on text"},
	{"patch", "", nil, "pure functions on JSON values"},
	{"conformance", "", nil, "a tool that reads source and test output"},
	{"/crds", "", []string{yaml}, "data, embedded"},
	{"/examples", "", nil, "data, embedded"},
}

// testImports are what test files may import beyond the row of their package, besides logr and yaml: the embedded API
// server, with a simulated cluster around it where one is needed, is the double for everything, and the client that
// talks to it is real.
const testImports = "operatortest fakeapi fakeapi/* simulate kube cache controller queue podpolicy /crds " +
	"/examples"

// rowOf returns the layer of a package, given its import path below the module.
func rowOf(pkg string) (layer, bool) {
	i := slices.IndexFunc(layers, func(l layer) bool { return matches(l.pkg, pkg) })
	if i < 0 {
		return layer{}, false
	}
	return layers[i], true
}

// matches says whether a pattern of the table means a package, a path from the root such as "internal/kube".
func matches(pattern, pkg string) bool {
	if p, ok := strings.CutPrefix(pattern, "/"); ok {
		return pkg == p
	}
	below, ok := strings.CutPrefix(pkg, "internal/")
	if parent, all := strings.CutSuffix(pattern, "/*"); all {
		return ok && strings.HasPrefix(below, parent+"/")
	}
	return ok && below == pattern
}

// allowed says whether a file of a package may import an import path.
func allowed(l layer, pkg, imported string, isTest bool) bool {
	patterns, modules := strings.Fields(l.imports), slices.Clone(l.modules)
	if isTest {
		patterns, modules = append(patterns, strings.Fields(testImports)...), append(modules, logr, yaml)
	}
	if first, _, _ := strings.Cut(imported, "/"); first != module {
		return !strings.Contains(first, ".") || slices.ContainsFunc(modules, func(m string) bool {
			return imported == m || strings.HasPrefix(imported, m+"/")
		})
	}
	imported = strings.TrimPrefix(imported, module+"/")
	return imported == pkg || strings.HasPrefix(imported, pkg+"/") ||
		slices.ContainsFunc(patterns, func(p string) bool { return matches(p, imported) })
}

func TestEveryImportIsAllowedByTheTable(t *testing.T) {
	for _, f := range sources(t) {
		if f.nested || f.pkg == "internal" {
			continue
		}
		l, ok := rowOf(f.pkg)
		if !ok {
			t.Errorf("%s: package %s has no row in the import table of internal/arch_test.go", f.name, f.pkg)
			continue
		}
		for _, spec := range f.ast.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if !allowed(l, f.pkg, imported, f.test) {
				t.Errorf("%s: %s may not import %s: %s", f.position(spec), f.pkg, imported, l.why)
			}
		}
	}
}

// testCluster are the packages of the test cluster, an API server with signing keys among them.
var testCluster = []string{"skiff/internal/devcli", "skiff/internal/fakeapi", "skiff/internal/simulate",
	"skiff/internal/cron", "skiff/examples"}

func TestSkiffLinksNothingOfTheTestCluster(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/skiff")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "skiff/internal/cli") {
		t.Fatalf("skiff links %q: this test no longer understands it", linked)
	}
	for _, pkg := range linked {
		if slices.ContainsFunc(testCluster, func(p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") }) {
			t.Errorf("cmd/skiff links %s, which is part of the test cluster: only cmd/skiff-dev may", pkg)
		}
	}
}

func TestTheImportTablePointsDown(t *testing.T) {
	for i, l := range layers {
		for p := range strings.FieldsSeq(l.imports) {
			at := slices.IndexFunc(layers, func(o layer) bool { return o.pkg == p })
			if at < 0 {
				t.Errorf("row %s names %s, which has no row", l.pkg, p)
			} else if at < i || at == i && p != l.pkg {
				t.Errorf("row %s may import %s, which stands above it", l.pkg, p)
			}
		}
		if l.why == "" {
			t.Errorf("row %s gives no reason", l.pkg)
		}
	}
}

// requireLine is a line of a require block or a require line, with the comment that tells indirect ones.
var requireLine = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+\.\S+) v\S+( // indirect)?$`)

func TestGoModRequiresOnlyWhatIsAgreed(t *testing.T) {
	b, err := os.ReadFile(path.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for _, m := range requireLine.FindAllStringSubmatch(string(b), -1) {
		name, indirect := m[1], m[2] != ""
		if _, ok := dependencies[name]; !ok && !indirect {
			t.Errorf("go.mod requires %s, which is not in the list of internal/arch_test.go: "+
				"write it yourself, or add it with a reason", name)
		}
		if !indirect {
			direct++
		}
		if strings.HasPrefix(name, "k8s.io/") || strings.HasPrefix(name, "sigs.k8s.io/") {
			t.Errorf("go.mod requires %s: skiff does without the Kubernetes libraries", name)
		}
	}
	if direct == 0 {
		t.Error("no requirement was found in go.mod: this test no longer understands it")
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") {
			t.Errorf("go.mod: %q: `go install` does not work with a replacement", strings.TrimSpace(line))
		}
	}
}

func TestTheLicensesOfAllModulesAreThere(t *testing.T) {
	licenses, err := os.ReadFile(path.Join(root, "cmd/skiff/THIRD_PARTY_LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(path.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range requireLine.FindAllStringSubmatch(string(mod), -1) {
		const onWindows = "github.com/inconshreveable/mousetrap" // cobra's, and not in a binary for Linux
		if m[1] != onWindows && !strings.Contains(string(licenses), "\n== "+m[1]+"\n") {
			t.Errorf("cmd/skiff/THIRD_PARTY_LICENSES does not have %s", m[1])
		}
	}
}
