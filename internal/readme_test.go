package internal_test

import (
	"bytes"
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"skiff/internal/cli"
)

// section returns the text of a README below a heading, up to the next heading of the same level.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, file), "\n## "+heading+"\n")
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
				if declared[name] == nil {
					t.Fatalf("%s: %s does not exist", walk, name)
				}
			}
			first := names[0]
			if by, ok := handedOver[first]; !ok && before != "" && !mentions(declared[before], first) {
				t.Errorf("%s: %s does not call %s", walk, before, first)
			} else if ok && by == "OnChange" && !mentions(declared[first], by) {
				t.Errorf("%s: %s does not hand over a handler with %s", walk, first, by)
			}
			for _, other := range names[1:] { // is called, or calls, or hands over
				if !mentions(declared[first], other) && !mentions(declared[other], first) {
					t.Errorf("%s: %s and %s have nothing to do with each other", walk, first, other)
				}
			}
			before = first
		}
	}
}

// codeMap is the README of those who work on the code.
const codeMap = "internal/README.md"

// How long the README of the users, its lines and its paragraphs may be: longer ones are not read.
const (
	maxReadme          = 130
	maxReadmeColumns   = 100
	maxReadmeParagraph = 4
)

func TestTheReadmeIsShort(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(read(t, "README.md")), "\n")
	if len(lines) > maxReadme {
		t.Errorf("README.md has %d lines, at most %d are wanted", len(lines), maxReadme)
	}
	paragraph, code := 0, false
	for i, line := range lines {
		if utf8.RuneCountInString(line) > maxReadmeColumns {
			t.Errorf("README.md:%d is longer than %d columns", i+1, maxReadmeColumns)
		}
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if paragraph++; code || line == "" || strings.ContainsAny(line[:1], " -|[#`") {
			paragraph = 0
		}
		if paragraph > maxReadmeParagraph {
			t.Errorf("README.md:%d: a paragraph has more than %d lines", i+1, maxReadmeParagraph)
		}
	}
}

// maxPictures is how many bytes the pictures of the live page may have together: each clone has all versions of them.
const maxPictures = 200 << 10

func TestThePicturesAreSmallAndShown(t *testing.T) {
	total := 0
	for _, name := range []string{"overview.webp", "object.webp"} {
		total += len(read(t, "examples/page/"+name))
		if !strings.Contains(read(t, "README.md"), "]: examples/page/"+name+"\n") ||
			!strings.Contains(read(t, "examples/page/README.md"), "]("+name+")") {
			t.Errorf("README.md and examples/page/README.md do not show %s", name)
		}
	}
	if total > maxPictures {
		t.Errorf("the pictures have %d bytes", total)
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

// functions returns all functions, as "kube.List", and methods, as "kube.Stream.Next", of the program.
func functions(t *testing.T) map[string]*ast.FuncDecl {
	out := map[string]*ast.FuncDecl{}
	for _, f := range sources(t) {
		if f.test || f.nested {
			continue
		}
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				name := path.Base(f.pkg) + "."
				if d.Recv != nil {
					name += receiver(d.Recv.List[0].Type) + "."
				}
				out[name+d.Name.Name] = d
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
	for _, flag := range regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(section(t, "examples/README.md",
		"Commands"), -1) {
		if !strings.Contains(help.String(), flag[1]+" ") {
			t.Errorf("examples/README.md, Commands: %s is no flag of skiff run", flag[1])
		}
	}
	makefile := read(t, "Makefile")
	for _, target := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z0-9-]+)").FindAllStringSubmatch(
		read(t, "README.md"), -1) {
		if !strings.Contains(makefile, "\n"+target[1]+": ") {
			t.Errorf("README.md: make has no target %s", target[1])
		}
	}
}
