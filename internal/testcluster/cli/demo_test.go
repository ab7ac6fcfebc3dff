package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
)

func TestDemoSucceedsAndSaysWhy(t *testing.T) {
	r := skiffDev(t, "demo")
	r.Want(t, cli.ExitDone)
	for i, s := range demoSteps() {
		_, rest, found := strings.Cut(r.Stdout, fmt.Sprintf("\n%2d  $ %s\n    skiff: ", i+1, s.you))
		_, proof, _ := strings.Cut(rest, "\n")
		if !found || !strings.HasPrefix(proof, "    ✔ "+s.proof+" (") {
			t.Errorf("the tour does not tell of %q in three lines", s.title)
		}
		if s.part != "" && !strings.Contains(r.Stdout, "\n"+s.part+"\n") {
			t.Errorf("the tour has no part %q", s.part)
		}
	}
	rest := r.Stdout
	for _, text := range []string{ // in this order
		"created Deployment default/web, Service default/web-service  because WebServer default/web ADDED\n",
		"applied Deployment default/web: spec.replicas  because WebServer default/web MODIFIED\n",
		"applied Deployment default/web: spec.template",
		"Service default/web-service", "DELETED", // or the Deployment first
		"applied Deployment default/web: spec.template",
		"created Service default/cache, pod cache-0, pod cache-1, pod cache-2: of revision",
		"deleted pod cache-2: 2 are declared  because Redis default/cache MODIFIED\n",
		"created pod cache-0: of revision", "because Pod default/cache-0 ",
		"deleted pod cache-1, created pod cache-1, deleted pod cache-0, created pod cache-0",
		"no write was needed",
		"created pod cache-0, restarted deployment/predixy: pod cache-0 replaced, new IP  because Pod ",
		"deleted pod cache-1, pod cache-0",
		"All 13 steps passed",
		"\n\n  " + os.Args[0] + "\n",
	} {
		var found bool
		if _, rest, found = strings.Cut(rest, text); !found {
			t.Fatalf("the tour does not say %q, or not in its place:\n%s", text, r.Stdout)
		}
	}
	if r.Stderr != "" {
		t.Errorf("stderr %q", r.Stderr)
	}
	if t.Failed() {
		t.Log(r.Stdout)
	}
}

// Rules: LP-01
func TestDemoServesThePageAndPrintsItsURLFirst(t *testing.T) {
	r := skiffDev(t, "demo", "--page") // whose input is empty: it waits for nothing
	r.Want(t, cli.ExitDone)
	url, _, ok := strings.Cut(strings.TrimPrefix(r.Stdout, "    look: open "), ", then press Enter\nAn API server")
	if !ok || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("it begins with %.200s", r.Stdout)
	}
	for _, path := range []string{"object/WebServer/default/web", "object/Redis/default/cache",
		"object/RestartTrigger/default/predixy"} {
		if !strings.Contains(r.Stdout, "\n    look: open "+url+path+", then press Enter\n") {
			t.Errorf("it does not show %s: %s", path, r.Stdout)
		}
	}
}

func TestTheTourWaitsForEnterForTheEndOfItsInputOrForItsOwnEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, enter := io.Pipe()
	lines := linesOf(ctx, in)
	tour := tour{out: io.Discard, enter: lines}
	go func() { _, _ = enter.Write([]byte("\n")) }() // the pipe is closed below
	if err := tour.pause(ctx, ""); err != nil {
		t.Errorf("after Enter: %v", err)
	}
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := tour.pause(ctx, ""); !errors.Is(err, stopped) {
		t.Errorf("after its end: %v", err)
	}
	if err := enter.Close(); err != nil {
		t.Fatal(err)
	}
	<-lines // is closed
	if err := tour.pause(t.Context(), ""); err != nil {
		t.Errorf("after the end of its input: %v", err)
	}
}

func TestTheTourHasColoursWhereTheyAreSeen(t *testing.T) {
	for colours, want := range map[bool]string{true: "\x1b[32m✔\x1b[0m", false: "✔"} {
		if got := (&tour{colours: colours}).painted(green, "✔"); got != want {
			t.Errorf("colours %t: %q", colours, got)
		}
	}
}

func nothing(context.Context, *kube.Client) error { return nil }

func TestDemoFailsWithTheStepThatFails(t *testing.T) { synctest.Test(t, demoFails) }

