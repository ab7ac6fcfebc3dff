package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/manager"
	"skiff/internal/runtime/process"
)

// The exit codes of every command.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitDiffer = 3 // of a command that compares or checks
)

// usageError is a mistake in the arguments of a command: it exits with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef returns the error of a mistake in the arguments of a command: the program exits with 2.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errDiffer makes a command that compares or checks exit with 3 and print no error: the output on stdout shows all
// that differs, is missing or needs attention.
var errDiffer = errors.New("there are differences")

// ExitCode makes the program exit with this code and print no error: the command has printed what is wrong.
type ExitCode int

// Error describes the code, for an exit joined with another error.
func (c ExitCode) Error() string { return fmt.Sprintf("the command exited with %d", int(c)) }

// Interrupted is the cause of the end of a context that a signal has ended.
type Interrupted struct{ os.Signal }

// Error says why a command stopped.
func (Interrupted) Error() string { return "interrupted by a signal" }

// SameSignal is how soon after a signal a second counts as the same: timeout(1) and Ctrl-C in a container signal the
// process, and then the process group.
const SameSignal = 100 * time.Millisecond

// stopTimeout is how long after the first signal a program ends in any case: a drain takes half a minute, and the rest
// seconds. Each awaited part has a bound of its own, and is named when the bound is over.
const stopTimeout = time.Minute

// Protect keeps programs that skiff runs from its memory and descriptors. Where the kernel refuses, they are as
// trusted as skiff.
func Protect() { _ = process.Protect() }

// RunMain is the function main of a program: RunMain runs the program's command and exits with the command's code.
// SIGINT and SIGTERM cancel ctx; a second signal exits with 1 at once, and so does the first after stopTimeout. One
// more goroutine waits for signals, until the process ends. Lines logged by net/http itself go nowhere: such lines do
// not have the form of the log, and a stderr that is not read would hold up connections.
func RunMain(command func(ctx context.Context) int) {
	// When the reader of stdout exits (`skiff watch pods | head`), writes fail instead of killing the process. Not
	// signal.Ignore: the command of `skiff-dev -- COMMAND` would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	log.SetOutput(io.Discard)
	go func() {
		cancel(Interrupted{<-signals})
		first, late := time.Now(), time.After(stopTimeout)
		for {
			select {
			case <-signals:
				if time.Since(first) > SameSignal {
					exit(ExitFailed) // the second one means now
				}
			case <-late:
				say(os.Stderr, "%s: still running %s after a signal to stop: exiting\n", filepath.Base(os.Args[0]),
					stopTimeout)
				exit(ExitFailed)
			}
		}
	}()
	exit(command(ctx))
}

// exit ends the process, and with the process all credential plugins and hooks that still run. A program that is being
// started from a disk that hangs keeps other callers waiting, but not the exit.
func exit(code int) {
	manager.EndsWithin(time.Second, process.EndAll)
	os.Exit(code)
}

// Execute runs the command that args select below root and returns the exit code of the program. Errors begin with the
// name of root.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, out io.Writer) int {
	stderr := &Stderr{out: out}
	defer stderr.close()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ctx = context.WithValue(ctx, stderrKey{}, stderr)
	started := false // while false, an error is from cobra's check of flags and arguments
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	var code ExitCode
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, errDiffer):
		return ExitDiffer
	case errors.As(err, &code):
		return int(code)
	case !started || errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %s\nrun '%s --help'\n", root.Name(), firstLine(err), cmd.CommandPath())
		return ExitUsage
	}
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), withAdvice(err))
	return ExitFailed
}

// firstLine drops the usage that cobra appends to some errors.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Complete makes root the root of a program: it adds the flag --version and the commands help, version and completion.
// The RunE of root is called without --version.
func Complete(root *cobra.Command) {
	var showVersion bool
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !showVersion {
			return run(cmd, args)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine(root.Name()))
		return err
	}
	// Not cobra's own --version: changing the text needs text/template, which calls methods by name, so that the
	// linker could not drop unused methods: 2 MB.
	root.Flags().BoolVar(&showVersion, "version", false, "print the version of this binary")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(unknownFlag)
	root.SetHelpCommand(newHelp())
	groupUsage(root)
	root.AddCommand(newVersion(), newCompletion(root.Name()))
}

// group makes a command that has subcommands and does nothing itself.
func group(cmd *cobra.Command, sub ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(sub...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		var names []string
		for _, c := range sub {
			names = append(names, c.Name())
		}
		return Usagef("%s needs a subcommand: %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := Usagef("%s takes no arguments, got %.100q", cmd.CommandPath(), args[0])
	if f := cmd.Flags().Lookup("file"); f != nil && f.Shorthand == "f" {
		err = Usagef("%w: did you mean -f %s?", err, kube.Printable(args[0], 100))
	}
	return err
}

// UnknownCommand is the error for a name that is none of the subcommands of cmd.
func UnknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return Usagef("unknown command %.100q for %s: %s", name, cmd.CommandPath(), Instead(name, names))
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = UnknownCommand(about, rest[0])
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag() // cobra adds -h only to the command that runs
			return about.Help()
		},
	}
}

func newCompletion(program string) *cobra.Command {
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
		Example:   "  source <(" + program + " completion bash)",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return Usagef("want one shell out of %s; got %q", strings.Join(shells, ", "), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return generate[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}

// During runs work while service runs. The context of work ends with ctx, and when service does; that of service ends
// when work has returned.
func During(ctx context.Context, service, work func(context.Context) error) error {
	serving, stopService := context.WithCancel(context.WithoutCancel(ctx))
	defer stopService()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		defer stop()
		failed = service(serving)
	})
	err := work(ctx)
	stopService()
	running.Wait()
	return errors.Join(err, failed)
}

// Until calls read, which reads files named by a user, and returns the result, or an error once ctx ends: a pipe that
// nobody writes to blocks for ever. The goroutine of read is then left to the end of the process.
func Until[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Ended drops the error of a request that failed because ctx was cancelled: the user stopped the command.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
