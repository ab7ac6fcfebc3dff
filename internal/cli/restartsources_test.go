package cli

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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

func TestFlagsOfSkiffRestartBecomeSources(t *testing.T) {
	f := restartFlags{configMaps: []string{"app:b", "all:x", "app:a", "all"}, secrets: []string{"tls"},
		targets: []string{"deployment/web"}, debounce: restart.DefaultDebounce, cooldown: restart.DefaultCooldown}
	f.servingFlags.add(new(cobra.Command)) // the defaults
	spec := must(f.spec())(t)
	s := spec.Source
	wantMaps := []restart.ConfigSource{{Name: "app", Keys: []string{"b", "a"}}, {Name: "all"}}
	wantSecrets := []restart.ConfigSource{{Name: "tls"}}
	if !reflect.DeepEqual(s.ConfigMaps, wantMaps) || !reflect.DeepEqual(s.Secrets, wantSecrets) {
		t.Errorf("ConfigMaps %+v, Secrets %+v", s.ConfigMaps, s.Secrets)
	}
	var resources []string
	for _, r := range spec.Rights() {
		resources = append(resources, r.Resource.Plural)
	}
	if want := []string{"configmaps", "secrets", "deployments"}; !slices.Equal(resources, want) {
		t.Errorf("rights to %q, want %q", resources, want)
	}
	f.configMaps, f.secrets = nil, nil
	if _, err := f.spec(); err == nil || !strings.Contains(err.Error(), "--configmap") {
		t.Errorf("without a source: %v", err)
	}
}
