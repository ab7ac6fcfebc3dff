package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/page"
	"skiff/internal/testcluster/apiserver"
)

// shopStatus is the status of a process with one thing of each kind, at 04:00 UTC.
func shopStatus() (*status, time.Time) {
	now := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	return &status{Address: "127.0.0.1:8082", State: &page.State{Format: page.Format, Time: now,
		Banner:  page.Banner{Text: "3 things need attention since 02:41 UTC; first: controller redis, missing_grant"},
		Version: "v0.4.0", Started: before(51 * time.Hour), Contact: before(time.Second),
		Leader:   "this process leads; it renewed the lease at 03:59:58, 2s ago",
		OldestAt: before(90 * time.Second), OldestOf: "redis.skiff.dev",
		Attention: []page.Trouble{
			{State: "missing", Controller: "redis", Namespace: "shop", Reason: "missing_grant", Step: "the user " +
				"skiff may not list secrets in shop: skiff check --controllers redis --as skiff prints the role " +
				"to apply"},
			{State: "failing", Kind: "Redis", Namespace: "shop", Name: "cache", Reason: "Conflict", Failures: 7,
				Since: before(79 * time.Minute), Next: now.Add(42 * time.Second),
				Command: "kubectl describe redis cache -n shop"},
			{State: "stalled", Kind: "WebServer", Namespace: "shop", Name: "a", Reason: "NameTaken",
				Since:   before(time.Minute),
				Message: "Deployment shop/a exists and is not managed by skiff; delete it"},
			{State: "stalled", Kind: "WebServer", Namespace: "shop", Name: "b", Reason: "NameTaken",
				Since:   before(time.Minute),
				Message: "Deployment shop/b exists and is not managed by skiff; delete it"},
			{State: "paused", Kind: "WebServer", Namespace: "shop", Name: "blog\x1b[2J", Reason: "Annotated",
				Since: before(30 * 24 * time.Hour), Command: "kubectl describe webserver blog -n shop"}},
		Owners: 12, Queue: []page.Queue{
			{Controller: "redis", Workers: 2, Running: 1, Due: 3, Delayed: 9, Failing: 1, Longest: 1234.5,
				OldestDue: before(3 * time.Second)},
			{Controller: "webserver", Workers: 2, Delayed: 11}}},
		Watches: &page.WatchAnswer{Watches: []page.Watch{
			{Resource: "secrets", Namespace: "shop", Phase: "parked", Parked: true, Code: 403, Problem: "Forbidden",
				Contact: before(5 * time.Second)},
			{Resource: "deployments.apps", Phase: "streaming", Objects: 12, Contact: before(90 * time.Second)}}}}, now
}

// Rules: LP-28
func TestTheStatusInTheTerminalFitsEightyColumnsAndIsPlainText(t *testing.T) {
	s, now := shopStatus()
	w := statusText{now: now}
	w.show(s)
	want := `✖ 3 things need attention since 02:41 UTC; first: controller redis,
  missing_grant
  skiff v0.4.0 at 127.0.0.1:8082, started 2d ago; this process leads; it
  renewed the lease at 03:59:58, 2s ago; the API server answered 1s ago;
  oldest watch contact 1m30s ago (redis.skiff.dev)

NEEDS ATTENTION
✖ missing  controller redis in namespace shop, missing_grant
  the user skiff may not list secrets in shop: skiff check --controllers redis
  --as skiff prints the role to apply
✖ failing  Redis shop/cache, Conflict, since 1h19m, failures: 7, next try in 42s
■ stalled  NameTaken: 2
  WebServer shop/a, since 1m0s
    Deployment shop/a exists and is not managed by skiff; delete it
  WebServer shop/b, since 1m0s
    Deployment shop/b exists and is not managed by skiff; delete it
‖ paused  WebServer shop/blog\x1b[2J, Annotated, since 30d

QUEUE      WORKERS  RUNNING  DUE  DELAYED  FAILING  DUE FOR  LONGEST RUN
redis            2        1    3        9        1       3s       1.235s
webserver        2        0    0       11        0        -           0s

WATCHES           PHASE      OBJECTS  LAST CONTACT  PROBLEM
secrets in shop   parked           0  5s ago        403 Forbidden
deployments.apps  streaming       12  1m30s ago     -
`
	if got := w.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	w = statusText{now: now, colour: true}
	w.show(s)
	plain := strings.NewReplacer("\x1b[31m", "", "\x1b[33m", "", "\x1b[2m", "", "\x1b[0m", "")
	if got := plain.Replace(w.String()); got != want {
		t.Errorf("colours change the text:\n%q", got)
	}
	s.Banner, s.Attention = page.Banner{Well: true, Text: "All is well."}, nil
	w = statusText{now: now}
	if w.show(s); !strings.HasPrefix(w.String(), "✔ All is well.\n") || !strings.Contains(w.String(),
		"NEEDS ATTENTION\nNothing.\n") {
		t.Errorf("got:\n%s", w.String())
	}
	for range 30 {
		s.Attention = append(s.Attention, page.Trouble{State: "failing", Kind: "Redis", Name: "x", Reason: "Conflict"})
	}
	for omitted, want := range map[int][]string{0: {"Conflict: 20 of 30\n", "and 10 more: "},
		70: {"Conflict: 20 of 30 or more\n", "and 80 more: "}} {
		s.Omitted = omitted
		w = statusText{now: now}
		w.show(s)
		if text := w.String(); strings.Count(text, "Redis x") != maxStatusRows || !strings.Contains(text, want[0]) ||
			!strings.Contains(text, want[1]) {
			t.Errorf("%d left out, want %q in:\n%s", omitted, want, text)
		}
	}
}

