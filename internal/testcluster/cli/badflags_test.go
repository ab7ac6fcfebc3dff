package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/cli/clitest"
)

// badFlags has for each flag a bad value and the whole message, DIR being a directory with the file words.
var badFlags = map[string][2]string{
	"--kubeconfig-out": {"DIR/words/x",
		"--kubeconfig-out DIR/words/x: mkdir DIR/words: not a directory: choose a file that can be written"},
	"--listen": {"0.0.0.0:6443", "--listen 0.0.0.0:6443: must be a loopback address such as " +
		"127.0.0.1:6443"},
	"--ready-file": {"DIR/words/x",
		"--ready-file DIR/words/x: mkdir DIR/words: not a directory: choose a file that can be written"},
	"--audit-log": {"DIR/words/x", "--audit-log: open DIR/words/x: not a directory: choose a file that can " +
		"be written, or - for stdout"},
	"--data":   {"DIR/words", "--data DIR/words: it is a file: choose a directory, which may be new"},
	"--crds":   {"DIR/none", "--crds: stat DIR/none: no such file or directory"},
	"--faults": {"DIR/none", "--faults: DIR/none: open DIR/none: no such file or directory"},
	"--load":   {"DIR/words", "--load: DIR/words:1: is no Kubernetes object: want apiVersion, kind and metadata"},
	"--feature-gates": {"A=true", "--feature-gates: feature gate A: v1.36 has no such gate (AllAlpha and AllBeta: " +
		"name the gates)"},
	"--kubernetes-version": {"1.20", `--kubernetes-version: "1.20" is no version that this server can be; it can be ` +
		"1.32, 1.33, 1.34, 1.35, 1.36"},
	"--replicas": {"0", "--replicas 0: want a number from 1 to 16"},
	"--simulate": {"x", `--simulate: unknown part "x": choose from namespaces, quotas, gc, serviceaccounts, ` +
		"deployments, replicationcontrollers, statefulsets, daemonsets, jobs, cronjobs, endpoints, volumes, " +
		"budgets, scalers, policies, pods, leases, events, or use all or none alone"},
	"--bare":    {"maybe", "invalid argument \"maybe\" for \"--bare\" flag: " + notBool},
	"--rbac":    {"maybe", "invalid argument \"maybe\" for \"--rbac\" flag: " + notBool},
	"--version": {"maybe", "invalid argument \"maybe\" for \"--version\" flag: " + notBool},
	"--help":    {"maybe", "invalid argument \"maybe\" for \"-h, --help\" flag: " + notBool},
}

const notBool = `strconv.ParseBool: parsing "maybe": invalid syntax`

// flagOfHelp finds the flags in the help of a command.
var flagOfHelp = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`)

// The flags of the controllers are those of `skiff run`, and tested there.
func TestEveryFlagOfSkiffDevNamesItsBadValue(t *testing.T) {
	dir := writeFiles(t, map[string]string{"words": "hush hush"})
	var shared cobra.Command
	new(cli.ControllerFlags).Add(&shared)
	for _, match := range flagOfHelp.FindAllStringSubmatch(newRoot(nil).LocalFlags().FlagUsages(), -1) {
		name := match[1]
		if shared.Flags().Lookup(name) != nil {
			continue
		}
		bad, ok := badFlags["--"+name]
		if !ok {
			t.Errorf("there is no bad value of --%s", name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
		r := skiffDevs.Run(ctx, t, fmt.Sprintf("--%s=%s", name, strings.ReplaceAll(bad[0], "DIR", dir)))
		cancel()
		_, line, _ := strings.Cut("\n"+r.Stderr, "\nskiff-dev: ") // after the log
		line, _, _ = strings.Cut(line, "\n")
		got := strings.ReplaceAll(line, dir, "DIR")
		if got != bad[1] || r.Code != cli.ExitFailed && r.Code != cli.ExitUsage {
			t.Errorf("skiff-dev --%s=%s exits with %d and\n     %s\nwant %s", name, bad[0], r.Code, got, bad[1])
		}
	}
}
