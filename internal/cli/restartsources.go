package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/operators/restart"
)

// sourceFlags say which resources may be sources of a RestartTrigger. Nobody grants the right to read all Secrets by
// default.
type sourceFlags struct {
	restart.Sources
	names []string
	all   bool // by default
}

func (f *sourceFlags) add(cmd *cobra.Command) {
	byDefault := restart.SourceNames[:1]
	if f.all {
		byDefault = restart.SourceNames
	}
	ListVar(cmd, &f.names, "restart-sources", byDefault,
		"`resources` that may be a source of a RestartTrigger: pods, configmaps, secrets; skiff has to list them")
	InGroup(cmd, groupControllers, "restart-sources")
}

// check also sets the Sources.
func (f *sourceFlags) check() error {
	if len(f.names) == 0 {
		return Usagef("--restart-sources: name at least one of %s", strings.Join(restart.SourceNames, ", "))
	}
	for _, name := range f.names {
		if !slices.Contains(restart.SourceNames, name) {
			return Usagef("--restart-sources: unknown resource %q: %s", name, Instead(name, restart.SourceNames))
		}
	}
	f.Sources = restart.SourcesOf(f.names)
	return nil
}

// argument is the flag with its value as for a command; "": the value is the default of `skiff run`.
func (f *sourceFlags) argument() string {
	if f.Sources == (restart.Sources{}) || f.Sources == restart.SourcesOf(restart.SourceNames[:1]) {
		return ""
	}
	return "--restart-sources=" + strings.Join(f.names, ",")
}
