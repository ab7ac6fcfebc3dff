package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const root = ".." // of the repository, seen from this directory

// topLevel is what may stand in the repository's root, so that it can be read at a glance.
var topLevel = map[string]string{
	".ci":              "what must pass before a change goes in",
	".git":             "",
	".gitignore":       "",
	"LICENSE":          "Apache-2.0",
	"SECURITY.md":      "who is trusted with what, and how to report a problem",
	"Makefile":         "all commands of the developer",
	"README.md":        "the one document",
	"go.mod":           "",
	"go.sum":           "",
	"staticcheck.conf": "staticcheck reads it only from the root of a package tree",
	"cmd":              "main packages",
	"crds":             "the custom resource definitions, embedded and for kubectl apply",
	"examples":         "objects and manifests to start from",
	"internal":         "everything else",
	"Dockerfile":       "an image by docker build; make image needs no daemon",
	".dockerignore":    "",
	"bin":              "ignored by git: make build",
	"dist":             "ignored by git: make dist and make image",
	".cache":           "ignored by git: downloads and builds of tests",
}

// source is one parsed Go file.
type source struct {
	name   string // path from the root
	pkg    string // directory from the root
	test   bool
	nested bool // in a module of its own below internal/
	fset   *token.FileSet
	ast    *ast.File
}

func (s source) position(n ast.Node) token.Position {
	p := s.fset.Position(n.Pos())
	p.Filename = s.name
	return p
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources parses all Go files of the repository.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	var nested []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "bin" {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && name != "." {
				nested = append(nested, name+"/")
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := source{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), fset: fset, ast: f}
		for _, n := range nested {
			s.nested = s.nested || strings.HasPrefix(name, n)
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	for _, f := range sources(t) {
		if f.test && f.pkg != "internal" {
			continue
		}
		text := f.ast.Doc.Text()
		if _, seen := comments[f.pkg]; !seen {
			comments[f.pkg] = nil
		}
		if text == "" {
			continue
		}
		comments[f.pkg] = append(comments[f.pkg], text)
		want := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			want = "Command " + path.Base(f.pkg) + " "
		}
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s: the package comment does not begin with %q", f.name, want)
		}
		if !f.nested && !strings.Contains(text, "goroutine") {
			t.Errorf("%s: the package comment does not say on which goroutine the package runs", f.name)
		}
	}
	for pkg, texts := range comments {
		if len(texts) != 1 {
			t.Errorf("%s has %d package comments, want one that says its job, what is not its job, its goroutine "+
				"and its place", pkg, len(texts))
		}
	}
}

// maxColumns is where a line ends at the latest, with a tab for four columns: two files fit side by side on a screen.
const maxColumns = 119

// TestNoLineIsTooLong lets lines pass in which a raw string is: it cannot be broken without a change of what it says.
func TestNoLineIsTooLong(t *testing.T) {
	for _, f := range sources(t) {
		raw := map[int]bool{}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(s.Value, "`") {
				for line := f.position(s).Line; line <= f.fset.Position(s.End()).Line; line++ {
					raw[line] = true
				}
			}
			return true
		})
		for i, line := range strings.Split(read(t, f.name), "\n") {
			columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if columns > maxColumns && !raw[i+1] {
				t.Errorf("%s:%d has %d columns, the limit is %d", f.name, i+1, columns, maxColumns)
			}
		}
	}
}

// selects says whether e is pkg.name.
func selects(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// TestNoTestSleepsInRealTime lets time.Sleep pass in packages whose tests run in synctest bubbles, where it moves a
// virtual clock.
func TestNoTestSleepsInRealTime(t *testing.T) {
	files := sources(t)
	virtual := map[string]bool{}
	for _, f := range files {
		virtual[f.pkg] = virtual[f.pkg] || f.test && imports(f, "testing/synctest")
	}
	for _, f := range files {
		if !f.test || virtual[f.pkg] {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && selects(e, "time", "Sleep") {
				t.Errorf("%s: time.Sleep in a test: wait for the condition, or use testing/synctest", f.position(n))
			}
			return true
		})
	}
}

func imports(f source, pkg string) bool {
	for _, spec := range f.ast.Imports {
		if spec.Path.Value == `"`+pkg+`"` {
			return true
		}
	}
	return false
}

// keptContexts are the struct fields that may hold a context, each with its reason.
var keptContexts = map[string]string{
	"internal/testcluster/apiserver Server.ctx":        "the server's life, which cuts every request short",
	"internal/testcluster/apiserver/faults writer.ctx": "lives as long as one request; Write has no parameter for it",
}

func TestNoContextIsStoredInAStruct(t *testing.T) {
	kept := map[string]bool{}
	for _, f := range sources(t) {
		owner := "" // the type declaration that the walk is in or has last been in
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				owner = n.Name.Name
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if !selects(field.Type, "context", "Context") {
						continue
					}
					name := f.pkg + " " + owner
					for _, id := range field.Names {
						name += "." + id.Name
					}
					kept[name] = true
					if keptContexts[name] == "" {
						t.Errorf("%s: a context in a struct outlives its call: pass it as the first parameter",
							f.position(field))
					}
				}
			}
			return true
		})
	}
	for name := range keptContexts {
		if !kept[name] {
			t.Errorf("%s no longer holds a context: take it off the list of internal/conventions_test.go", name)
		}
	}
}

func TestTheRootHoldsOnlyWhatIsAgreed(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := topLevel[e.Name()]; !ok {
			t.Errorf("%s stands in the root but not in the list of internal/conventions_test.go", e.Name())
		}
	}
}
