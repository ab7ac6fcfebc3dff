package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	// demoPatience is how long a step may take. Each takes some seconds at most on an idle machine.
	demoPatience = 15 * time.Second
	// demoLook is how often the tour looks whether a step has come true: a person waits no longer for it, and it is
	// little work.
	demoLook = 50 * time.Millisecond
	// demoPodDelay is how long simulated pods take to start and stop: short, but long enough for a rollout to have an
	// order.
	demoPodDelay = 200 * time.Millisecond
)

// demoPods are the simulated pods of the tour.
var demoPods = simulate.Options{PodStartDelay: demoPodDelay, PodStopDelay: demoPodDelay}

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show what the controllers do, step by step, on an embedded API server",
		Long: `A tour in one process, with nothing to install: an embedded API server, simulated nodes and the controllers.
Each step shows what was done, what skiff did and why, and what the cluster looks like then. Exits with 1 if a step
does not come true.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "skiff-demo-")
			if err != nil {
				return err
			}
			log := &actionLog{}
			d, err := newDevCluster(devOptions{listen: "127.0.0.1:0", kubeconfig: filepath.Join(dir, "kubeconfig"),
				log: log.logger(), simulate: demoPods})
			if err == nil {
				err = runDemo(cmd.Context(), cmd.OutOrStdout(), d, log, demoPatience, demoActs())
			}
			return errors.Join(err, os.RemoveAll(dir))
		},
	}
}

// act is the part of the tour that is about one controller.
type act struct {
	title string
	steps []step
}

// step is one station of the tour.
type step struct {
	title string
	you   string // what the user does, as they would type it
	do    func(ctx context.Context, c *kube.Client) error
	now   []string // what there is when the step has come true, all of it
	// objects that are others then than before, with new addresses: "Service/web-service", "Pod/web-" for all of web
	replaced []string
	pods     []string // what happened to pods, in order; nil: anything
	tells    []string // parts of what skiff logs that it did, each of which has to come
	event    string   // reason of an Event that has to come; "" for none
	proof    string   // what has come true then
}

// tour runs steps on a cluster and tells of them.
type tour struct {
	out      io.Writer
	patience time.Duration // for each step
	cluster  *devCluster
	client   *kube.Client // the user's
	pods     *podHistory
	log      *actionLog
	taken    int // steps that came true
}

// runDemo runs the acts on a new cluster. log gets what skiff logs. The error names the step that did not come true.
func runDemo(ctx context.Context, out io.Writer, d *devCluster, log *actionLog, patience time.Duration,
	acts []act) error {
	began := time.Now()
	return onDemoCluster(ctx, d, log, func(ctx context.Context, t *tour) error {
		t.out, t.patience = out, patience
		fmt.Fprintf(out, "An API server (Kubernetes %s, embedded) with simulated nodes, and controllers: %s.\n",
			fakeapi.Version, strings.Join(operatorNames(), ", "))
		if err := t.withControllers(ctx, func(ctx context.Context) error { return t.walk(ctx, acts) }); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "\nAll %d steps came true, in %.1f s. Now yours: skiff dev\n", t.taken,
			time.Since(began).Seconds())
		return err
	})
}

// onDemoCluster gives work a tour of a new cluster, in which none of skiff's controllers runs yet.
func onDemoCluster(ctx context.Context, d *devCluster, log *actionLog,
	work func(ctx context.Context, t *tour) error) error {
	return d.run(ctx, func(ctx context.Context) error {
		user, err := d.connect("skiff-demo")
		if err != nil {
			return err
		}
		defer user.Close()
		if err := installCRDs(ctx, user, demoPatience, io.Discard); err != nil {
			return err
		}
		pods := newPodHistory(user)
		return pods.follow(ctx, func(ctx context.Context) error {
			return work(ctx, &tour{cluster: d, client: user, pods: pods, log: log})
		})
	})
}

// withControllers runs skiff's controllers as long as work runs, which begins when they are ready.
func (t *tour) withControllers(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client, err := t.cluster.connect("") // skiff's own name, so that only its own requests carry it
	if err != nil {
		return err
	}
	defer client.Close()
	log := t.log.logger()
	all, recorders := newControllers(operatorNames(), controller.Setup{Client: client, Log: log}, client)
	ran := make(chan error, 1)
	m := manager.New(manager.Options{Controllers: all, Log: log})
	go func() { ran <- withRecorders(ctx, recorders, m.Run) }()
	if err = waitReady(ctx, all); err == nil {
		err = work(ctx)
	}
	stop()
	return errors.Join(err, <-ran)
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

func (t *tour) walk(ctx context.Context, acts []act) error {
	for _, a := range acts {
		if _, err := fmt.Fprintf(t.out, "\n%s\n", a.title); err != nil {
			return err
		}
		for _, s := range a.steps {
			if _, err := fmt.Fprintf(t.out, "\n%d  %s\n%s", t.taken+1, s.title,
				labelled("you", strings.Split(s.you, "\n"))); err != nil {
				return err
			}
			if err := t.take(ctx, s); err != nil {
				return fmt.Errorf("demo: step %d, %s: %w", t.taken+1, s.title, err)
			}
			t.taken++
		}
	}
	return nil
}

// take does one step, waits until it has come true, and tells what happened meanwhile.
func (t *tour) take(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.patience, fmt.Errorf("not within %s", t.patience))
	defer cancel()
	began := time.Now()
	before, err := t.look(ctx)
	if err != nil {
		return err
	}
	if t.lacks(s, before, before) == "" {
		return errors.New("it was true before anything was done, so it shows nothing")
	}
	if err := s.do(ctx, t.client); err != nil {
		return err
	}
	now, missing, err := t.await(ctx, s, before)
	if err == nil && missing != "" {
		err = fmt.Errorf("%w: %s", context.Cause(ctx), missing)
	}
	text := labelled("skiff", describe(t.log.take())) + labelled("now", now.lines)
	if err != nil {
		fmt.Fprint(t.out, text)
		if failure := t.log.failure(); failure != "" {
			err = fmt.Errorf("%w (the last error of a controller: %s)", err, failure)
		}
		return err
	}
	if s.event != "" {
		text += labelled("event", now.newEvents(before, s.event))
	}
	text += labelled("true", []string{fmt.Sprintf("%s (%.1f s)", s.proof, time.Since(began).Seconds())})
	_, err = fmt.Fprint(t.out, text)
	return err
}

// await looks at the cluster until the step has come true, or ctx ends. It returns the last that was seen, and what
// that lacks.
func (t *tour) await(ctx context.Context, s step, before world) (now world, missing string, err error) {
	now, missing = before, "nothing was seen yet"
	for {
		switch seen, err := t.look(ctx); {
		case err == nil:
			if now, missing = seen, t.lacks(s, before, seen); missing == "" {
				return now, "", nil
			}
		case ctx.Err() == nil:
			return now, missing, err
		}
		select {
		case <-ctx.Done():
			return now, missing, nil
		case <-time.After(demoLook):
		}
	}
}

// lacks says what has not come true of a step, "" if all has.
func (t *tour) lacks(s step, before, now world) string {
	if missing := s.missing(before, now); missing != "" {
		return missing
	}
	for _, part := range s.tells { // a log line comes a moment after the answer of the server that it is about
		if !t.log.has(part) {
			return "skiff has not logged that it " + part
		}
	}
	return ""
}

// missing says what is not yet in the world that has to be there, "" if all is.
func (s *step) missing(before, now world) string {
	if have, want := strings.Join(now.lines, "\n"), strings.Join(s.now, "\n"); !like(have, want) {
		return fmt.Sprintf("there is\n%s\nwant\n%s", have, want)
	}
	for name, old := range before.ids {
		for _, prefix := range s.replaced {
			if now := now.ids[name]; strings.HasPrefix(name, prefix) &&
				(now[0] == old[0] || now[1] == old[1] && now[1] != "") {
				return name + " has not been replaced"
			}
		}
	}
	if had := now.history[min(len(before.history), len(now.history)):]; s.pods != nil && !slices.Equal(had, s.pods) {
		return fmt.Sprintf("what happened to the pods: %s; want %s", strings.Join(had, ", "),
			strings.Join(s.pods, ", "))
	}
	if s.event != "" && len(now.newEvents(before, s.event)) == 0 {
		return "there is no Event " + s.event
	}
	return ""
}

// like compares text with a pattern, in which * stands for anything within a line.
func like(text, pattern string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + "$").MatchString(text)
}

// labelled puts lines under a label at the left margin. No lines give no text.
func labelled(label string, lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "   %-7s%s\n", label, line)
		label = ""
	}
	return b.String()
}
