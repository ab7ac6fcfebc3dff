package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// rule is one line of the catalog.
type rule struct {
	id       string // "LST-01"
	priority string // "P0"
	text     string
}

// section returns the section of the rule: the letters of its ID.
func (r rule) section() string { return r.id[:strings.IndexByte(r.id, '-')] }

var ruleLine = regexp.MustCompile(`^([A-Z]+-\d{2,3}) (P[012]) (\S.*)$`)

// parseRules reads the catalog. Each line is a rule, a comment (#) or empty.
func parseRules(catalog string) ([]rule, error) {
	var rules []rule
	seen := map[string]bool{}
	for i, line := range strings.Split(catalog, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := ruleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("parse rules.txt line %d: want ID PRIORITY RULE, have %q", i+1, line)
		}
		if seen[m[1]] {
			return nil, fmt.Errorf("parse rules.txt line %d: %s is listed twice", i+1, m[1])
		}
		seen[m[1]] = true
		rules = append(rules, rule{m[1], m[2], m[3]})
	}
	return rules, nil
}

// test identifies a test function as go test does.
type test struct{ pkg, name string }

// claim says that a test holds a rule.
type claim struct {
	test
	rule string
	at   token.Position
}

// collectClaims reads the "Rules:" lines above all test functions below root.
func collectClaims(root string) ([]claim, error) {
	var claims []claim
	modules := map[string]string{} // directory -> its import path; only directories with a go.mod
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && strings.HasPrefix(d.Name(), "."), d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case d.IsDir():
			return readModule(modules, file)
		case !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		pkg, err := importPath(modules, root, filepath.Dir(file))
		if err != nil {
			return err
		}
		found, err := claimsInFile(file, pkg)
		claims = append(claims, found...)
		return err
	})
	return claims, err
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

// readModule records the module path of a directory with a go.mod.
func readModule(modules map[string]string, dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m := moduleLine.FindSubmatch(b)
	if m == nil {
		return fmt.Errorf("read %s/go.mod: it has no module line", dir)
	}
	modules[dir] = string(m[1])
	return nil
}

// importPath returns the import path of the package in dir.
func importPath(modules map[string]string, root, dir string) (string, error) {
	for d := dir; ; d = filepath.Dir(d) {
		if module, ok := modules[d]; ok {
			below, err := filepath.Rel(d, dir)
			return path.Join(module, filepath.ToSlash(below)), err
		}
		if d == root || d == filepath.Dir(d) {
			return "", fmt.Errorf("find the module of %s: no go.mod in it or above it up to %s", dir, root)
		}
	}
}

const marker = "Rules:"

// claimsInFile returns the claims of a file's test functions. A marker that is not in the comment of a test function
// is an error, because it would be ignored.
func claimsInFile(file, pkg string) ([]claim, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var claims []claim
	used := map[*ast.Comment]bool{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Doc == nil || fn.Recv != nil || !isTest(fn.Name.Name) {
			continue
		}
		for _, c := range fn.Doc.List {
			ids, ok := strings.CutPrefix(c.Text, "// "+marker)
			if !ok {
				continue
			}
			used[c] = true
			for id := range strings.SplitSeq(ids, ",") {
				claims = append(claims, claim{test{pkg, fn.Name.Name}, strings.TrimSpace(id), fset.Position(c.Pos())})
			}
		}
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// "+marker) && !used[c] {
				return nil, fmt.Errorf("%s: %q is not in the comment above a test function",
					fset.Position(c.Pos()), c.Text)
			}
		}
	}
	return claims, nil
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
}

// checkClaims reports each claim of a rule that does not exist.
func checkClaims(rules []rule, claims []claim) error {
	known := map[string]bool{}
	for _, r := range rules {
		known[r.id] = true
	}
	var errs []error
	for _, c := range claims {
		if !known[c.rule] {
			errs = append(errs, fmt.Errorf("%s: %s claims %q, which is not a rule of rules.txt", c.at, c.name, c.rule))
		}
	}
	return errors.Join(errs...)
}
