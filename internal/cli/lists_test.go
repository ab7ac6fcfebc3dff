package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestNoListOfAFlagIsCutAtALineBreak(t *testing.T) {
	tried := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, match := range flagOfHelp.FindAllStringSubmatch(cmd.LocalFlags().FlagUsages(), -1) {
			f := cmd.LocalFlags().Lookup(match[1])
			if f.Value.Type() != "stringSlice" {
				continue
			}
			tried++
			for _, text := range []string{"a\nb", "a,b\n", "a\rb"} {
				args := append(strings.Fields(cmd.CommandPath())[1:], strings.Fields(enough[cmd.CommandPath()])...)
				r := skiff(t, append(args, "--"+f.Name+"="+text)...)
				if r.Code != ExitUsage || !strings.Contains(r.Stderr, "--"+f.Name) ||
					!strings.Contains(r.Stderr, "line break") || r.Stdout != "" {
					t.Errorf("%s --%s=%q: %+v", cmd.CommandPath(), f.Name, text, r)
				}
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	if tried < 12 {
		t.Errorf("%d lists were tried", tried)
	}
}
