// Package internal_test holds the conventions of the tree as tests: who may import whom (this file), what every
// package and file must look like (conventions_test.go), and that the README is true (readme_test.go). It
// reads source files with go/parser and nothing else, on one goroutine; it is no part of the program.
package internal_test

import (
	"os/exec"
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
	stdr:  "logr on the standard library's log, for tests",
	yaml:  "kubeconfig files, CRDs and YAML bodies",
}

// row says what packages may import: the standard library, what the row names, and their own subpackages.
type row struct {
	pkgs    string // below internal/, or paths from the root with a slash before; a final /* means all packages below
	imports string // of this module, as above
	modules []string
	why     string
}

// rows are the architecture in one place. A package is held to the first row that names it.
var rows = []row{
	{"/cmd/skiff", "cli", nil, "calls package cli, nothing else: it links nothing of the test cluster"},
	{"/cmd/skiff-dev", "testcluster/cli cli", nil, "calls the package cli of the test cluster, nothing else"},

	{"runtime/kube", "runtime/nearest runtime/backoff", nil,
		"the wire on net/http alone; says which field a mistyped one is like"},
	{"runtime/backoff runtime/nearest runtime/patch runtime/metrics runtime/podpolicy runtime/process", "", nil,
		"the ground of the runtime: programs of others, and pure functions"},
	{"runtime/keyed", "runtime/kube", nil, "what a controller remembers of an object, for all that are above"},
	{"runtime/conditions", "runtime/kube runtime/health runtime/events", nil, "the form on the wire of what is wrong"},
	{"runtime/health runtime/queue runtime/events runtime/leader runtime/labels " +
		"runtime/discovery runtime/kubeconfig", "runtime/kube runtime/nearest runtime/process runtime/backoff",
		[]string{logr, yaml},
		"each knows the wire and not the others: a queue does not know what its keys name"},
	{"runtime/cache", "runtime/labels runtime/kube runtime/health runtime/backoff", []string{logr},
		"mirrors objects; does not know who reads them"},
	{runtime, runtime, []string{logr}, "imports no other wing: it runs any controllers"},

	{operators, operators + " " + runtime, []string{logr}, "a controller decides; all else is the runtime's"},

	{"hooks/spec", "runtime/kube runtime/labels runtime/conditions runtime/events runtime/nearest", []string{yaml},
		"what a hook controller is: reads and checks, and asks no server"},
	{hooks, hooks + " " + runtime, []string{logr}, "runs the controllers of others: it knows none of ours"},

	{install, install + " " + runtime + " /crds", []string{yaml}, "asks, writes and deletes what the caller names"},

	{"cli/clitest", "", nil, "runs either program in the process of its tests, and knows neither"},
	{"cli", runtime + " " + operators + " " + hooks + " " + install + " /crds", []string{cobra, logr, yaml},
		"flags and output: turns flags into the options of packages"},

	{"testcluster/apiserver testcluster/apiserver/*",
		"testcluster/apiserver/* testcluster/cron runtime/patch runtime/kube", []string{yaml, logr},
		"a server: sharing code with the client side would hide errors that both have"},
	{"testcluster/cron", "", nil, "pure functions on text"},
	{"testcluster/operatortest", testcluster + " " + runtime + " /crds", []string{logr, stdr},
		"the cluster of the operators' tests: it knows no operator, and the program does not know it"},
	{testcluster, testcluster + " cli install/definitions " + runtime + " /examples", []string{cobra, logr, yaml},
		"the test cluster, for cmd/skiff-dev and for tests alone"},

	{"tools/conformance", "", nil, "a tool that reads source and test output"},
	{"/crds /examples", "", []string{yaml}, "data, embedded"},
}

// The wings.
const (
	runtime     = "runtime/*"
	operators   = "operators/*"
	hooks       = "hooks/*"
	install     = "install/*"
	testcluster = "testcluster/*"
)

// testImports are what test files may import beyond the row of their package, besides logr and yaml: the embedded API
// server, with a simulated cluster around it where one is needed, is the double for everything, and the client that
// talks to it is real.
const testImports = "cli/clitest " + testcluster + " " + runtime + " /crds /examples"

// rowOf returns the row of a package, given its path from the root.
func rowOf(pkg string) (row, bool) {
	i := slices.IndexFunc(rows, func(r row) bool { return named(r.pkgs, pkg) })
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}

// named says whether a list of patterns names a package, a path from the root such as "internal/runtime/kube".
func named(patterns, pkg string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(pattern string) bool {
		below, ok := strings.CutPrefix(pkg, "internal/")
		if p, fromRoot := strings.CutPrefix(pattern, "/"); fromRoot {
			below, ok, pattern = pkg, true, p
		}
		if parent, all := strings.CutSuffix(pattern, "/*"); all {
			return ok && strings.HasPrefix(below, parent+"/")
		}
		return ok && below == pattern
	})
}

// allowed says whether a file of a package may import an import path.
func allowed(r row, pkg, imported string, isTest bool) bool {
	patterns, modules := r.imports, slices.Clone(r.modules)
	if isTest {
		patterns, modules = patterns+" "+testImports, append(modules, logr, yaml)
	}
	if first, _, _ := strings.Cut(imported, "/"); first != module {
		return !strings.Contains(first, ".") || slices.ContainsFunc(modules, func(m string) bool {
			return imported == m || strings.HasPrefix(imported, m+"/")
		})
	}
	imported = strings.TrimPrefix(imported, module+"/")
	return imported == pkg || strings.HasPrefix(imported, pkg+"/") || named(patterns, imported)
}

func TestEveryImportIsAllowedByTheTable(t *testing.T) {
	for _, f := range sources(t) {
		if f.nested || f.pkg == "internal" {
			continue
		}
		r, ok := rowOf(f.pkg)
		if !ok {
			t.Errorf("%s: package %s has no row in internal/arch_test.go", f.name, f.pkg)
			continue
		}
		for _, spec := range f.ast.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if !allowed(r, f.pkg, imported, f.test) {
				t.Errorf("%s: %s may not import %s: %s", f.position(spec), f.pkg, imported, r.why)
			}
		}
	}
}

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
		if strings.HasPrefix(pkg, "skiff/internal/testcluster/") || pkg == "skiff/examples" {
			t.Errorf("cmd/skiff links %s, which is part of the test cluster: only cmd/skiff-dev may", pkg)
		}
	}
}

// requireLine is a line of a require block or a require line, with the comment of indirect ones.
var requireLine = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+\.\S+) v\S+( // indirect)?$`)

func TestGoModRequiresOnlyWhatIsAgreed(t *testing.T) {
	mod, direct := read(t, "go.mod"), 0
	for _, m := range requireLine.FindAllStringSubmatch(mod, -1) {
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
	for line := range strings.Lines(mod) {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") {
			t.Errorf("go.mod: %q: `go install` does not work with a replacement", strings.TrimSpace(line))
		}
	}
}

func TestTheLicensesOfAllModulesAreThere(t *testing.T) {
	licenses := read(t, "cmd/skiff/THIRD_PARTY_LICENSES")
	for _, m := range requireLine.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		const onWindows = "github.com/inconshreveable/mousetrap" // cobra's, and not in a binary for Linux
		if m[1] != onWindows && !strings.Contains(licenses, "\n== "+m[1]+"\n") {
			t.Errorf("cmd/skiff/THIRD_PARTY_LICENSES does not have %s", m[1])
		}
	}
}
