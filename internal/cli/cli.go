// Package cli is the command line: flags become the options of the packages below, and their results become text and
// an exit code. It is the only package that knows cobra.
//
// Its job: the commands and their help, where to connect (through package kubeconfig), which controllers there are,
// logging, what `skiff watch` prints, and the tour of `skiff demo`. Not its job: signals (the caller's ctx ends a
// command) and anything that could be wanted without a command line.
//
// Main runs the command on its caller's goroutine. It is not on the event path, but for `skiff watch`, whose printer
// runs on the goroutine of the Reflector.
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
)

// The exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake in how a command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errQuiet makes a command exit with 1 without a message: what it printed on stdout says it all.
var errQuiet = errors.New("")

// Main runs skiff with the arguments behind the program's name and returns the exit code: 0 done, 1 failed, 2 wrong
// usage. The end of ctx is how a command that would run for ever is stopped; that is no failure.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false // false: the error is cobra's, about flags and arguments
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }

	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errQuiet):
		return exitFailed
	case !started || errors.As(err, &usage):
		fmt.Fprintf(stderr, "skiff: %s\nrun '%s --help'\n", firstLine(err), cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(stderr, "skiff: %s\n", withAdvice(err))
	return exitFailed
}

// firstLine leaves out the lines that cobra adds to some errors.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func newRoot() *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "skiff",
		Short: "Kubernetes controllers over plain HTTP",
		Long: `skiff runs Kubernetes controllers over plain HTTP: one small static binary.

It makes a Deployment and a Service of a WebServer, runs the pods of a Redis, and restarts what a RestartTrigger names when pods that
it depends on are replaced. Try it without a cluster with 'skiff demo', play with it through kubectl with 'skiff dev', run it
against a cluster with 'skiff run'.`,
		Example: `  skiff demo                          # a tour, nothing needed
  skiff dev                           # an API server on this machine, with the controllers in it
  skiff crds install && skiff run     # against the cluster of your kubeconfig
  skiff watch pods -l app=web         # what happens to these pods, for ever`,
		Args:          cobra.ArbitraryArgs, // so that RunE can say which command it does not know
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
	// cobra's own --version wants a template for other words than its own, and text/template, which calls methods by
	// name, would keep the linker from leaving out unused methods: 2 MB.
	root.Flags().BoolVar(&showVersion, "version", false, "print the version of this binary")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SuggestionsMinimumDistance = 2 // two letters swapped, or one wrong and one missing
	root.SetHelpCommand(newHelp())
	root.AddCommand(newRun(), newRestart(), newDev(), newDemo(), newWatch(), newCRDs(), newVersion(), newCompletion())
	return root
}

// group makes a command that only has subcommands.
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
		return usagef("%s needs one of the commands %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// noArgs is for commands without arguments.
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
				return usagef("no help for %q: there is no such command", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag() // cobra adds -h only to a command that is run
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
				return usagef("want the name of one shell, %s, got %q", strings.Join(shells, ", "), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return generate[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