// livePage runs skiff with a live page on a server, and returns the URL.
func livePage(t *testing.T, server string, args ...string) (f *clitest.Follower, url string) {
	t.Helper()
	f = program.Follow(t, append([]string{"run", "--server", server, "--health-probe-bind-address", "127.0.0.1:0",
		"--debug-bind-address", "127.0.0.1:0"}, args...)...)
	f.Await("the URL", func() bool {
		if m := pageURL.FindStringSubmatch(f.Stderr.String()); m != nil {
			url = m[1]
		}
		return url != ""
	})
	return f, url
}

// Rules: LP-28
func TestStatusShowsTheLivePageWhereOneIsServedAlsoFoundByItsProbes(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	f, url := livePage(t, c.url())
	byPage, byProbes := []string{"status", "--all", "--debug-bind-address", url},
		[]string{"status", "--all", "--health-probe-bind-address", probesOf(f)}
	for _, args := range [][]string{byPage, byProbes} {
		var r clitest.Result
		f.Await("all is well", func() bool { r = skiff(t, args...); return r.Code == ExitDone })
		for _, want := range []string{"✔ All is well. 0 objects are as declared.\n", "\nNEEDS ATTENTION\nNothing.\n",
			"\nQUEUE ", "\nwebservers.skiff.dev ", " streaming "} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("%q is missing in\n%s", want, r.Stdout)
			}
		}
	}
	c.create(webServers, "default", object{"metadata": object{"name": "web"}, "spec": object{"image": "nginx:1",
		"template": object{"spec": object{"hostNetwork": true}}}})
	f.Await("it needs attention", func() bool { return skiff(t, byPage...).Code == ExitDiffer })
	var got struct {
		Format    string
		Address   string
		Well      bool
		Attention []page.Trouble
		Watches   page.WatchAnswer
	}
	r := skiff(t, append(byProbes, "-o", "json")...)
	noError(t, json.Unmarshal([]byte(r.Stdout), &got))
	if r.Code != ExitDiffer || got.Format != page.Format || !strings.Contains(url, got.Address) || got.Well ||
		len(got.Attention) != 1 || got.Attention[0].Name != "web" || len(got.Watches.Watches) == 0 {
		t.Errorf("exit code %d: %s", r.Code, r.Stdout)
	}
}

// Rules: LP-23, LP-28
func TestStatusReadsAPageThatNeedsATokenWithItAlone(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	token, wrong := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "wrong")
	noError(t, os.WriteFile(token, []byte("hush"), 0o600))
	noError(t, os.WriteFile(wrong, []byte("canary"), 0o600))
	f, url := livePage(t, c.url(), "--debug-token-file", token)
	f.Await("all is well", func() bool {
		return skiff(t, "status", "--debug-bind-address", url, "--debug-token-file", token).Code == ExitDone
	})
	skiff(t, "status", "--debug-bind-address", url).Want(t, ExitFailed, "it wants a token: give --debug-token-file")
	r := skiff(t, "status", "--debug-bind-address", url, "--debug-token-file", wrong)
	r.Want(t, ExitFailed, "it refuses the token of --debug-token-file "+wrong+": check the file")
	if strings.Contains(r.Stderr, "canary") {
		t.Errorf("the token is printed: %s", r.Stderr)
	}
	skiff(t, "status", "--debug-token-file", token).Want(t, ExitUsage,
		"a token is sent to no address that was only found")
	// The probes say where the page is.
	r = skiff(t, "status", "--health-probe-bind-address", probesOf(f))
	r.Want(t, ExitDone)
	if !strings.Contains(r.Stdout, "\n    live page: "+url+"\n") {
		t.Errorf("the page is not named:\n%s", r.Stdout)
	}
}

