package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/rehearse"
	"skiff/internal/testcluster/state"
)

// rehearseFlags are the flags of `skiff-dev rehearse`.
type rehearseFlags struct {
	cli.Choice
	timeout time.Duration
	byOwner bool
	plain   bool
	save    string
	from    string
	cel     *apiserver.CEL
}

func newRehearse(cel *apiserver.CEL) *cobra.Command {
	f := rehearseFlags{cel: cel}
	cmd := &cobra.Command{
		Use:   "rehearse [flags]",
		Short: "Show what the controllers would do to a cluster, on a copy of it in this process",
		Long: `Copies what the controllers see of a cluster into an embedded API server: custom resources, their
children, the pods and what makes them, nodes, quotas and limit ranges; no Secrets and ConfigMaps but those that a hook
controller declares. The cluster is only read. Then it simulates the rest of the cluster, runs the controllers until
nothing is left to do but to wait, and prints what they wrote, in order of time; stderr says how far it is. Hooks
are told that it is a dry run, as by 'skiff plan'.

Exits with 0 if they wrote nothing, with 3 if they did, with 4 if something is in the way of a write or a controller
of --from-cluster cannot run (the others are rehearsed), and with 1 if there was no end to it within --timeout, or it
was stopped: what was found until then is printed.`,
		Example: `  skiff-dev rehearse                                            # the cluster of the kubeconfig
  skiff-dev rehearse --controllers webserver --watch-namespaces shop
  skiff-dev rehearse -f my-controller                           # a hook controller
  skiff-dev rehearse --from-cluster                             # those that the cluster declares
  skiff-dev rehearse --save cluster.state                       # a file for a bug report
  skiff-dev rehearse --from cluster.state --by-owner            # the same anywhere; compare two versions with diff`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.timeout <= 0 {
				return cli.Usagef("--timeout %s: must be positive", f.timeout)
			}
			if err := f.Check(cmd); err != nil {
				return err
			}
			switch {
			case f.save != "" && f.from != "":
				return cli.Usagef("--save and --from: give one of them")
			case f.plain && f.save == "":
				return cli.Usagef("--plain: it is for --save")
			case f.from != "" && f.FromCluster():
				return cli.Usagef("--from and --from-cluster: a file has no hook controllers, name them with -f")
			case f.save != "" && (f.HasHooks() || f.FromCluster()) && !f.plain:
				return cli.Usagef("--save: what hooks decide depends on values that would be replaced: " +
					"add --plain to keep all values, Secrets included")
			case f.save != "":
				return f.Exit(f.write(cmd))
			}
			return f.Exit(f.run(cmd))
		},
	}
	f.Add(cmd, "-f")
	f.AddLog(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute,
		"how long to wait until the copy is at rest and nothing is left to do")
	cmd.Flags().StringVar(&f.save, "save", "",
		"write the copy to a new `file` and do nothing else; values that may be secret are replaced")
	cmd.Flags().StringVar(&f.from, "from", "", "rehearse on the copy in a `file` of --save, without a cluster")
	cmd.Flags().BoolVar(&f.plain, "plain", false, "keep all values in the file of --save")
	cmd.Flags().BoolVar(&f.byOwner, "by-owner", false,
		"print the writes of each owner together and no times: two versions of skiff compare with diff")
	return cmd
}

func (f *rehearseFlags) run(cmd *cobra.Command) error {
	log, err := f.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	copied, err := f.read(cmd)
	if err != nil {
		return err
	}
	if copied == nil {
		return errors.New("stopped while the cluster was copied: nothing was rehearsed")
	}
	// What the controllers did is printed: one level below skiff run, the log has what failed.
	code, err := rehearse.Run(cmd.Context(), cmd.OutOrStdout(), rehearse.Options{State: copied, Start: f.Start,
		Rights: f.Rights(), CEL: f.cel, Timeout: f.timeout, ByOwner: f.byOwner, Log: log.V(1),
		Progress: cmd.ErrOrStderr()})
	if err != nil || code == cli.ExitDone {
		return err
	}
	return code
}

// read reads the file of --from, or the cluster.
func (f *rehearseFlags) read(cmd *cobra.Command) (*state.State, error) {
	if f.from == "" {
		return f.copy(cmd)
	}
	copied, err := cli.Until(cmd.Context(), func() (*state.State, error) { return state.Load(f.from) })
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	return copied, nil
}

// write copies the cluster to the file of --save.
func (f *rehearseFlags) write(cmd *cobra.Command) error {
	copied, err := f.copy(cmd)
	if err != nil || copied == nil {
		return err
	}
	values := "all values, also secret ones"
	if copied.Plain = f.plain; !f.plain {
		values = "values that may be secret are replaced"
		if err := copied.Redact(cli.Marks); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	bytes, err := copied.Save(f.save)
	if err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d objects, %d KiB; %s\n", f.save, len(copied.Objects),
		(bytes+1<<10-1)>>10, values)
	return err
}

// copy reads the cluster that the flags name.
func (f *rehearseFlags) copy(cmd *cobra.Command) (*state.State, error) {
	client, _, err := f.Connect(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := f.Declared(cmd, client); err != nil {
		return nil, err
	}
	scope := state.Scope{Rights: f.Rights(), Namespaces: f.Namespaces, Selector: f.Selector}
	for _, r := range f.References() {
		scope.Named = append(scope.Named, state.Named(r))
	}
	copied, err := state.Copy(cmd.Context(), client, scope)
	if errors.Is(err, context.Canceled) {
		return nil, cli.Ended(cmd.Context(), err)
	}
	return copied, err
}
