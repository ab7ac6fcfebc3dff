package internal_test

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"skiff/internal/cli"
)

// section returns the text of a README below a heading, up to the next heading of the same level.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// symbol is a Go name in backquotes: `(*kube.Stream).Next` or `kube.List`.
var symbol = regexp.MustCompile("`(?:\\(\\*?([a-z/]+)\\.(\\w+)\\)\\.(\\w+)|([a-z/]+)\\.([A-Za-z]\\w*))`")

// landmark is a step of the list: the function that it is about, and others that it names.
var landmark = regexp.MustCompile(`(?m)^(\d+)\. (.+(?:\n   .+)*)`)

// handedOver are the steps where a function value is called: the function before gets it, and this call has handed it
// over.
var handedOver = map[string]string{
	"controller.Watches":            "OnChange",  // a handler
	"operator.reconciler.Reconcile": "Reconcile", // in operator.New, as an argument
	"controller.Controller.work":    "",          // the other goroutine
	"apiserver.Server.create":       "",          // from the table of handlers
}

func TestEachFunctionOfTheWalksCallsTheNext(t *testing.T) {
	declared := functions(t)
	for walk, least := range map[string]int{"Follow one event": 10, "Follow one request": 8} {
		before := ""
		steps := landmark.FindAllStringSubmatch(section(t, codeMap, walk), -1)
		if len(steps) < least {
			t.Fatalf("%s: %d steps were found: this test no longer reads %s", walk, len(steps), codeMap)
		}
		for i, step := range steps {
			if step[1] != strconv.Itoa(i+1) {
				t.Errorf("%s: step %d has the number %s", walk, i+1, step[1])
			}
			var names []string
			for _, m := range symbol.FindAllStringSubmatch(step[2], -1) {
				names = append(names, symbolName(m))
			}
			for _, name := range names {
				if declared[name].decl == nil {
					t.Fatalf("%s: %s does not exist", walk, name)
				}
			}
			first := names[0]
			if by, ok := handedOver[first]; !ok && before != "" && !mentions(declared[before].decl, first) {
				t.Errorf("%s: %s does not call %s", walk, before, first)
			} else if ok && by == "OnChange" && !mentions(declared[first].decl, by) {
				t.Errorf("%s: %s does not hand over a handler with %s", walk, first, by)
			}
			for _, other := range names[1:] { // is called, or calls, or hands over
				if !mentions(declared[first].decl, other) && !mentions(declared[other].decl, first) {
					t.Errorf("%s: %s and %s have nothing to do with each other", walk, first, other)
				}
			}
			before = first
		}
	}
}

// codeMap is the README of those who work on the code.
const codeMap = "internal/README.md"

// maxReadme is how long the README of the users may be: longer ones are not read.
const maxReadme = 200

func TestTheReadmeIsShort(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n >= maxReadme {
		t.Errorf("README.md has %d lines, fewer than %d are wanted", n, maxReadme)
	}
}

func TestTheMapNamesEachPackage(t *testing.T) {
	text := section(t, codeMap, "The wings")
	for _, f := range sources(t) {
		below, ok := strings.CutPrefix(f.pkg, "internal/")
		if parts := strings.Split(below, "/"); ok && !strings.Contains(text, "`"+parts[min(1, len(parts)-1)]+"`") {
			t.Errorf("%s, The wings: %s is missing", codeMap, f.pkg)
		}
	}
}

// length says how much there is to read for the whole way, and in its packages.
var length = regexp.MustCompile(`(\d+) files of together ([\d,]+) lines; [^.]* have about ([\d,]+)`)

func TestTheLengthOfTheWayIsTrue(t *testing.T) {
	text := section(t, codeMap, "Follow one event")
	declared, files, packages := functions(t), map[string]int{}, map[string]bool{}
	for _, m := range symbol.FindAllStringSubmatch(text, -1) {
		f := declared[symbolName(m)]
		files[f.file], packages[filepath.Dir(f.file)] = f.lines, true
	}
	lines, all := 0, 0
	for _, n := range files {
		lines += n
	}
	for _, f := range sources(t) {
		if packages[filepath.Dir(f.name)] && !f.test {
			all += f.lines
		}
	}
	m := length.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("Follow one event does not say how long the way is: %d files of together %d lines",
			len(files), lines)
	}
	near := func(text string, is int) bool {
		said, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
		return err == nil && is <= said+said/8 && is >= said-said/8
	}
	if m[1] != strconv.Itoa(len(files)) || !near(m[2], lines) || !near(m[3], all) {
		t.Errorf("Follow one event: %q, there are %d files of together %d lines, and %d in their packages",
			m[0], len(files), lines, all)
	}
}

// symbolName is a match of symbol as "kube.List" or "kube.Stream.Next".
func symbolName(m []string) string {
	if m[4] != "" {
		return m[4] + "." + m[5]
	}
	return m[1] + "." + m[2] + "." + m[3]
}

// mentions says whether a function has the name of another in its body: a call, or a value that it passes on.
func mentions(f *ast.FuncDecl, name string) bool {
	short := name[strings.LastIndexByte(name, '.')+1:]
	found := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == short
		return !found
	})
	return found
}

// function is a function or method of the program, and how long its file is.
type function struct {
	decl  *ast.FuncDecl
	file  string
	lines int
}

// functions returns all functions, as "kube.List", and methods, as "kube.Stream.Next", of the program.
func functions(t *testing.T) map[string]function {
	out := map[string]function{}
	for _, f := range sources(t) {
		if f.test || f.nested {
			continue
		}
		pkg := path.Base(f.pkg)
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				name := pkg + "." + d.Name.Name
				if d.Recv != nil {
					name = pkg + "." + receiver(d.Recv.List[0].Type) + "." + d.Name.Name
				}
				out[name] = function{d, f.name, f.lines}
			}
		}
	}
	return out
}

// receiver returns the type name of a receiver such as *Stream[T].
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestTheFlagsAndTargetsOfTheReadmeExist(t *testing.T) {
	var help bytes.Buffer
	cli.Main(t.Context(), []string{"run", "--help"}, &help, &help)
	for _, flag := range regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(section(t, "README.md", "Commands"),
		-1) {
		if !strings.Contains(help.String(), flag[1]+" ") {
			t.Errorf("README.md, Commands: %s is no flag of skiff run", flag[1])
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z0-9-]+)").FindAllStringSubmatch(string(readme),
		-1) {
		if !strings.Contains(string(makefile), "\n"+target[1]+": ") {
			t.Errorf("README.md: make has no target %s", target[1])
		}
	}
}
