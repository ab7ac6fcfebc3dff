package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// enough are the arguments with which a command could do its work, but for the server that does not answer.
var enough = map[string]string{
	"skiff run":          "--server https://127.0.0.1:1",
	"skiff restart":      "--server https://127.0.0.1:1 --selector app=redis --target deployment/a",
	"skiff reload":       "--server https://127.0.0.1:1 --target deployment/a",
	"skiff watch":        "--server https://127.0.0.1:1 pods",
	"skiff check":        "--server https://127.0.0.1:1",
	"skiff status":       "--server https://127.0.0.1:1",
	"skiff plan":         "--server https://127.0.0.1:1",
	"skiff crds diff":    "--server https://127.0.0.1:1",
	"skiff uninstall":    "--server https://127.0.0.1:1",
	"skiff crds install": "--server https://127.0.0.1:1",
	"skiff hooks init":   "x --lang go",

	"skiff hooks run":       "-f testdata/hooks.yaml --server https://127.0.0.1:1",
	"skiff hooks call":      "-f testdata/hooks.yaml --parent testdata/thing.yaml --server https://127.0.0.1:1",
	"skiff hooks manifests": "--image a --from-cluster --server https://127.0.0.1:1",
	"skiff hooks role":      "--from-cluster --server https://127.0.0.1:1",
	"skiff hooks check":     "-f testdata/hooks.yaml --server https://127.0.0.1:1",
	"skiff hooks remove":    "-f testdata/hooks.yaml --server https://127.0.0.1:1",
}

// unparsable is a value that the type of a flag does not have, and the message.
func unparsable(name, shorthand, kind string) [2]string {
	name = "--" + name
	if shorthand != "" {
		name = "-" + shorthand + ", " + name
	}
	problem := map[string]string{
		"bool":     `strconv.ParseBool: parsing "maybe": invalid syntax`,
		"int":      `strconv.ParseInt: parsing "maybe": invalid syntax`,
		"duration": `time: invalid duration "maybe"`,
	}[kind]
	return [2]string{"maybe", fmt.Sprintf("invalid argument \"maybe\" for %q flag: %s", name, problem)}
}

// flagOfHelp finds the flags in the help of a command.
var flagOfHelp = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`)

func TestEveryFlagOfEveryCommandNamesItsBadValue(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	for name, content := range map[string]string{"empty": "", "words": "hush hush"} {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	badFlags := map[string][2]string{}
	for _, row := range pairs(t, "badflags.txt") {
		flag, value, _ := strings.Cut(row[0], "=")
		value, err := strconv.Unquote(`"` + value + `"`)
		if err != nil {
			t.Fatal(row[0], err)
		}
		badFlags[flag] = [2]string{value, row[1]}
	}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, match := range flagOfHelp.FindAllStringSubmatch(cmd.LocalFlags().FlagUsages(), -1) {
			name := match[1]
			f := cmd.LocalFlags().Lookup(name)
			bad, ok := badFlags[cmd.CommandPath()+" --"+name]
			if !ok {
				bad, ok = badFlags["--"+name]
			}
			if !ok {
				bad = unparsable(name, f.Shorthand, f.Value.Type())
			}
			if bad[1] == "-" {
				continue
			}
			args := append(strings.Fields(cmd.CommandPath())[1:], strings.Fields(enough[cmd.CommandPath()])...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			r := program.Run(ctx, t, append(args, "--"+name+"="+strings.ReplaceAll(bad[0], "DIR", dir))...)
			cancel()
			_, line, _ := strings.Cut("\n"+r.Stderr, "\nskiff: ") // after the log
			line, _, _ = strings.Cut(line, "\n")
			got := strings.ReplaceAll(line, dir, "DIR")
			if got != bad[1] || r.Code != ExitFailed && r.Code != ExitUsage {
				t.Errorf("%s --%s=%s exits with %d and\n     %s\nwant %s", cmd.CommandPath(), name, bad[0], r.Code,
					got, bad[1])
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}
