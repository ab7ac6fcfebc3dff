package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/kube"
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

// hookFiles are the flags of the commands of `skiff hooks` that say which controllers they are about.
type hookFiles struct {
	paths    []string
	flag     string // the flag that names the files; "": -f
	cluster  bool   // those of the cluster, instead of files
	selector string // of those of the cluster; "": all
	// verbosity is that of the log; nil: the command has none. Objects of other kinds are named from 1 on.
	verbosity *int

	invalid []supervise.Invalid // controllers that are left out; see readValid and declared
}

func (f *hookFiles) add(cmd *cobra.Command) {
	name, short := f.name(), ""
	if name == "file" {
		short = "f"
	}
	cmd.Flags().StringArrayVarP(&f.paths, name, short, nil,
		"`file` or directory (with its hook/) with the hook controllers, in YAML or JSON; several times: all of them")
}

// name is the long name of the flag.
func (f *hookFiles) name() string {
	if f.flag == "--hooks" {
		return "hooks"
	}
	return "file"
}

// addCluster adds the flags that take the controllers from the cluster, instead of from files.
func (f *hookFiles) addCluster(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.cluster, "from-cluster", false,
		"the CompositeControllers and DecoratorControllers of the cluster, instead of files")
	fs.StringVar(&f.selector, "target-label-selector", "", "label `selector` of the controllers of --from-cluster")
}

// check checks the flags.
func (f *hookFiles) check() error {
	if err := supervise.CheckSelector(f.selector); err != nil {
		return Usagef("--target-label-selector %q: %w", f.selector, err)
	}
	switch {
	case len(f.paths) > 0 && f.cluster:
		return Usagef("%s and --from-cluster: give one of them", cmp.Or(f.flag, "-f"))
	case f.selector != "" && !f.cluster:
		return Usagef("--target-label-selector: it is for --from-cluster")
	}
	return nil
}

// flags are the flags that name the controllers, as an administrator would type.
func (f *hookFiles) flags() string {
	if !f.cluster {
		return " -f " + strings.Join(f.paths, " -f ")
	}
	if f.selector == "" {
		return " --from-cluster"
	}
	return " --from-cluster --target-label-selector '" + f.selector + "'"
}

// rights are those that finding the controllers takes.
func (f *hookFiles) rights() []kube.Right {
	if !f.cluster {
		return nil
	}
	return supervise.Rights
}

// declared reads the controllers of the cluster. Invalid ones are printed and left out: see exit.
func (f *hookFiles) declared(cmd *cobra.Command, client *kube.Client) ([]*spec.Controller, error) {
	controllers, invalid, err := supervise.Declared(cmd.Context(), client, f.selector)
	switch {
	case kube.IsNotFound(err):
		return nil, fmt.Errorf("%w; install their definitions: `skiff crds install --hooks`", err)
	case err != nil:
		return nil, err
	case len(controllers)+len(invalid) == 0:
		return nil, errors.New("the cluster has no such CompositeController or DecoratorController")
	}
	for _, one := range invalid {
		f.leaveOut(cmd, one)
	}
	if len(controllers) == 0 {
		return nil, ExitCode(ExitFailed)
	}
	return controllers, nil
}

// leaveOut prints what is wrong with a controller of the cluster.
func (f *hookFiles) leaveOut(cmd *cobra.Command, one supervise.Invalid) {
	f.invalid = append(f.invalid, one)
	for line := range strings.Lines(one.Err.Error()) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: --from-cluster: %s %s: %s\n", cmd.Root().Name(), one.Kind,
			one.Name, strings.TrimSuffix(line, "\n"))
	}
}

// exit makes a command that has left out invalid controllers exit with a code: the code of the command's own failure,
// else 2 for files, or code. err is how the command ended otherwise.
func (f *hookFiles) exit(err error, code ExitCode) error {
	own := ExitCode(ExitFailed)
	mild := err == nil || errors.Is(err, errDiffer) || errors.As(err, &own) && own != ExitFailed
	switch {
	case len(f.invalid) == 0 || !mild:
		return err
	case !f.cluster:
		return ExitCode(ExitUsage)
	}
	return code
}

// read reads the controllers of the files, and prints all problems of the files, one a line.
func (f *hookFiles) read(cmd *cobra.Command) ([]*spec.Controller, error) {
	controllers, err := f.readValid(cmd)
	if err == nil && len(f.invalid) > 0 {
		err = ExitCode(ExitUsage)
	}
	return controllers, err
}

// readValid is read, and leaves invalid controllers out: see exit.
func (f *hookFiles) readValid(cmd *cobra.Command) ([]*spec.Controller, error) {
	if len(f.paths) == 0 {
		if cmd.Flags().Lookup("from-cluster") != nil {
			return nil, Usagef("name the controllers with -f FILE or -f DIR, or give --from-cluster")
		}
		return nil, Usagef("name the controllers with -f FILE or -f DIR")
	}
	controllers, warnings, err := spec.ReadValid(f.paths)
	defer func() { // after what is wrong
		for _, w := range warnings {
			if f.verbosity != nil && *f.verbosity > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.Root().Name(), w)
			}
		}
	}()
	if problems := (*spec.Problems)(nil); errors.As(err, &problems) {
		fmt.Fprintln(cmd.ErrOrStderr(), problems)
		if len(controllers) == 0 {
			return nil, ExitCode(ExitUsage)
		}
		f.invalid = append(f.invalid, supervise.Invalid{Name: "of " + strings.Join(f.paths, ", "), Err: problems})
	} else if err != nil {
		return nil, Usagef("%s: %w", cmp.Or(f.flag, "-f"), err)
	}
	return controllers, nil
}

// sorted returns a copy of names, each once and in order.
func sorted[T cmp.Ordered](names []T) []T { return slices.Compact(slices.Sorted(slices.Values(names))) }
