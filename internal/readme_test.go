package internal_test

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"skiff/internal/cli"
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

// symbol is a Go name in backquotes: `(*kube.Stream).Next`, `(kube.Key).String` or `kube.List`.
var symbol = regexp.MustCompile("`(?:\\(\\*?([a-z/]+)\\.(\\w+)\\)\\.(\\w+)|([a-z/]+)\\.([A-Za-z]\\w*))`")

func TestEverySymbolOfFollowOneEventExists(t *testing.T) {
	declared := declarations(t)
	found := symbol.FindAllStringSubmatch(section(t, "Follow one event"), -1)
	// The way has nine functions (one is the operator's own); fewer names mean that this test no longer reads the README.
	if len(found) < 8 {
		t.Errorf("the section names %d symbols, want the functions that an event passes", len(found))
	}
	for _, m := range found {
		name := m[1] + "." + m[2] + "." + m[3]
		if m[4] != "" {
			name = m[4] + "." + m[5]
		}
		if !declared[name] {
			t.Errorf("README.md, Follow one event: %s does not exist", m[0])
		}
	}
}

// declarations returns all functions, as "kube.List", and methods, as "kube.Stream.Next", of the program.
func declarations(t *testing.T) map[string]bool {
	out := map[string]bool{}
	for _, f := range sources(t) {
		pkg, ok := strings.CutPrefix(f.pkg, "internal/")
		if f.test || !ok {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					out[pkg+"."+d.Name.Name] = true
				} else {
					out[pkg+"."+receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok {
						out[pkg+"."+ts.Name.Name] = true
					}
				}
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

func TestTheLayerTableOfTheReadmeIsTheImportTable(t *testing.T) {
	text := section(t, "Layers")
	for _, l := range layers {
		row := "| `" + strings.TrimPrefix(l.pkg, "/") + "` | "
		_, rest, ok := strings.Cut(text, row)
		if !ok {
			t.Errorf("README.md, Layers: no row for %s", l.pkg)
			continue
		}
		line, _, _ := strings.Cut(rest, "\n")
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|")
		have := strings.TrimSpace(cells[len(cells)-1])
		want := strings.ReplaceAll(strings.Join(strings.Fields(l.imports), ", "), "/crds", "crds")
		want = strings.ReplaceAll(want, "/examples", "examples")
		if have != want {
			t.Errorf("README.md, Layers: %s may import %q, the import table says %q", l.pkg, have, want)
		}
	}
}

// commandRow is a row of the README's table of commands.
var commandRow = regexp.MustCompile("(?m)^\\| `skiff (\\w+)` \\| (.+) \\|$")

// helpLine is a command in the output of `skiff help`.
var helpLine = regexp.MustCompile(`(?m)^  ([a-z]+)\s{2,}(\S.*)$`)

func TestTheCommandReferenceIsWhatHelpSays(t *testing.T) {
	var out bytes.Buffer
	if code := cli.Main(t.Context(), []string{"help"}, &out, &out); code != 0 {
		t.Fatalf("skiff help exits with %d: %s", code, out.String())
	}
	_, commands, _ := strings.Cut(out.String(), "Available Commands:")
	commands, _, _ = strings.Cut(commands, "\n\n")
	table := func(rows [][]string) map[string]string {
		m := map[string]string{}
		for _, r := range rows {
			m[r[1]] = r[2]
		}
		return m
	}
	have := table(commandRow.FindAllStringSubmatch(section(t, "Commands"), -1))
	want := table(helpLine.FindAllStringSubmatch(commands, -1))
	if len(want) == 0 {
		t.Fatalf("no command was found in the output of skiff help:\n%s", out.String())
	}
	for name, short := range want {
		if have[name] != short {
			t.Errorf("README.md, Commands: skiff %s is %q, skiff help says %q", name, have[name], short)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("README.md, Commands: there is no command skiff %s", name)
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
	for _, target := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z0-9-]+)").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(string(makefile), "\n"+target[1]+": ") {
			t.Errorf("README.md: make has no target %s", target[1])
		}
	}
}
