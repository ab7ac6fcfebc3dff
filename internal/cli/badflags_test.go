package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// enough are the arguments with which a command could do its work, but for the server that does not answer.
var enough = map[string]string{
	"skiff run":          "--server https://127.0.0.1:1",
	"skiff restart":      "--server https://127.0.0.1:1 --selector app=redis --target deployment/a",
	"skiff watch":        "--server https://127.0.0.1:1 pods",
	"skiff check":        "--server https://127.0.0.1:1",
	"skiff crds diff":    "--server https://127.0.0.1:1",
	"skiff uninstall":    "--server https://127.0.0.1:1",
	"skiff crds install": "--server https://127.0.0.1:1",
}

// badFlags has for each flag a bad value and the whole message, DIR being a directory with the files dir (a
// directory), empty and words. "COMMAND --FLAG" is for the flag of one command. No message: the server judges the
// value. A flag that is not here is tried with what cannot be parsed.
var badFlags = map[string][2]string{
	"--request-timeout":    {"-1s", "--request-timeout -1s: must not be negative"},
	"--timeout":            {"0s", "--timeout 0s: must be more than 0"},
	"--watch-idle-timeout": {"-1s", "--watch-idle-timeout -1s: must not be negative"},
	"--watch-liveness-timeout": {"5m", "--watch-liveness-timeout 5m0s: must be at least 15m0s, within which each " +
		"watch is renewed"},
	"--max-concurrent-reconciles":   {"0", "--max-concurrent-reconciles 0: must be at least 1"},
	"--max-object-kib":              {"0", "--max-object-kib 0: must be at least 1"},
	"--mirror-memory-mib":           {"-1", "--mirror-memory-mib -1: must not be negative"},
	"--replicas":                    {"0", "--replicas 0: must be at least 1"},
	"--verbosity":                   {"-1", "--verbosity -1: must not be negative"},
	"--cooldown":                    {"48h", `--cooldown: "48h0m0s" is too long; at most 24h`},
	"--min-debounce":                {"-1s", "--min-debounce -1s: must not be negative"},
	"--min-cooldown":                {"-1s", "--min-cooldown -1s: must not be negative"},
	"--debounce":                    {"-1s", `--debounce: "-1s" is too short; at least 0s`},
	"--leader-elect-lease-duration": {"1500ms", "--leader-elect-lease-duration 1.5s: want whole seconds, at least 1s"},
	"--leader-elect-renew-deadline": {"0s", "--leader-elect-renew-deadline 0s: must be more than 0"},
	"--leader-elect-retry-period":   {"0s", "--leader-elect-retry-period 0s: must be more than 0"},
	"--as":                          {"a\nb", `--as: "a\nb" holds characters that a header cannot carry`},
	"--as-group":                    {"g", "--as-group: needs the user to impersonate (as, or --as)"},
	"--budget":                      {"5", `--budget "5": want MAX/DURATION, such as 5/1h`},
	"--certificate-authority":       {"DIR/empty", "--certificate-authority: DIR/empty holds no PEM certificate"},
	"--context":                     {"x", `context "x": no such context: no kubeconfig was found`},
	"--field-selector":              {"", ""},
	"--health-probe-bind-address":   {"8081", "--health-probe-bind-address 8081: want HOST:PORT or :PORT"},
	"--metrics-bind-address": {":web",
		"--metrics-bind-address :web: the port must be a number from 0 to 65535"},
	"--pprof-bind-address":        {"x", "--pprof-bind-address x: want HOST:PORT or :PORT"},
	"--image":                     {"My Image", `--image "My Image": an image name has no white space; want [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]`},
	"--kubeconfig":                {"DIR/dir", "read kubeconfig: read DIR/dir: is a directory"},
	"--leader-election-id":        {"a b", `--leader-election-id: "a b" is not a valid name of a Lease`},
	"--leader-election-namespace": {"No", `--leader-election-namespace: "No" is not a valid namespace name`},
	"--log-format":                {"yaml", `--log-format "yaml": want text or json`},
	"--namespace":                 {"My_Team", `--namespace: "My_Team" is not a valid namespace name`},
	"--namespaced":                {"a,B", `--namespaced: "B" is not a valid namespace name`},
	"skiff watch --output":        {"yaml", `--output "yaml": want json, name or wide`},
	"skiff check --output":        {"xml", `--output "xml": want json or yaml, or omit the flag`},
	"skiff version --output":      {"xml", `--output "xml": want json, or omit the flag`},
	"skiff restart --selector": {"a in (",
		`--selector "a in (": cannot read "a in (": want key=value, key!=value, key ` +
			"in (a,b), key notin (a,b), key or !key"},
	"--selector":        {"", ""},
	"--server":          {"ftp://h", `--server: scheme "ftp": want https or http`},
	"--template-policy": {"strict", `--template-policy "strict": must be one of any, baseline, restricted`},
	"--tls-server-name": {"h:443", `--tls-server-name: "h:443" is not a host name or address`},
	"--token": {"hush hush",
		"--token: is not a token: it holds white space or characters that a header cannot carry"},
	"--token-file": {"DIR/words",
		"--token-file: DIR/words is not a token: it holds white space or characters that a " +
			"header cannot carry"},
	"--watch-namespace-selector": {"<", `--watch-namespace-selector "<": "<" is not the key of a label`},
	"--watch-namespaces":         {"a,", `--watch-namespaces: "" is not a valid namespace name`},
	"--wire":                     {"protobuf", "--wire protobuf: want auto or json"},
	"--controllers": {"x",
		`--controllers: unknown controller "x": choose from webserver, redis, restart`},
	"--on": {"Never", `--on: "Never" is none of PodReplaced, PodIPChanged, ContainerRestarted, ` +
		"NewPodRunning, PodDeleted"},
	"--target": {"job/a", `--target "job/a": only a deployment, statefulset or daemonset can be restarted`},
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
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"empty": "", "words": "hush hush"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
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
			if bad[1] == "" {
				continue
			}
			args := append(strings.Fields(cmd.CommandPath())[1:], strings.Fields(enough[cmd.CommandPath()])...)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