// Rules: LP-28
func TestStatusSaysWhatIsWrongWithWhatAnswers(t *testing.T) {
	state := `{"format":"skiff-state/1","banner":{"well":true,"text":"All is well."},"fromTheFuture":[{"a":1}]}`
	huge := strings.Repeat(" ", 1<<20)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		code   int
		want   string
	}{
		"a newer skiff": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, state) }, ExitDone, ""},
		"a newer form": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"format":"skiff-state/2"}`) },
			ExitFailed, "it answers in the form skiff-state/2, and this skiff reads skiff-state/1"},
		"HTML": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><h1>hello</h1>") }, ExitFailed,
			"the answer (200 OK) is not that of skiff; check the address"},
		"other JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"ok"}`) }, ExitFailed,
			"the answer (200 OK) is not that of skiff; check the address"},
		"another program": {http.NotFound, ExitFailed, "the answer (404 Not Found) is not that of skiff"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
			ExitFailed, "the answer (302 Found) is not that of skiff"},
		"fields of other types": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"format":"skiff-state/1","attention":"none"}`)
		}, ExitFailed, "read /debug/state: json: cannot unmarshal string"},
		"100 MB": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"format":"skiff-state/1","version":"`)
			for range 100 {
				if _, err := fmt.Fprint(w, huge); err != nil {
					return // the reader has had enough
				}
			}
		}, ExitFailed, "the answer is larger than 4 MiB"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, state)
			noError(t, http.NewResponseController(w).Flush())
			panic(http.ErrAbortHandler)
		}, ExitFailed, "the answer ended early: unexpected EOF; try again"},
		"a switch of protocols": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			noError(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the asker closes it
		}, ExitFailed, "the answer is status 101, Switching Protocols"},
		"another host name": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusMisdirectedRequest)
		}, ExitFailed, "it does not serve the page under this host name: use an IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(test.answer)
			defer s.Close()
			r := skiff(t, "status", "--debug-bind-address", strings.TrimPrefix(s.URL, "http://"))
			r.Want(t, test.code, test.want)
		})
	}
	skiff(t, "status", "--debug-bind-address", "127.0.0.1:1").Want(t, ExitFailed,
		"nothing listens on 127.0.0.1:1: start skiff run with --debug-bind-address 127.0.0.1:1")
	for _, args := range [][]string{{"--debug-bind-address", "0"}, {"--debug-bind-address", "https://x:1"},
		{"--debug-bind-address", "http://a:b@x:1"}, {"--debug-bind-address", "x"}, {"-o", "yaml"},
		{"--debug-bind-address", ":1", "--health-probe-bind-address", ":2"}} {
		skiff(t, append([]string{"status"}, args...)...).Want(t, ExitUsage)
	}
}

// A page that probes on another machine name is not one on this machine.
func TestAPageThatProbesElsewhereNameIsNotAsked(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, ":1": true,
		"10.0.0.1:1": false, "skiff.example.com:1": false, "evil": false, "": false} {
		if got := isLoopback(address); got != want {
			t.Errorf("isLoopback(%q) = %v", address, got)
		}
	}
}

// Rules: LP-28
func TestTheWatchedStatusPrintsEachChangeOnceAndEndsWithTheLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := shopStatus()
		bad := []*status{s}
		healthy, _ := shopStatus()
		healthy.Well, healthy.Banner, healthy.Attention = true, page.Banner{Well: true, Text: "All is well."}, nil
		good := []*status{healthy}
		gone := errors.New("nothing listens")
		for _, test := range []struct {
			last []*status
			err  error
			want error
		}{{bad, nil, errDiffer}, {good, nil, nil}, {nil, gone, gone}} {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			asked := 0
			ask := func(context.Context) ([]*status, error) {
				asked++
				s.Contact = time.Now() // each answer has other ages
				switch {
				case asked <= 10:
					return good, nil
				case asked <= 20:
					return bad, nil
				case asked <= 30:
					return nil, gone
				}
				return test.last, test.err
			}
			var out strings.Builder
			if err := (&statusFlags{}).follow(ctx, ask, &out); err != test.want {
				t.Errorf("it ends with %v, want %v", err, test.want)
			}
			stop()
			text := out.String()
			blocks := strings.Count(text, "--- ")
			silences := strings.Count(text, "✖ skiff does not answer; the last answer came ")
			want := 4
			if test.err != nil {
				want = 3
			}
			if blocks != want || silences != 1 || asked < 55 {
				t.Errorf("%d blocks, want %d, %d silences, asked %d times:\n%s", blocks, want, silences, asked, text)
			}
		}
		first := errors.New("no answer at first")
		if err := (&statusFlags{}).follow(t.Context(), func(context.Context) ([]*status, error) { return nil, first },
			new(strings.Builder)); err != first {
			t.Errorf("at first: %v", err)
		}
	})
}

// Rules: LP-28
func TestTheTerminalIsRedrawnInPlaceWithoutScrolling(t *testing.T) {
	var out strings.Builder
	show := new(statusFlags).inPlace(&out)
	s, _ := shopStatus()
	for range 2 {
		noError(t, show([]*status{s}, nil, time.Now()))
	}
	frames := out.String()
	if strings.Count(frames, "\x1b[2J") != 1 || strings.Contains(frames, "\n") ||
		strings.Count(frames, "\x1b[1;1H✖ 3 ") != 2 ||
		strings.Count(frames, "\x1b[?7l") != strings.Count(frames, "\x1b[?7h") {
		t.Errorf("frames: %q", frames)
	}
}
