package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/controller"
	"skiff/internal/fakeapi"
	"skiff/internal/kube"
	"skiff/internal/manager"
	"skiff/internal/simulate"
)

const (
	// demoPatience is how long a step may take. Each takes a second or so on an idle machine.
	demoPatience = 15 * time.Second
	// demoLook is how often the tour looks whether a step has come true.
	demoLook = 20 * time.Millisecond
	// demoPodDelay is how long simulated pods take to start and stop: short, but long enough for a rollout to have an order.
	demoPodDelay = 200 * time.Millisecond
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show what the controllers do, step by step, on an embedded API server",
		Long: `A tour in one process, with nothing to install: an embedded API server, simulated nodes and the controllers. Each step shows what
was done, what skiff did and why, and what the cluster looks like then. Exits with 1 if a step does not come true.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "skiff-demo-")
			if err != nil {
				return err
			}
			err = runDemo(cmd.Context(), cmd.OutOrStdout(), filepath.Join(dir, "kubeconfig"), demoPatience, demoSteps())
			return errors.Join(err, os.RemoveAll(dir))
		},
	}
}

// step is one station of the tour.
type step struct {
	title string
	you   string // what the user does, as they would type it
	do    func(ctx context.Context, c *kube.Client, before world) error
	// missing says what has not come true yet, "" once all has. before is the cluster as it was when the step began.
	missing func(before, now world) string
	proof   string // what has come true then
}

// tour runs steps and tells of them.
type tour struct {
	out      io.Writer
	client   *kube.Client
	deeds    *deeds
	patience time.Duration // for each step
	before   world
}

// runDemo runs the steps on a cluster of their own. The error names the step that did not come true.
func runDemo(ctx context.Context, out io.Writer, kubeconfig string, patience time.Duration, steps []step) error {
	began := time.Now()
	told := &deeds{}
	d, err := newDevCluster(devOptions{listen: "127.0.0.1:0", kubeconfig: kubeconfig, log: told.logger(),
		simulate: simulate.Options{PodStartDelay: demoPodDelay, PodStopDelay: demoPodDelay}})
	if err != nil {
		return err
	}
	return d.run(ctx, func(ctx context.Context) error {
		controllers, err := d.connect("") // skiff's own name, so that only its own requests carry it
		if err != nil {
			return err
		}
		defer controllers.Close()
		user, err := d.connect("skiff-demo")
		if err != nil {
			return err
		}
		defer user.Close()
		if err := installCRDs(ctx, user, demoPatience, io.Discard); err != nil {
			return err
		}
		fmt.Fprintf(out, "An API server (Kubernetes %s, embedded) with simulated nodes, and the controllers of skiff: %s.\n",
			fakeapi.Version, strings.Join(operatorNames(), ", "))

		ctx, stop := context.WithCancel(ctx)
		defer stop()
		all, recorders := newControllers(operatorNames(), controllerOptions{client: controllers, log: told.logger()})
		ran := make(chan error, 1)
		m := manager.New(manager.Options{Controllers: all, Log: told.logger()})
		go func() { ran <- withRecorders(ctx, recorders, m.Run) }()
		t := &tour{out: out, client: user, deeds: told, patience: patience}
		if err = waitReady(ctx, all); err == nil {
			err = t.walk(ctx, steps)
		}
		stop()
		if err = errors.Join(err, <-ran); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "\nAll %d steps came true, in %.1f s. Now yours: skiff dev\n", len(steps), time.Since(began).Seconds())
		return err
	})
}

// waitReady waits until the controllers follow the server: what they then do has the user's step as its cause.
func waitReady(ctx context.Context, all []*controller.Controller) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, fmt.Errorf("not ready within %s", demoPatience))
	defer cancel()
	for _, c := range all {
		for err := c.Ready(); err != nil; err = c.Ready() {
			select {
			case <-ctx.Done():
				return fmt.Errorf("start controller: %w: %w", context.Cause(ctx), err)
			case <-time.After(demoLook):
			}
		}
	}
	return nil
}

func (t *tour) walk(ctx context.Context, steps []step) error {
	for i, s := range steps {
		if _, err := fmt.Fprintf(t.out, "\n%d  %s\n   you    %s\n", i+1, s.title, s.you); err != nil {
			return err
		}
		if err := t.take(ctx, s); err != nil {
			return fmt.Errorf("demo: step %d, %s: %w", i+1, s.title, err)
		}
	}
	return nil
}

// take does one step, waits until it has come true, and tells what happened meanwhile.
func (t *tour) take(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.patience, fmt.Errorf("not within %s", t.patience))
	defer cancel()
	began := time.Now()
	if err := s.do(ctx, t.client, t.before); err != nil {
		return err
	}
	missing, seen := "nothing was seen yet", t.before
	for {
		now, err := look(ctx, t.client)
		if err != nil && ctx.Err() == nil {
			return t.failed(ctx, err.Error())
		}
		if err == nil {
			seen = now
			if missing = s.missing(t.before, now); missing == "" {
				t.before = now
				return t.tell(s, now, time.Since(began))
			}
		}
		select {
		case <-ctx.Done():
			t.tellDeeds()
			fmt.Fprint(t.out, seen.text("   now    "))
			return t.failed(ctx, missing)
		case <-time.After(demoLook):
		}
	}
}

// failed explains a step that did not come true.
func (t *tour) failed(ctx context.Context, missing string) error {
	err := fmt.Errorf("%s", missing)
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %s", context.Cause(ctx), missing)
	}
	if failures := t.deeds.failures(); len(failures) > 0 {
		err = fmt.Errorf("%w (the last error of a controller: %s)", err, failures[len(failures)-1])
	}
	return err
}

func (t *tour) tell(s step, now world, took time.Duration) error {
	t.tellDeeds()
	_, err := fmt.Fprintf(t.out, "%s   true   %s (%.1f s)\n", now.text("   now    "), s.proof, took.Seconds())
	return err
}

// tellDeeds prints what skiff did since the last step, each with its cause.
func (t *tour) tellDeeds() {
	label := "skiff  "
	for _, d := range t.deeds.take() {
		fmt.Fprintf(t.out, "   %s%s\n            because %s\n", label, d.what, d.cause)
		label = "       "
	}
	if label == "skiff  " {
		fmt.Fprintf(t.out, "   skiff  had nothing to write\n")
	}
}
