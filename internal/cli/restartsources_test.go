package cli

import (
	"strings"
	"testing"

	"skiff/internal/operators/restart"
)

func TestRestartSourcesDecideTheRightsAndTheFlagOfTheDeployment(t *testing.T) {
	for flags, want := range map[string]struct {
		sources restart.Sources
		arg     string
	}{
		"":                       {restart.Sources{}, ""},
		"--restart-sources=pods": {restart.Sources{Pods: true}, ""},
		"--restart-sources=pods,configmaps": {restart.Sources{Pods: true, ConfigMaps: true},
			"--restart-sources=pods,configmaps"},
		"--restart-sources=secrets": {restart.Sources{Secrets: true}, "--restart-sources=secrets"},
	} {
		args := append([]string{"--controllers=restart"}, strings.Fields(flags)...)
		have := installed(t, args...)
		wantGrants(t, have["ClusterRole /skiff"], rightsOf([]string{"restart"}, want.sources))
		text := printed(t, append([]string{"manifests"}, args...)...)
		has := strings.Contains(text, "--restart-sources")
		if has != (want.arg != "") || !strings.Contains(text, want.arg) {
			t.Errorf("%s: the Deployment has not the flag %q:\n%s", flags, want.arg, text)
		}
		secrets := strings.Contains(text, "[secrets]") || strings.Contains(text, "secrets,")
		if secrets != want.sources.Secrets {
			t.Errorf("%s: a right to Secrets: %t\n%s", flags, secrets, text)
		}
	}
	for _, flags := range []string{"--restart-sources=", "--restart-sources=pod", "-- --restart-sources=secrets"} {
		skiff(t, append([]string{"manifests"}, strings.Fields(flags)...)...).Want(t, ExitUsage, "--restart-sources")
	}
}
