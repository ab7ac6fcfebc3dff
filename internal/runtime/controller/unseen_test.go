package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// told records what unseenFunc is called for.
type told struct {
	mu   sync.Mutex // guards what follows
	of   map[string]int
	fail error
}

func (u *told) tell(_ context.Context, k kube.Key, why string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]int{}
	}
	u.of[k.String()+": "+why]++
	return u.fail
}

func (u *told) all() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return fmt.Sprint(u.of)
}

// parkB is twoNamespaces with an object one in each, of which b lacks a right from before the start.
func parkB(t *testing.T, u *told, then func(w *world, log *logLines, r *runs, c *Controller, allow func())) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log logLines
		for _, name := range []string{"a", "b"} {
			w.createIn("", namespaces, name)
			w.createIn(name, configMaps, "one")
			w.createIn(name, configMaps, "two")
		}
		s := Setup{Client: w.skiff, Namespaces: []string{"a", "b"}, Mirrors: cache.NewMirrors(),
			Advice: advice, Log: log.logger()}
		r := &runs{}
		c := s.New("test", r.count, For(Mirror[*configMap](s, configMaps, "role=x")).Unseen(u.tell),
			Owns(Mirror[*configMap](s, secrets, ""), "ConfigMap"))
		allow := w.forbid("b", secrets)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		then(w, &log, r, c, allow)
		cancel()
		expect(t, "stop", <-ended, nil)
	})
}

func TestTheObjectsOfANamespaceThatCannotBeWatchedAreToldAfterTwoMinutes(t *testing.T) {
	u := &told{}
	parkB(t, u, func(w *world, _ *logLines, r *runs, c *Controller, allow func()) {
		time.Sleep(unseenAfter - 10*time.Second)
		expect(t, "told at first", u.all(), "map[]")
		time.Sleep(time.Minute)
		why := "namespace b: may not list and watch secrets; " +
			"grant test to system:serviceaccount:skiff:skiff in b"
		expect(t, "told", u.all(), "map[b/one: "+why+":1 b/two: "+why+":1]")
		r.expect(t, "runs in b", "b/one", 0)
		expect(t, "status says so", strings.Contains(status(c),
			why+"; the status of the objects says that their state is not known"), true)
		time.Sleep(time.Hour)
		expect(t, "told an hour later", u.all(), "map[b/one: "+why+":1 b/two: "+why+":1]")
		allow()
		time.Sleep(15 * time.Second)
		r.expect(t, "runs in b when it can be watched", "b/one", 1)
		r.expect(t, "runs in b when it can be watched", "b/two", 1)
		expect(t, "status", strings.Contains(status(c), "! "), false)
	})
}

func TestWhereTheStatusMayNotBeWrittenEitherThatIsSaidOnceAndTriedEveryFiveMinutes(t *testing.T) {
	u := &told{fail: &kube.Status{Code: 403, Reason: "Forbidden", Message: "cannot patch"}}
	parkB(t, u, func(_ *world, log *logLines, _ *runs, c *Controller, _ func()) {
		time.Sleep(unseenAfter + 4*time.Minute)
		if n := strings.Count(u.all(), ":1"); n < 1 {
			t.Errorf("told: %s", u.all())
		}
		expect(t, "log lines", len(log.with("cannot set the status to Unknown; it may be stale")), 1)
		expect(t, "status says so", strings.Contains(status(c), "may not be true any more"), true)
		time.Sleep(time.Hour)
		if n := len(log.with("cannot set the status to Unknown; it may be stale")); n < 10 || n > 13 {
			t.Errorf("%d log lines in an hour", n)
		}
	})
}

