package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The groups of flags in the help, in order. Flags without a group come first. Only an expert sets flags of Advanced.
// GroupCluster is about the cluster of skiff-dev.
const (
	groupConnection  = "Connection"
	GroupCluster     = "Cluster"
	groupControllers = "Controller"
	GroupServing     = "Serving"
	groupLog         = "Log"
	GroupAdvanced    = "Advanced"
)

var flagGroups = []string{groupConnection, GroupCluster, groupControllers, GroupServing, groupLog, GroupAdvanced}

// InGroup puts flags of a command into a group of its help: the annotation of that name has those of the group.
func InGroup(cmd *cobra.Command, group string, names ...string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[group] += strings.Join(names, " ") + " "
}

// groupUsage makes the help of root and of its commands show flags in groups. All else of it stays cobra's.
func groupUsage(root *cobra.Command) {
	standard := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		var text strings.Builder
		cmd.SetOut(&text)
		err := standard(cmd)
		cmd.SetOut(out)
		if err != nil {
			return err
		}
		all := "\n\nFlags:\n" + trimmed(cmd.LocalFlags().FlagUsages())
		_, err = io.WriteString(out, strings.Replace(text.String(), all, groupedFlags(cmd), 1))
		return err
	})
}

// groupedFlags is the part of a command's help about its flags.
func groupedFlags(cmd *cobra.Command) string {
	text := ""
	for _, group := range flagGroups {
		set := new(cobra.Command).Flags()
		for name := range strings.FieldsSeq(cmd.Annotations[group]) {
			f := cmd.LocalFlags().Lookup(name)
			set.AddFlag(f)
			defer func(hidden bool) { f.Hidden = hidden }(f.Hidden)
		}
		if set.HasAvailableFlags() {
			text += "\n\n" + group + " flags:\n" + trimmed(set.FlagUsages())
		}
		for name := range strings.FieldsSeq(cmd.Annotations[group]) {
			cmd.LocalFlags().Lookup(name).Hidden = true // the rest is what is not hidden
		}
	}
	return "\n\nFlags:\n" + trimmed(cmd.LocalFlags().FlagUsages()) + text // at least --help
}

func trimmed(text string) string { return strings.TrimRight(text, " \n") }
