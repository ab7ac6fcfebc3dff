package cli

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
)

// consoleOf returns what is written of do, with the time of each line as TIME.
func consoleOf(verbosity int, brief bool, width int, do func(log logr.Logger)) string {
	var out bytes.Buffer
	log := newConsole(&out, verbosity, brief)
	log.GetSink().(console).width = width
	do(log.WithSink(logLines{LogSink: log.GetSink()}))
	return regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(out.String(), "TIME")
}

// aRun returns the log of a run, and that of its end, as a Controller makes them.
func aRun(log logr.Logger, name, outcome string) (during, end logr.Logger) {
	during = log.WithValues("controller", "redis", "key", kube.Key{Namespace: "shop", Name: name}, "cause",
		"Pod shop/"+name+"-0 DELETED")
	return during, during.WithValues("duration_ms", 11.5, "outcome", outcome)
}

func TestTheConsoleHasALineForARunThatChangedSomething(t *testing.T) {
	do := func(log logr.Logger) {
		log.Info("starting", "version", "v1")
		during, end := aRun(log, "cache", "done")
		during.Info("created", "child", "Service shop/cache")
		during.Info("created", "pod", "cache-0", "reason", "CreatePod", "uid", "u")
		end.Info("reconciled", "writes", 3)
		for range 3 {
			during.Info("foreign", "child", "Service shop/x", "message", "not mine")
			end.Info("reconciled", "writes", 1)
		}
		_, end = aRun(log, "cache", "done") // wrote the status alone
		end.Info("reconciled", "writes", 1)
		end.V(1).Info("reconciled")
		during.Info("degraded", "reason", "PodNotReady", "message", "pod cache-0 is not ready")
		log.Info("waiting", kube.Warn("problem", "pods: 403 Forbidden")...)
	}
	const line = "TIME  redis  shop/cache  created Service cache, Pod cache-0  " +
		"because of Pod cache-0 DELETED  12 ms\n"
	const rest = "TIME  redis  shop/cache  foreign Service shop/x: not mine\n" +
		"TIME  redis  shop/cache  degraded: pod cache-0 is not ready\nTIME  waiting: pods: 403 Forbidden\n"
	if got, want := consoleOf(0, false, 0, do), "TIME  starting  version=v1\n"+line+rest; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := consoleOf(0, true, 0, do), line+rest; got != want {
		t.Errorf("brief: got  %s\nwant %s", got, want)
	}
	got := consoleOf(1, false, 0, do)
	if strings.Count(got, "wrote the status") != 4 || strings.Count(got, "\n") != 10 {
		t.Errorf("-v 1: %s", got)
	}
}

func TestTheConsoleColoursWarningsAndErrors(t *testing.T) {
	var out bytes.Buffer
	log := must((&logFlags{format: "console"}).plainLogger(&out))(t)
	log.GetSink().(logLines).LogSink.(console).coloured = true
	log.Info("starting")
	log.Info("lines were dropped", kube.Warn("lines", 3)...)
	log.Error(errors.New("no luck"), "failed")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, colour := range []string{"", yellow, red} {
		if i >= len(lines) || strings.Contains(lines[i], "\x1b") != (colour != "") ||
			!strings.HasPrefix(lines[i], colour) {
			t.Errorf("lines %q: the colour of line %d is not %q", lines, i, colour)
		}
	}
}

