// Package cli is the command line of skiff, and turns flags into options of the packages below, and their results into
// text and an exit code.
//
// The package contains the commands with help, the connection flags (read by package kubeconfig), the list of
// controllers, logging and the output of `skiff watch`. Exported is the part shared with the command line of skiff-dev
// (package cli of the test cluster): signals and exit codes, the flags of the controllers, and how to run controllers.
// Nothing in the package is of use without a command line.
//
// Main runs the command on the caller's goroutine. The package is not on the event path, except that `skiff watch`
// prints on the goroutine of the Reflector.
package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Main runs skiff with the arguments after the program's name and returns the exit code: 0 done, 1 failed, 2 wrong
// usage, 3 something differs. Cancelling ctx stops a command; that is not a failure.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return Execute(ctx, newRoot(), args, stdout, stderr)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "skiff",
		Short: "Write a Kubernetes controller as a script",
		Long: `Write a Kubernetes controller as a script: a function in any language gets an object as JSON and
answers with the objects that should exist. skiff creates, repairs and deletes them, and says what it did and why.

Three controllers are included: a RestartTrigger restarts a workload when pods that it depends on are replaced, a
WebServer becomes a Deployment and a Service, and a Redis becomes numbered pods that are replaced in order. 'skiff run'
runs them against a cluster, 'skiff hooks run' runs yours.
Another program, skiff-dev, starts a test cluster on this machine; 'skiff-dev demo' shows there what skiff does.`,
		Example: `  skiff check                         # whether skiff has all that it needs here
  skiff crds install && skiff run     # against the cluster of your kubeconfig
  skiff plan                          # what it would write there, without writing
  skiff watch pods -l app=web         # print each change to these pods
  skiff hooks init shop --lang shell  # a controller of your own, in any language`,
		Args: cobra.ArbitraryArgs, // so that RunE can name an unknown command
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return UnknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.AddCommand(newRun(), newRestart(), newReload(), newCheck(), newStatus(), newPlan(), newWatch(),
		newCRDs(), newManifests(), newHooks(), newUninstall(), newCopy(), moved("dev", "skiff-dev"),
		moved("demo", "skiff-dev demo"))
	Complete(root)
	return root
}

// moved makes a hidden command that says which command of skiff-dev has taken its place.
func moved(name, now string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Is now " + now,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(cmd.ErrOrStderr(), "skiff: the test cluster is a program of its own now: instead of "+
				"'skiff %s' run '%s', with the same arguments\n", name, now)
			return ExitCode(ExitUsage)
		},
	}
}
