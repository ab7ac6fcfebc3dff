package cli

import (
	"fmt"
	"reflect"
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
	connection := "as as-group certificate-authority context kubeconfig server token token-file"
	expert := "insecure-loopback-http insecure-skip-tls-verify "
	for command, want := range map[string]map[string]string{
		"version": {"Flags": "help output"},
		"run": {"Flags": "help", "Connection flags": connection,
			"Controller flags": "controllers leader-elect leader-election-namespace template-policy " +
				"watch-namespace-selector watch-namespaces",
			"Serving flags": "health-probe-bind-address metrics-bind-address", "Log flags": "log-format verbosity",
			"Advanced flags": expert + "leader-elect-lease-duration leader-elect-renew-deadline " +
				"leader-elect-retry-period leader-election-id max-concurrent-reconciles max-object-kib min-cooldown " +
				"min-debounce mirror-memory-mib pprof-bind-address request-timeout tls-server-name " +
				"watch-idle-timeout watch-liveness-timeout wire"},
		"restart": {"Flags": "budget cooldown debounce help namespace on selector target",
			"Connection flags": connection, "Serving flags": "health-probe-bind-address metrics-bind-address",
			"Log flags": "log-format verbosity",
			"Advanced flags": expert + "min-cooldown min-debounce pprof-bind-address request-timeout " +
				"tls-server-name watch-idle-timeout watch-liveness-timeout wire"},
		"check": {"Flags": "help output policies", "Connection flags": connection,
			"Controller flags": "controllers leader-elect leader-election-namespace watch-namespace-selector " +
				"watch-namespaces", "Advanced flags": expert + "request-timeout tls-server-name wire"},
		"manifests": {"Flags": "crds help image namespace policies rbac-only replicas",
			"Controller flags": "controllers namespaced watch-namespace-selector"},
		"crds install": {"Flags": "help timeout wait", "Connection flags": connection,
			"Advanced flags": expert + "request-timeout tls-server-name wire"},
		"uninstall": {"Flags": "help keep-children keep-definitions namespace timeout yes",
			"Connection flags": connection,
			"Advanced flags":   expert + "request-timeout tls-server-name wire"},
		"status": {"Flags": "health-probe-bind-address help"},
	} {
		r := skiff(t, append(strings.Fields(command), "--help")...)
		if got := flagsByGroup(r.Stdout); r.Code != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("skiff %s --help: got\n%s\nwant\n%s", command, lined(got), lined(want))
		}
		again := skiff(t, append([]string{"help"}, strings.Fields(command)...)...)
		if r.Stdout != again.Stdout {
			t.Errorf("skiff help %s: %s", command, again.Stdout)
		}
	}
}

func lined(groups map[string]string) string {
	text := ""
	for _, title := range append([]string{"Flags"}, flagGroups...) {
		for _, name := range []string{title, title + " flags"} {
			if groups[name] != "" {
				text += fmt.Sprintln(name+":", groups[name])
			}
		}
	}
	return text
}
