// Command skiff-dev is `skiff dev` with CEL: the embedded API server for tests, which also takes definitions that have
// rules in CEL, and evaluates them. All else is in package cli. The main goroutine runs the command, one more waits
// for signals.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"skiff/internal/cli"
	"skiff/internal/skiff-dev/cel"
)

func main() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // see cmd/skiff
	// What the real server's packages log is not for users of this one.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
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
	os.Exit(cli.DevMain(ctx, os.Args, os.Stdout, os.Stderr, cel.New()))
}
