// Package cli is the command line. It turns flags into options of the packages below, and their results into text and
// an exit code. Only this package imports cobra.
//
// It contains the commands with their help, the connection flags (read by package kubeconfig), the list of
// controllers, logging, the output of `skiff watch`, `skiff dev` and the tour of `skiff demo`. It does not handle
// signals (cancelling the caller's ctx stops a command), and it has nothing that is of use without a command line.
//
// Main runs the command on its caller's goroutine. The package is not on the event path, except that `skiff watch`
// prints on the goroutine of the Reflector.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skiff/internal/fakeapi"
)

// The exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitDiffer = 3 // of a command that compares or checks
)

// usageError is a mistake in the arguments of a command: it exits with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errDiffer makes a command that compares or checks exit with 3 and print no error: its output on stdout shows what
// differs, is missing or needs attention.
var errDiffer = errors.New("there are differences")

// Main runs skiff with the arguments after the program's name and returns the exit code: 0 done, 1 failed, 2 wrong
// usage, 3 something differs, or the exit code of the command that `skiff dev -- COMMAND` ran. Cancelling ctx stops a
// command; that is not a failure.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return execute(ctx, newRoot(nil), args, stdout, stderr)
}

// DevMain is Main for a program that is `skiff dev` with CEL, and with that in the programs of its assets, too. It
// takes a whole command line.
func DevMain(ctx context.Context, argv []string, stdout, stderr io.Writer, cel *fakeapi.CEL) int {
	args := Args(argv)
	if len(args) < len(argv) { // not the name of an asset
		args = append([]string{"dev"}, args...)
	}
	return execute(ctx, newRoot(cel), args, stdout, stderr)
}

// execute runs a command and returns the exit code of the program.
func execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false // while false, an error is from cobra's check of flags and arguments
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }

	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	var code exitCode
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errDiffer):
		return exitDiffer
	case errors.As(err, &code):
		return int(code)
	case !started || errors.As(err, &usage):
		fmt.Fprintf(stderr, "skiff: %s\nrun '%s --help'\n", firstLine(err), cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(stderr, "skiff: %s\n", withAdvice(err))
	return exitFailed
}

// firstLine drops the usage that cobra appends to some errors.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// newRoot makes the command skiff; cel is nil in skiff itself.
func newRoot(cel *fakeapi.CEL) *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "skiff",
		Short: "Kubernetes controllers over plain HTTP",
		Long: `skiff runs Kubernetes controllers over plain HTTP: one small static binary.

A WebServer becomes a Deployment and a Service, a Redis becomes numbered pods that are replaced in order, and a
RestartTrigger restarts a workload when pods that it depends on are replaced. 'skiff demo' shows this without a
cluster, 'skiff dev' starts a local API server for kubectl and for tests, 'skiff run' runs against a cluster.`,
		Example: `  skiff demo                          # a tour, needs no cluster
  skiff dev                           # an API server on this machine, with the controllers
  skiff crds install && skiff run     # against the cluster of your kubeconfig
  skiff watch pods -l app=web         # print each change to these pods`,
		Args:          cobra.ArbitraryArgs, // so that RunE can name an unknown command
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			if showVersion {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
				return err
			}
			return cmd.Help()
		},
	}
	// Not cobra's own --version: changing its text needs text/template, which calls methods by name, so that the
	// linker could not drop unused methods. That is 2 MB.
	root.Flags().BoolVar(&showVersion, "version", false, "print the version of this binary")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SuggestionsMinimumDistance = 2 // edits: two letters swapped, or one wrong and one missing
	root.SetHelpCommand(newHelp())
	root.AddCommand(newRun(), newRestart(), newDev(cel), newDemo(), newCheck(), newStatus(), newWatch(), newCRDs(),
		newManifests(), newUninstall(), newVersion(), newCompletion(),
		etcdProgram(), apiServerProgram(cel))
	return root
}

// group makes a command that has subcommands and does nothing itself.
func group(cmd *cobra.Command, sub ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(sub...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		var names []string
		for _, c := range sub {
			names = append(names, c.Name())
		}
		return usagef("%s needs a subcommand: %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func unknownCommand(cmd *cobra.Command, name string) error {
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return usagef("unknown command %q for %s: did you mean %s?", name, cmd.CommandPath(),
			strings.Join(near, " or "))
	}
	return usagef("unknown command %q for %s", name, cmd.CommandPath())
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("no help for %q: unknown command", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag() // cobra adds -h only to the command that runs
			return about.Help()
		},
	}
}

func newCompletion() *cobra.Command {
	generate := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	shells := slices.Sorted(maps.Keys(generate))
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a completion script for a shell",
		Example:   `  source <(skiff completion bash)`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("want one shell out of %s; got %q", strings.Join(shells, ", "), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return generate[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