func TestTheConsoleShortensNamesByTheNamespaceOfTheObjectAlone(t *testing.T) {
	for key, want := range map[kube.Key]string{
		{Namespace: "shop", Name: "cache"}: "shop/cache  created Service web  because of Pod web-0 DELETED",
		{Name: "shop"}:                     "shop  created Service shop/web  because of Pod shop/web-0 DELETED",
	} {
		got := consoleOf(0, false, 0, func(log logr.Logger) {
			log = log.WithValues("key", key, "cause", "Pod shop/web-0 DELETED")
			log.Info("created", "child", "Service shop/web")
			log.Info("reconciled", "outcome", "done")
		})
		if want = "TIME  " + want + "  \n"; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestTheConsoleSaysAFailureOnceAndCountsIt(t *testing.T) {
	fail := func(log logr.Logger, name string) {
		_, end := aRun(log, name, "again in 5s")
		end.Error(errors.New("no luck"), "reconcile failed")
	}
	do := func(log logr.Logger) {
		for i := range 9 {
			fail(log, fmt.Sprint("web", i%2))
			log.WithValues("controller", "redis", "hook", "sync").Info("the hook says", "said", "Traceback\nNo luck")
		}
		for i := range 2 {
			_, end := aRun(log, fmt.Sprint("web", i), "done")
			end.V(1).Info("reconciled")
		}
	}
	const first, well = "TIME  redis  shop/web0  no luck  again in 5s\n", "TIME  redis  shop/web%d  works again\n"
	want := first + "TIME  redis  shop/web0  no luck  x9\nredis/sync | Traceback\nredis/sync | No luck\n" +
		fmt.Sprintf(well+well, 0, 1)
	if got := consoleOf(0, false, 0, do); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	again := "\x1b[1A\x1b[2KTIME  redis  shop/web0  no luck  again in 5s  x"
	want = first
	for i := 2; i <= 9; i++ {
		want += again + fmt.Sprintln(i)
	}
	want += "redis/sync | Traceback\nredis/sync | No luck\n" + fmt.Sprintf(well+well, 0, 1)
	if got := consoleOf(0, false, 80, do); got != want {
		t.Errorf("on a terminal: got  %q\nwant %q", got, want)
	}
	if got := consoleOf(0, false, 80, func(log logr.Logger) {
		fail(log, "web0")
		fail(log, "web0")
		log.Info("stopping")
		fail(log, "web0")
		_, end := aRun(log, "web0", "done")
		end.V(1).Info("reconciled")
	}); strings.Count(got, "x2") != 1 || strings.Count(got, "x3") != 1 {
		t.Errorf("with another line between: %q", got)
	}
	if got := consoleOf(0, false, 20, do); strings.Contains(got, "\x1b") {
		t.Errorf("a line that does not fit is written again: %q", got)
	}
}

// Whoever writes a hook, or an object, must not write to the terminal.
func TestTheConsolePrintsNoControlCharacters(t *testing.T) {
	got := consoleOf(0, false, 0, func(log logr.Logger) {
		during, end := aRun(log, "a\x1b]52;c;aGk=\a", "done\x9b")
		during.Info("created", "child", "Service\r\n\x1b[2J")
		end.Info("reconciled", "writes", 1)
		log.Info("the hook says", "hook", "sync", "said", "\x1b[2J\u202e")
		end.Error(errors.New("\x1b[31mno"), "reconcile failed")
	})
	if strings.ContainsAny(got, "\x1b\a\r\u202e\u009b") || strings.Count(got, "\n") != 3 {
		t.Errorf("%q", got)
	}
}

// Runs that never end must not fill the memory, nor what they did be lost.
func TestTheConsoleIsBounded(t *testing.T) {
	var out bytes.Buffer
	log := newConsole(&out, 0, false)
	s := log.GetSink().(console).screen
	for i := range 3 * maxDone {
		during, _ := aRun(log, fmt.Sprint(i), "again in 5s")
		during.Info("created", "child", "Service x")
		_, end := aRun(log, fmt.Sprint("f", i), "again in 5s")
		end.Error(errors.New("no luck"), "reconcile failed")
	}
	_, last := aRun(log, "0", "done")
	last.Info("reconciled", "writes", 1)
	for range 10_000 {
		during, _ := aRun(log, "0", "done")
		during.Info("created", "child", "Service x")
	}
	if n := len(s.done[run{"redis", "shop/0", "shop"}].steps); n != maxSteps {
		t.Errorf("%d steps are kept", n)
	}
	if last.Info("reconciled", "writes", 1); !strings.Contains(out.String(), fmt.Sprint(10_000-maxSteps, " more")) {
		t.Error("the end of the run does not count its writes")
	}
	aNote, end := aRun(log, "note", "done")
	aNote.Info("degraded", "message", "no luck")
	end.Info("reconciled", "writes", 1)
	if another, _ := aRun(log, "another", "done"); len(s.done) == maxDone {
		if another.Info("created", "child", "Service x"); s.done[run{"redis", "shop/another", "shop"}] == nil {
			t.Error("the notes of an object that has no run take the place of a run")
		}
	}
	if len(s.done) != maxDone || len(s.failing) != maxDone || strings.Count(out.String(), "created") != 2*maxDone+2 {
		t.Errorf("%d runs, %d failures, %d lines", len(s.done), len(s.failing), strings.Count(out.String(), "created"))
	}
}
