package internal_test

import (
	"bytes"
	"go/ast"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"skiff/internal/cli"
	devcli "skiff/internal/testcluster/cli"
)

// section returns the text of the README below a heading, up to the next heading of the same level.
func section(t *testing.T, heading string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("README.md has no heading %q", heading)
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
}

func TestEachFunctionOfFollowOneEventCallsTheNext(t *testing.T) {
	declared := functions(t)
	before := ""
	steps := landmark.FindAllStringSubmatch(section(t, "Follow one event"), -1)
	if len(steps) < 10 {
		t.Fatalf("%d steps were found: this test no longer reads the README", len(steps))
	}
	for i, step := range steps {
		if step[1] != strconv.Itoa(i+1) {
			t.Errorf("step %d has the number %s", i+1, step[1])
		}
		var names []string
		for _, m := range symbol.FindAllStringSubmatch(step[2], -1) {
			names = append(names, symbolName(m))
		}
		for _, name := range names {
			if declared[name].decl == nil {
				t.Fatalf("README.md, Follow one event: %s does not exist", name)
			}
		}
		first := names[0]
		if by, ok := handedOver[first]; !ok && before != "" && !mentions(declared[before].decl, first) {
			t.Errorf("README.md, Follow one event: %s does not call %s", before, first)
		} else if ok && by == "OnChange" && !mentions(declared[first].decl, by) {
			t.Errorf("README.md, Follow one event: %s does not hand over a handler with %s", first, by)
		}
		for _, other := range names[1:] {
			// Whoever is named beside is called, or is the one that calls or hands over.
			if !mentions(declared[first].decl, other) && !mentions(declared[other].decl, first) {
				t.Errorf("README.md, Follow one event: %s and %s have nothing to do with each other", first, other)
			}
		}
		before = first
	}
}

// length says how much there is to read for the whole way, and in its packages.
var length = regexp.MustCompile(`(\d+) files of together ([\d,]+) lines; [^.]* have about ([\d,]+)`)

func TestTheLengthOfTheWayIsTrue(t *testing.T) {
	text := section(t, "Follow one event")
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
		t.Fatalf("README.md, Follow one event does not say how long the way is: %d files of together %d lines",
			len(files), lines)
	}
	near := func(text string, is int) bool {
		said, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
		return err == nil && is <= said+said/8 && is >= said-said/8
	}
	if m[1] != strconv.Itoa(len(files)) || !near(m[2], lines) || !near(m[3], all) {
		t.Errorf("README.md, Follow one event: %q, there are %d files of together %d lines, and %d in their packages",
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

// commandRow is a row of the README's table of commands.
var commandRow = regexp.MustCompile("(?m)^\\| `(skiff|skiff-dev) (\\w+)` \\| (.+) \\|$")

// helpLine is a command in the output of `skiff help`.
var helpLine = regexp.MustCompile(`(?m)^  ([a-z]+)\s{2,}(\S.*)$`)

// alike are the commands of skiff-dev that are those of skiff, and not in the table again.
var alike = []string{"completion", "help", "version"}

func TestTheCommandReferenceIsWhatHelpSays(t *testing.T) {
	have, want := map[string]string{}, map[string]string{}
	for _, row := range commandRow.FindAllStringSubmatch(section(t, "Commands"), -1) {
		have[row[1]+" "+row[2]] = row[3]
	}
	for program, run := range map[string]func(out io.Writer) int{
		"skiff": func(out io.Writer) int { return cli.Main(t.Context(), []string{"help"}, out, out) },
		"skiff-dev": func(out io.Writer) int {
			return devcli.Main(t.Context(), []string{"skiff-dev", "help"}, out, out, nil)
		},
	} {
		var out bytes.Buffer
		if code := run(&out); code != 0 {
			t.Fatalf("%s help exits with %d: %s", program, code, out.String())
		}
		_, commands, _ := strings.Cut(out.String(), "Available Commands:")
		commands, _, _ = strings.Cut(commands, "\n\n")
		lines := helpLine.FindAllStringSubmatch(commands, -1)
		if len(lines) == 0 {
			t.Fatalf("no command was found in the output of %s help:\n%s", program, out.String())
		}
		for _, line := range lines {
			if program == "skiff" || !slices.Contains(alike, line[1]) {
				want[program+" "+line[1]] = line[2]
			}
		}
	}
	for name, short := range want {
		if have[name] != short {
			t.Errorf("README.md, Commands: %s is %q, its help says %q", name, have[name], short)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("README.md, Commands: there is no command %s", name)
		}
	}
}

func TestTheFlagsAndTargetsOfTheReadmeExist(t *testing.T) {
	var help bytes.Buffer
	cli.Main(t.Context(), []string{"run", "--help"}, &help, &help)
	for _, flag := range regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(section(t, "Commands"), -1) {
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
