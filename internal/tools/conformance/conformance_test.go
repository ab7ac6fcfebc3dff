package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryRuleThatATestOfTheTreeNamesExists(t *testing.T) {
	rules, err := parseRules(catalog)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := collectClaims(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkClaims(rules, claims); err != nil {
		t.Error(err)
	}
	for id := range moot {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.id == id }) {
			t.Errorf("%s is moot, and no rule", id)
		}
		if slices.ContainsFunc(claims, func(c claim) bool { return c.rule == id }) {
			t.Errorf("%s is moot, and a test claims it", id)
		}
	}
}

func TestTheCatalogIsComplete(t *testing.T) {
	rules, err := parseRules(catalog)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != 583 {
		t.Errorf("the catalog has %d rules, want 583", len(rules))
	}
}

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const claimsOfA = `package a

import "testing"

// It does much.
//
// Rules: LST-01, LST-02
func TestTwo(t *testing.T) {}

// Rules: LST-03
func TestThree(t *testing.T) {}
`

func TestReportShowsPassedFailedNotRunAndOpenRules(t *testing.T) {
	root := tree(t, map[string]string{
		"go.mod":        "module m\n",
		"a/a_test.go":   claimsOfA,
		"e2e/go.mod":    "module m/e2e\n",
		"e2e/b_test.go": "package e2e\n\n// Rules: LST-02\nfunc TestReal(t *testing.T) {}\n",
	})
	input := `# m/broken
{"Action":"run","Package":"m/a","Test":"TestTwo"}
{"Action":"pass","Package":"m/a","Test":"TestTwo"}
{"Action":"fail","Package":"m/a","Test":"TestThree"}
{"Action":"skip","Package":"m/e2e","Test":"TestReal"}
{"Action":"fail","Package":"m/a"}`
	var out bytes.Buffer
	err := run(root, strings.NewReader(input), &out)
	if err == nil || !strings.Contains(err.Error(), "LST-03") || strings.Contains(err.Error(), "LST-02") {
		t.Errorf("run = %v, want an error that names LST-03 only", err)
	}
	for _, want := range []string{
		"LST-01   P0  pass ",
		"\n                      m/a  TestTwo\n",
		"LST-02   P0  not run ",
		"LST-03   P0  FAIL ",
		"LST-04   P0  open ",
		"WCH-41   P2  moot ",
		"\n                      nothing in skiff asks for Tables",
		"\nLST             1        1        1       23        0\n",
		"\nall             1        1        1      575        5\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n < 520 {
		t.Errorf("the report has %d lines, fewer than there are rules", n)
	}
}

func TestATestThatRunsTwiceHasItsWorseResultAndSkippedRunsDoNotCount(t *testing.T) {
	results, err := readResults(strings.NewReader(`{"Action":"pass","Package":"m","Test":"TestPass"}
{"Action":"pass","Package":"m","Test":"TestPassAndSkip"}
{"Action":"fail","Package":"m","Test":"TestFail"}
{"Action":"skip","Package":"m","Test":"TestSkip"}
{"Action":"pass","Package":"m","Test":"TestPass"}
{"Action":"skip","Package":"m","Test":"TestPassAndSkip"}
{"Action":"pass","Package":"m","Test":"TestFail"}
{"Action":"skip","Package":"m","Test":"TestSkip"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TestPass": statePass, "TestPassAndSkip": statePass,
		"TestFail": stateFail, "TestSkip": stateNotRun} {
		if got := results[test{"m", name}]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRunRefusesWhatWouldClaimNothing(t *testing.T) {
	const results = `{"Action":"pass","Package":"m","Test":"TestA"}`
	for name, c := range map[string]struct{ source, input, want string }{
		"unknown rule": {"// Rules: LST-99\nfunc TestA() {}\n", results, `a_test.go:3:1: TestA claims "LST-99"`},
		"no comma":     {"// Rules: LST-01 LST-02\nfunc TestA() {}\n", results, `claims "LST-01 LST-02"`},
		"not above a test": {"// Rules: LST-01\nfunc helper() {}\n", results,
			"not in the comment above a test function"},
		"detached by a line": {"// Rules: LST-01\n\nfunc TestA() {}\n", results,
			"not in the comment above a test function"},
		"no results": {"func TestA() {}\n", "", "there are none on standard input"},
		"no build": {"func TestA() {}\n", `{"Action":"fail","Package":"m","FailedBuild":"m [m.test]"}`,
			"m did not build"},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{"go.mod": "module m\n", "a_test.go": "package m\n\n" + c.source})
			err := run(root, strings.NewReader(c.input), &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run = %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestParseRulesRefusesABrokenCatalog(t *testing.T) {
	for _, catalog := range []string{"LST-01 Take it.", "LST-01 P3 Take it.", "LST-01 P0 Take it.\nLST-01 P0 Again."} {
		if _, err := parseRules(catalog); err == nil {
			t.Errorf("parseRules(%q) found nothing wrong", catalog)
		}
	}
}
