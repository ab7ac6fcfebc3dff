package cli

import (
	"cmp"
	"context"
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
	all      bool   // the command reads objects of other kinds, too
	cluster  bool   // those of the cluster, instead of files
	selector string // of those of the cluster; "": all
}

func (f *hookFiles) add(cmd *cobra.Command) {
	name, short := f.name(), ""
	if name == "file" {
		short = "f"
	}
	cmd.Flags().StringArrayVarP(&f.paths, name, short, nil,
		"`file` or directory with the hook controllers, in YAML or JSON; several times: all of them")
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

// flags are those that name the controllers, as an administrator would type them.
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

// declared reads the controllers of the cluster.
func (f *hookFiles) declared(ctx context.Context, client *kube.Client) ([]*spec.Controller, error) {
	controllers, err := supervise.Declared(ctx, client, f.selector)
	if kube.IsNotFound(err) {
		return nil, fmt.Errorf("%w; install their definitions: `skiff crds install --hooks`", err)
	}
	if err == nil && len(controllers) == 0 {
		err = errors.New("the cluster has no such CompositeController or DecoratorController")
	}
	return controllers, err
}

// read reads the controllers of the files. All that is wrong with the files is printed, one problem a line.
func (f *hookFiles) read(cmd *cobra.Command) ([]*spec.Controller, error) {
	if len(f.paths) == 0 {
		if cmd.Flags().Lookup("from-cluster") != nil {
			return nil, Usagef("name the controllers with -f FILE or -f DIR, or give --from-cluster")
		}
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
		return nil, Usagef("%s: %w", cmp.Or(f.flag, "-f"), err)
	}
	return controllers, nil
}

// sorted returns a copy of names, each once and in order.
func sorted[T cmp.Ordered](names []T) []T { return slices.Compact(slices.Sorted(slices.Values(names))) }
