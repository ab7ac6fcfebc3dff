package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestDiffLinesShowsWhatChangedAndWhere(t *testing.T) {
	var lines []string
	for i := 1; i <= 20; i++ {
		lines = append(lines, fmt.Sprint(i))
	}
	text := func(change func(s []string) []string) string {
		return strings.Join(change(append([]string{}, lines...)), "\n") + "\n"
	}
	base := text(func(s []string) []string { return s })
	for _, tt := range []struct{ name, a, b, want string }{
		{"equal", base, base, ""},
		{"nothing before", "", "a\nb\n", "@@ -1 +1 @@\n+a\n+b\n"},
		{"nothing after", "a\n", "", "@@ -1 +1 @@\n-a\n"},
		{"one line changed", base, text(func(s []string) []string { s[9] = "x"; return s }),
			"@@ -7 +7 @@\n 7\n 8\n 9\n-10\n+x\n 11\n 12\n 13\n"},
		{"two places", base, text(func(s []string) []string { s[0] = "x"; return append(s, "21") }),
			"@@ -1 +1 @@\n-1\n+x\n 2\n 3\n 4\n@@ -18 +18 @@\n 18\n 19\n 20\n+21\n"},
		{"inserted and removed", "a\nb\nc\nd\n", "a\nc\nx\nd\n", "@@ -1 +1 @@\n a\n-b\n c\n+x\n d\n"},
	} {
		if got := diffLines(tt.a, tt.b); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
	}
}

// FuzzDiffLines holds that the marked lines are both texts, whatever they are.
func FuzzDiffLines(f *testing.F) {
	f.Add("a\nb\n", "b\nc\n")
	f.Add("", "x\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := splitLines(a), splitLines(b)
		if len(x)*len(y) > 1e6 {
			t.Skip()
		}
		var before, after []string
		for _, line := range diffMiddle(x, y) {
			if line[0] != '+' {
				before = append(before, line[1:])
			}
			if line[0] != '-' {
				after = append(after, line[1:])
			}
		}
		if strings.Join(before, "\n") != strings.Join(x, "\n") || strings.Join(after, "\n") != strings.Join(y, "\n") {
			t.Errorf("the difference of %q and %q does not hold both", a, b)
		}
	})
}
