package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
)

const (
	// demoPatience is how long a step may take: some seconds on an idle machine, twenty on a busy one.
	demoPatience = time.Minute
	// demoLook is how often the tour looks whether a step is done: a user waits no longer for it, and it is little
	// work.
	demoLook = 100 * time.Millisecond
	// demoPodDelay is how long simulated pods take to start and stop: short, but long enough for a rollout to have an
	// order.
	demoPodDelay = 200 * time.Millisecond
)

// demoPods are the simulated pods of the tour.
var demoPods = simulate.Options{PodStartDelay: demoPodDelay, PodStopDelay: demoPodDelay}

func newDemo() *cobra.Command {
	page := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what the controllers do, step by step, on an embedded API server",
		Long: `A tour in one process, with nothing to install: an embedded API server, simulated nodes and the controllers.
Each step shows in three lines what was done, what skiff did and why, and what the cluster then is like, which is
compared with what it should be: exits with 1 if a step fails.

With --page it serves the live page, prints its URL first, and waits for Enter where there is something to see in a
browser.`,
		Example: `  skiff-dev demo
  skiff-dev demo --page      # to be watched in a browser`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "skiff-demo-")
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			t := tour{out: out, colours: cli.Coloured(out), patience: demoPatience, log: &actionLog{}}
			if page {
				t.enter = linesOf(cmd.Context(), cmd.InOrStdin())
			}
			d, err := newDevCluster(devOptions{listen: "127.0.0.1:0", kubeconfig: filepath.Join(dir, "kubeconfig"),
				log: t.log.logger(), simulate: demoPods})
			if err == nil {
				err = runDemo(cmd.Context(), d, t, demoSteps())
			}
			return errors.Join(err, os.RemoveAll(dir))
		},
	}
	cmd.Flags().BoolVar(&page, "page", false,
		"serve the live page, and wait for Enter where there is something to see")
	return cmd
}

// linesOf returns a channel that receives for each line, and is closed at the end. A read of a terminal cannot be
// cancelled: the goroutine ends with ctx and the next line, or with the process.
func linesOf(ctx context.Context, in io.Reader) <-chan struct{} {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			select {
			case lines <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// tour runs steps on a cluster and prints what happened.
type tour struct {
	out      io.Writer
	colours  bool
	patience time.Duration // for each step
	cluster  *devCluster
	client   *kube.Client // the user's
	log      *actionLog
	enter    <-chan struct{} // receives when the user has looked at the live page; nil: none is served
	page     string          // its URL
	looked   time.Duration   // for how long the user has looked
}

// runDemo runs the steps on a new cluster, as a tour with an output, a patience, a log and, for a live page, enter.
// The error names the step that failed.
func runDemo(ctx context.Context, d *devCluster, as tour, steps []step) error {
	began, out := time.Now(), as.out
	return onDemoCluster(ctx, d, as.log, func(ctx context.Context, t *tour) error {
		t.out, t.colours, t.patience, t.enter = out, as.colours, as.patience, as.enter
		if err := t.withControllers(ctx, func(ctx context.Context) error {
			if err := t.pause(ctx, ""); err != nil {
				return err
			}
			fmt.Fprintf(out, "An API server (Kubernetes %s, embedded) with simulated nodes, and controllers: %s.\n",
				apiserver.Version, strings.Join(cli.ControllerNames(), ", "))
			return t.walk(ctx, steps)
		}); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "\nAll %d steps passed in %.1f s. Now try it yourself, until Ctrl-C:\n\n  %s\n",
			len(steps), (time.Since(began) - t.looked).Seconds(), os.Args[0])
		return err
	})
}

// onDemoCluster gives work a tour of a new cluster, in which none of skiff's controllers runs yet.
func onDemoCluster(ctx context.Context, d *devCluster, log *actionLog,
	work func(ctx context.Context, t *tour) error) error {
	return d.run(ctx, "skiff-demo", func(ctx context.Context, user *kube.Client) error {
		if err := definitions.Ensure(ctx, user, demoPatience); err != nil {
			return err
		}
		return work(ctx, &tour{cluster: d, client: user, log: log})
	})
}

// withControllers runs skiff's controllers as long as work runs, which begins when all of them have started: what they
// then do has the user's step as its cause.
func (t *tour) withControllers(ctx context.Context, work func(context.Context) error) error {
	client, err := t.cluster.connect("") // skiff's own name, so that only its own requests carry it
	if err != nil {
		return err
	}
	defer client.Close()
	want := t.log.starts() + len(cli.ControllerNames())
	return cli.During(ctx, func(ctx context.Context) error {
		var flags cli.ControllerFlags
		if t.enter != nil {
			flags.ServePage()
			flags.OnPage(func(url string) { t.page = url }) // before any controller has started
		}
		flags.Add(new(cobra.Command)) // the defaults of skiff run, the floors of a RestartTrigger among them
		return cli.RunControllers(ctx, t.cluster.forControllers(client), flags, t.log.logger())
	}, func(ctx context.Context) error {
		patience := time.After(demoPatience)
		for t.log.starts() < want {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-patience:
				return fmt.Errorf("the controllers have not started within %s", demoPatience)
			case <-time.After(demoLook):
			}
		}
		return work(ctx)
	})
}

