package cli

import (
	"strings"
	"testing"
)

// flagsByGroup are the names of the flags in a help, by the title above them.
func flagsByGroup(help string) map[string]string {
	groups, title := map[string]string{}, ""
	for line := range strings.Lines(help) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(line, " ") {
			title = name
		}
		if m := flagOfHelp.FindStringSubmatch(line); m != nil && title != "Examples" {
			groups[title] = strings.TrimSpace(groups[title] + " " + m[1])
		}
	}
	return groups
}

func TestTheHelpShowsFlagsInGroups(t *testing.T) {
	for _, row := range pairs(t, "flags.txt") {
		r := skiff(t, append(strings.Fields(row[0]), "--help")...)
		if got := lined(flagsByGroup(r.Stdout)); r.Code != 0 || got != row[1] {
			t.Errorf("skiff %s --help: got\n%s\nwant\n%s", row[0], got, row[1])
		}
		again := skiff(t, append([]string{"help"}, strings.Fields(row[0])...)...)
		if r.Stdout != again.Stdout {
			t.Errorf("skiff help %s: %s", row[0], again.Stdout)
		}
	}
}

func lined(groups map[string]string) string {
	var parts []string
	for _, title := range append([]string{"Flags"}, flagGroups...) {
		for _, name := range []string{title, title + " flags"} {
			if groups[name] != "" {
				parts = append(parts, name+": "+groups[name])
			}
		}
	}
	return strings.Join(parts, "\n")
}