func TestAnObjectDeletedWhileItsNamespaceCannotBeWatchedIsForgotten(t *testing.T) {
	for name, fail := range map[string]error{"reporting": nil, "muted": &kube.Status{Code: 403, Reason: "Forbidden"}} {
		t.Run(name, func(t *testing.T) {
			parkB(t, &told{fail: fail}, func(w *world, _ *logLines, _ *runs, c *Controller, _ func()) {
				time.Sleep(unseenAfter + time.Minute)
				gone, there := kube.Key{Namespace: "b", Name: "one"}, kube.Key{Namespace: "b", Name: "two"}
				for _, k := range []kube.Key{gone, there} {
					c.Report(k, &health.Problem{Reason: "Known"})
				}
				if err := w.user.Delete(w.t.Context(), configMaps, gone, kube.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				expect(t, "known of the one deleted", c.reports.get(gone).Reason, "")
				expect(t, "known of the other", c.reports.get(there).Reason, "Known")
			})
		})
	}
}

func TestTheStatusOfAControllerNamesTheObjectsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var healed atomic.Bool
		c := New("test", func(_ context.Context, k kube.Key) (Outcome, error) {
			switch {
			case healed.Load():
				return Done, nil
			case k.Name == "quota":
				return Done, &kube.Status{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}
			case k.Name == "away":
				return Done, &kube.NoAnswerError{Err: errors.New("dial")}
			}
			return Done, errors.New("division by zero")
		}, Options{}, For(w.store("")))
		stop := w.run(c)
		for _, name := range []string{"quota", "bug", "away"} {
			w.put(name, "", "1", nil)
		}
		time.Sleep(time.Minute)
		lines := strings.Split(status(c), "\n")
		for i, want := range []string{"! failing: default/bug, ", "! failing: default/away, ",
			"! refused: default/quota, "} {
			if len(lines) != 4 || !strings.HasPrefix(lines[i], want) {
				t.Fatalf("status is %q, want %q", lines, want)
			}
		}
		expect(t, "ends with the server's words", strings.HasSuffix(lines[2], "s (exceeded quota)"), true)
		for i := range 30 {
			w.put(fmt.Sprintf("more-%d", i), "", "1", nil)
		}
		time.Sleep(time.Minute)
		many := status(c) // the number of tries depends on the jitter of their times
		expect(t, "many are one line: "+many, strings.HasPrefix(many, "! failing: 31 ConfigMaps in default, first "+
			"default/bug, ") && strings.Contains(many, " times: Error for 2m"), true)
		healed.Store(true)
		time.Sleep(10 * time.Minute)
		expect(t, "all is well", strings.Contains(status(c), "default/"), false)
		stop()
	})
}

// One cause is one text, whatever the number of watches that it stops.
func TestWatchesThatAreNotUpToDateForTheSameReasonShareALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := twoNamespaces(w, &logLines{})
		stop := w.run(c)
		back := w.api.Inject(apiserver.Fault{UserAgent: skiffAgent, Reply: &apiserver.Reply{Code: 503,
			Body: "<html>" + strings.Repeat("x", 4000), ContentType: "text/html"}})
		time.Sleep(15 * time.Minute)
		err := c.Ready()
		const all = "configmaps in a, configmaps in b, secrets in a, secrets in b have not been up to date "
		if err == nil || !strings.Contains(err.Error(), all) ||
			strings.Count(err.Error(), "the server answers 503 ") != 1 {
			t.Errorf("ready: %v", err)
		}
		if len(err.Error()) > 600 {
			t.Errorf("the text has %d bytes", len(err.Error()))
		}
		back()
		time.Sleep(2 * time.Minute)
		stop()
	})
}

// A connection that breaks off is no sign that the right is back.
func TestANamespaceWithoutARightIsNotTakenForWorkingWhenTheServerIsAway(t *testing.T) {
	u := &told{}
	parkB(t, u, func(w *world, log *logLines, r *runs, c *Controller, allow func()) {
		time.Sleep(unseenAfter + time.Minute)
		before := u.all()
		back := w.api.Inject(apiserver.Fault{UserAgent: skiffAgent, Namespace: "b", Cut: apiserver.CutBefore})
		allow()                     // of two faults the first one would win
		time.Sleep(8 * time.Minute) // a namespace that is refused is tried again after five, more or less
		r.expect(t, "runs in b", "b/one", 0)
		expect(t, "log lines that b works", len(log.with(`"msg"="working again"`)), 0)
		expect(t, "told again", u.all(), before)
		expect(t, "status says so", strings.Contains(status(c), " have not been up to date for "), true)
		back()
		time.Sleep(2 * time.Minute)
		r.expect(t, "runs in b when it can be watched", "b/one", 1)
		expect(t, "log lines that b works", len(log.with(`"msg"="working again"`)), 1)
	})
}