// pause says what is to be seen in a browser, and waits until the user has looked at it.
func (t *tour) pause(ctx context.Context, path string) error {
	if t.enter == nil {
		return nil
	}
	began := time.Now()
	if _, err := fmt.Fprintf(t.out, "    look: open %s%s, then press Enter\n", t.page, path); err != nil {
		return err
	}
	select {
	case <-t.enter:
		t.looked += time.Since(began)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *tour) walk(ctx context.Context, steps []step) error {
	for i, s := range steps {
		text := fmt.Sprintf("\n%2d  %s\n", i+1, t.painted(bold, "$ "+s.you))
		if s.part != "" {
			text = "\n" + t.painted(bold, s.part) + "\n" + text
		}
		if _, err := fmt.Fprint(t.out, text); err != nil {
			return err
		}
		if err := t.take(ctx, s); err != nil {
			return fmt.Errorf("demo: step %d, %s: %w", i+1, s.title, err)
		}
		if s.look == "" {
			continue
		}
		if err := t.pause(ctx, s.look); err != nil {
			return err
		}
	}
	return nil
}

// take does one step, waits until it is done, and prints what happened meanwhile.
func (t *tour) take(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.patience, fmt.Errorf("not within %s", t.patience))
	defer cancel()
	began := time.Now()
	t.log.forget()
	before, err := t.look(ctx)
	if err != nil {
		return err
	}
	if err := s.do(ctx, t.client); err != nil {
		return err
	}
	now, missing, err := t.await(ctx, s, before)
	text := "    skiff: " + now.logged
	if now.cause != "" {
		text += t.painted(faint, "  because "+now.cause)
	}
	text += "\n"
	switch {
	case err != nil:
	case missing == "":
		text += fmt.Sprintf("    %s %s (%.1f s)\n", t.painted(green, "✔"), s.proof, time.Since(began).Seconds())
	default:
		if err = fmt.Errorf("%w: %s", context.Cause(ctx), missing); now.failure != "" {
			err = fmt.Errorf("%w (the last error of a controller: %s)", err, now.failure)
		}
	}
	_, printed := fmt.Fprint(t.out, text)
	return errors.Join(err, printed)
}

// await looks at the cluster until the step is done, or ctx ends. It returns the last that was seen, and what
// that lacks. The error is that of a look.
func (t *tour) await(ctx context.Context, s step, before snapshot) (now snapshot, missing string, err error) {
	now, missing = before, "nothing was seen yet"
	for ctx.Err() == nil {
		switch seen, err := t.look(ctx); {
		case err == nil:
			if now, missing = seen, s.missing(before, seen); missing == "" {
				return now, "", nil
			}
		case ctx.Err() == nil:
			return now, missing, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(demoLook):
		}
	}
	return now, missing, nil
}

// How the tour is painted.
const green, bold, faint = "\x1b[32m", "\x1b[1m", "\x1b[2m"

// painted is a text in a colour, where the reader sees colours.
func (t *tour) painted(colour, text string) string {
	if !t.colours {
		return text
	}
	return colour + text + "\x1b[0m"
}
