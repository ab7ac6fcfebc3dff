package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/spec"
)

func newHooks() *cobra.Command {
	return group(&cobra.Command{
		Use:   "hooks",
		Short: "Write and run controllers whose decisions a program or a webhook makes",
		Long: `Hook controllers are the CompositeControllers and DecoratorControllers of metacontroller. A hook, which
is an HTTP endpoint or a program in any language, gets an object and its children as JSON, and answers with the
children and the status that it wants; skiff does the rest.`,
	}, newHooksInit(), newHooksRun(), newHooksCall(), newHooksRole(), newHooksCheck(), newHooksManifests(),
		newHooksRemove())
}

// hookFiles is -f of the commands of `skiff hooks`.
type hookFiles struct {
	paths []string
	all   bool // the command reads objects of other kinds, too
}

func (f *hookFiles) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.paths, "file", "f", nil,
		"`file` or directory with the controllers, in YAML or JSON; several times: all of them")
}

// read reads the controllers. All that is wrong with the files is printed, one problem a line.
func (f *hookFiles) read(cmd *cobra.Command) ([]*spec.Controller, error) {
	if len(f.paths) == 0 {
		return nil, Usagef("name the controllers with -f FILE or -f DIR")
	}
	controllers, warnings, err := spec.ReadFiles(f.paths)
	for _, w := range warnings {
		if !f.all {
			fmt.Fprintf(cmd.ErrOrStderr(), "skiff: %s\n", w)
		}
	}
	if problems := (*spec.Problems)(nil); errors.As(err, &problems) {
		fmt.Fprintln(cmd.ErrOrStderr(), problems)
		return nil, ExitCode(ExitUsage)
	} else if err != nil {
		return nil, Usagef("-f: %w", err)
	}
	return controllers, nil
}

// sorted returns a copy of names, each once and in order.
func sorted[T cmp.Ordered](names []T) []T { return slices.Compact(slices.Sorted(slices.Values(names))) }
