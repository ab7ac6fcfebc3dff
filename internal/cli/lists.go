package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// list is the value of a flag that takes several names, separated by commas. pflag reads the first line of such a
// value and drops the rest.
type list struct{ flagValue }

// flagValue is pflag's Value.
type flagValue interface {
	String() string
	Set(string) error
	Type() string
}

// Set refuses a value of several lines.
func (l list) Set(text string) error {
	if strings.ContainsAny(text, "\n\r") {
		return errors.New("it has a line break: separate names by commas, or give the flag several times")
	}
	return l.flagValue.Set(text)
}

// ListVar adds a flag that takes names, separated by commas.
func ListVar(cmd *cobra.Command, into *[]string, name string, initial []string, usage string) {
	cmd.Flags().StringSliceVar(into, name, initial, usage)
	f := cmd.Flags().Lookup(name)
	f.Value = list{f.Value}
}