func demoFails(t *testing.T) {
	run := func(ctx context.Context, s step) error {
		return runDemo(ctx, pipeCluster(), tour{out: io.Discard, log: &actionLog{}, patience: time.Second}, []step{s})
	}

	empty := []string{"nothing is left"}
	err := run(t.Context(), step{title: "Wait", do: nothing, now: []string{"the moon is blue"}})
	if err == nil || !strings.Contains(err.Error(), "demo: step 1, Wait: not within 1s: there is\nnothing is "+
		"left\nwant\nthe moon is blue") {
		t.Errorf("error %v", err)
	}
	broken := errors.New("broken")
	err = run(t.Context(), step{title: "Break", do: func(context.Context, *kube.Client) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	err = run(t.Context(), step{title: "Event", do: nothing, now: empty, event: "Sang"})
	if err == nil || !strings.Contains(err.Error(), "there is no Event Sang") {
		t.Errorf("error %v", err)
	}
}

func TestAStepOfTheDemoSaysWhatWasReplacedAndWhatWasNot(t *testing.T) {
	of := func(a, b string) snapshot {
		s := snapshot{ids: map[string]string{}}
		for name, id := range map[string]string{"pod/a-0": a, "pod/b-0": b} {
			if id != "" {
				s.ids[name] = id
			}
		}
		return s
	}
	before := of("uid 1", "uid 2")
	for _, c := range []struct {
		now  snapshot
		want string
	}{
		{of("uid 1", "uid 2"), "pod/a-0 has not been replaced"},
		{of("uid 3", "uid 2"), ""},
		{of("uid 3", "uid 4"), "pod/b-0 has been replaced"},
		{of("", ""), ""},
	} {
		s := step{replaced: []string{"pod/a-"}}
		if got := s.missing(before, c.now); got != c.want {
			t.Errorf("now %v: %q, want %q", c.now.ids, got, c.want)
		}
	}
}

func TestAStarOfTheDemoStandsForTheRestOfALineOnly(t *testing.T) {
	for text, want := range map[string]bool{"a 1 b": true, "a  b": true, "a 1\n b": false, "a 1 b c": false} {
		if like(text, "a * b") != want {
			t.Errorf("like(%q) is %t", text, !want)
		}
	}
}

// Controllers may take half a minute to finish what is under way. What waits for the user's cluster must not.
func TestDemoEndsSoonWhenItIsInterrupted(t *testing.T) { synctest.Test(t, demoIsInterrupted) }

func demoIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	steps := slices.Concat(redisSteps(), restartSteps())
	last := &steps[len(redisSteps())] // the steps before it have left pods, mirrors and Events in flight
	last.now = []string{"more"}
	last.do = func(context.Context, *kube.Client) error {
		cancel(errors.New("interrupted"))
		return nil
	}
	ended := make(chan error, 1)
	go func() {
		ended <- runDemo(ctx, pipeCluster(), tour{out: io.Discard, log: &actionLog{}, patience: demoPatience}, steps)
	}()
	<-ctx.Done()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), last.title+": interrupted") {
			t.Errorf("error %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it goes on for more than five seconds")
		<-ended
	}
}

func TestNoStepOfTheDemoIsTrueOfAnEmptyCluster(t *testing.T) {
	for _, s := range demoSteps() {
		empty := snapshot{lines: []string{"nothing is left"}}
		if s.title != "Delete the WebServer" && s.missing(snapshot{}, empty) == "" {
			t.Errorf("%s: true of an empty cluster", s.title)
		}
	}
}

// Each step is done while no controller of skiff runs. Without them it must fail, and with them succeed.
func TestTheDemoShowsWhatSkiffDoes(t *testing.T) { synctest.Test(t, demoWithoutSkiff) }

func demoWithoutSkiff(t *testing.T) {
	err := onDemoCluster(t.Context(), pipeCluster(), &actionLog{}, func(ctx context.Context, tour *tour) error {
		for _, s := range demoSteps() {
			if err := withoutSkiff(ctx, t, tour, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// withoutSkiff takes a step while no controller runs, and then starts them.
func withoutSkiff(ctx context.Context, t *testing.T, tour *tour, s step) error {
	tour.log.forget()
	before, err := tour.look(ctx)
	if err != nil {
		return err
	}
	if s.missing(before, before) == "" {
		t.Errorf("%s: true before anything was done", s.title)
	}
	if err := s.do(ctx, tour.client); err != nil {
		return err
	}
	if s.title != "Delete the WebServer" { // which is the garbage collector's work
		alone, cancel := context.WithTimeout(ctx, 2*demoPodDelay)
		defer cancel()
		if _, missing, err := tour.await(alone, s, before); err != nil || missing == "" {
			t.Errorf("%s: true without skiff (%v)", s.title, err)
		}
	}
	return tour.withControllers(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, demoPatience)
		defer cancel()
		now, missing, err := tour.await(ctx, s, before)
		if missing != "" {
			t.Errorf("%s: fails: %s\n%s", s.title, missing, strings.Join(now.lines, "\n"))
		}
		return err
	})
}
