// Command skiff runs Kubernetes controllers over plain HTTP. All that it does is in package cli; here are the signals
// and the exit code. The main goroutine runs the command, one more waits for signals.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"skiff/internal/cli"
)

func main() {
	// When the reader of stdout exits (`skiff watch pods | head`), writes fail instead of killing the process. Not
	// signal.Ignore: the command of `skiff dev -- COMMAND` would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(cli.Interrupted{Signal: <-signals})
		first := time.Now()
		for range signals {
			if time.Since(first) > cli.SameSignal {
				os.Exit(1) // the second one means now
			}
		}
	}()
	os.Exit(cli.Main(ctx, cli.Args(os.Args), os.Stdout, os.Stderr))
}
