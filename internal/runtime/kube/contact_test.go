package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hang answers nothing until the client gives up.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func getPod(t *testing.T, c *Client) error {
	return c.Get(t.Context(), pods, Key{"default", "a"}, nil)
}

// wantContact compares what is known with what is wanted, the times as ages; a negative one stands for the zero time.
func wantContact(t *testing.T, when string, c *Client, heard, served, since time.Duration, waiting string) {
	t.Helper()
	got := c.Contact()
	for _, at := range []struct {
		what string
		time time.Time
		want time.Duration
	}{{"heard", got.Heard, heard}, {"served", got.Served, served}, {"waiting since", got.Since, since}} {
		switch {
		case at.time.IsZero() != (at.want < 0):
			t.Errorf("%s: %s %s, want age %s", when, at.what, at.time, at.want)
		case !at.time.IsZero() && time.Since(at.time) != at.want:
			t.Errorf("%s: %s %s ago, want %s", when, at.what, time.Since(at.time), at.want)
		}
	}
	if got.Waiting != waiting {
		t.Errorf("%s: %q waits, want %q", when, got.Waiting, waiting)
	}
}

const never = time.Duration(-1)

func TestARequestWaitsUntilTheServerServesOneHoweverOftenItIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(answer(200, item("a", "5")), hang, hang, answer(200, item("a", "5")))
		c := pipeClient(t, s)
		wantContact(t, "at the start", c, never, never, never, "")
		if err := getPod(t, c); err != nil {
			t.Fatal(err)
		}
		wantContact(t, "after an answer", c, 0, 0, never, "")

		time.Sleep(time.Minute) // virtual
		wantContact(t, "a minute later", c, time.Minute, time.Minute, never, "")
		go func() { _ = getPod(t, c) }()
		time.Sleep(12 * time.Second)
		wantContact(t, "while one hangs", c, 72*time.Second, 72*time.Second, 12*time.Second, "get pods default/a")
		time.Sleep(20 * time.Second)
		wantContact(t, "when it has timed out", c, 92*time.Second, 92*time.Second, 32*time.Second,
			"get pods default/a")
		if err := c.Contact().Err; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the reason is %v", err)
		}
		go func() { _ = getPod(t, c) }()
		time.Sleep(time.Second)
		wantContact(t, "at the second try", c, 93*time.Second, 93*time.Second, 33*time.Second, "get pods default/a")
		if err := getPod(t, c); err != nil {
			t.Fatal(err)
		}
		wantContact(t, "when another is served", c, 0, 0, 0, "get pods default/a") // the second still hangs
		time.Sleep(time.Minute)
		wantContact(t, "when that has timed out too", c, time.Minute, time.Minute, time.Minute, "get pods default/a")
		if err := getPod(t, c); err != nil {
			t.Fatal(err)
		}
		wantContact(t, "in the end", c, 0, 0, never, "")
	})
}

// A server whose etcd hangs still opens watches and sends bookmarks, and a load balancer still sends its page.
func TestWhatAServerWithoutItsStorageSendsIsHeardAndDoesNotEndTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan string)
		watch := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for text := range more {
				fmt.Fprint(w, text)
				w.(http.Flusher).Flush()
			}
		}
		c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Query().Has("watch"):
				watch(w, r)
			case r.URL.Path == "/version":
				answer(200, `{}`)(w, r)
			default:
				hang(w, r)
			}
		}))
		go func() { more <- frame("BOOKMARK", item("", "1")) }()
		st := watchPods(t, c, WatchOptions{})
		next := func() {
			if _, err := st.Next(); err != nil {
				t.Error(err)
			}
		}
		next()
		wantContact(t, "after a bookmark", c, 0, never, never, "")
		go func() { _ = getPod(t, c) }()
		time.Sleep(20 * time.Second)
		more <- frame("BOOKMARK", item("", "2"))
		next()
		wantContact(t, "after the next", c, 0, never, 20*time.Second, "get pods default/a")
		if _, err := c.Raw(t.Context(), http.MethodGet, "/version", nil); err != nil {
			t.Error(err)
		}
		wantContact(t, "after an answer from memory", c, 0, never, 20*time.Second, "get pods default/a")
		more <- frame("MODIFIED", item("a", "3"))
		next()
		wantContact(t, "after a change", c, 0, 0, 0, "get pods default/a")
		close(more)
	})
	for name, test := range map[string]struct {
		h      http.HandlerFunc
		served bool
	}{
		"404": {failure(404, "NotFound", ""), true},
		"409": {failure(409, "Conflict", ""), true},
		"500": {failure(500, "InternalError", ""), true},
		"504": {failure(504, "Timeout", ""), false},
		"an etcd without a leader": {answer(500,
			`{"kind":"Status","status":"Failure","code":500,"message":"etcdserver: request timed out"}`), false},
		"an etcd that is not there": {answer(500, `{"kind":"Status","status":"Failure","code":500,"message":`+
			`"rpc error: code = Unavailable desc = connection error: connection refused"}`), false},
		"a version of the future": {failure(504, "Timeout", `,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}`),
			true},
		"the page of a load balancer": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>no backend</html>", http.StatusBadGateway)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipeClient(t, test.h)
				err := getPod(t, c)
				time.Sleep(time.Second)
				switch got := c.Contact(); {
				case test.served && (got.Served.IsZero() || !got.Since.IsZero()):
					t.Errorf("%v does not count as an answer: %+v", err, got)
				case !test.served && (!got.Served.IsZero() || time.Since(got.Since) != time.Second):
					t.Errorf("%v counts as an answer: %+v", err, got)
				}
			})
		})
	}
}

// An API server says who may ask, and who has to wait, from memory: its etcd may hang.
func TestARefusalIsHeardAndEndsOnlyTheWaitingOfItsOwnRequest(t *testing.T) {
	for name, test := range map[string]struct {
		h    http.HandlerFunc
		ends bool // the waiting of another request that has failed
	}{
		"403": {failure(403, "Forbidden", ""), false},
		"429": {failure(429, "TooManyRequests", ""), false},
		"401": {failure(401, "Unauthorized", ""), true}, // each other request would get the same
		"a page of a login": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>who are you</html>", http.StatusUnauthorized)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipeClient(t, scripted(test.h, hang, test.h, test.h))
				_ = getPod(t, c)
				wantContact(t, "when nothing waits", c, 0, never, never, "")
				_ = getPod(t, c)
				wantContact(t, "when one has timed out", c, 30*time.Second, never, 30*time.Second,
					"get pods default/a")
				_ = c.Get(t.Context(), pods, Key{"default", "b"}, nil)
				if test.ends {
					wantContact(t, "when another is refused", c, 0, never, never, "")
				} else {
					wantContact(t, "when another is refused", c, 0, never, 30*time.Second, "get pods default/a")
				}
				_ = getPod(t, c)
				wantContact(t, "when it is refused itself", c, 0, never, never, "")
				if !c.FirstToLog() {
					t.Error("the next outage would have no line")
				}
			})
		})
	}
}

// hangingCredentials give a token once they are told to.
type hangingCredentials struct{ release chan struct{} }

func (h *hangingCredentials) Authorization(ctx context.Context) (string, error) {
	select {
	case <-h.release:
		return "Bearer t", nil
	case <-ctx.Done():
		return "", errors.New("the plugin does not answer")
	}
}
func (h *hangingCredentials) Invalidate(time.Time) {}

func TestACredentialThatDoesNotComeIsWhatRequestsWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &hangingCredentials{make(chan struct{})}
		c := pipeClient(t, scripted(hang, answer(200, item("a", "5"))),
			func(cfg *Config) { cfg.Credentials = plugin })
		go func() { _ = getPod(t, c) }()
		time.Sleep(15 * time.Second)
		if got := c.Contact(); !got.NoCredential || time.Since(got.Since) != 15*time.Second || got.Err != nil {
			t.Errorf("while the plugin hangs: %+v", got)
		}
		time.Sleep(20 * time.Second)
		if got := c.Contact(); !got.NoCredential || !errors.As(got.Err, new(*CredentialError)) {
			t.Errorf("when the request has given up: %+v", got)
		}
		close(plugin.release)
		go func() { _ = getPod(t, c) }()
		time.Sleep(31 * time.Second)
		if got := c.Contact(); got.NoCredential || time.Since(got.Since) != 66*time.Second {
			t.Errorf("when only the server does not answer: %+v", got)
		}
		if err := getPod(t, c); err != nil {
			t.Fatal(err)
		}
		wantContact(t, "in the end", c, 0, 0, never, "")
	})
}

func TestARequestThatItsCallerCancelsEarlyOrThatIsNotSentSaysNothingOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, scripted(hang))
		for _, test := range []struct{ after, since time.Duration }{{time.Second, never}, {8 * time.Second, 0}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			time.AfterFunc(test.after, cancel)
			if err := c.Get(ctx, pods, Key{"default", "a"}, nil); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if got := c.Contact(); got.Since.IsZero() != (test.since < 0) {
				t.Errorf("cancelled after %s: %+v", test.after, got)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, scripted(hang))
		guarded := c.Guard(func() error { return errors.New("no leader") })
		err := guarded.Create(t.Context(), pods, "default", struct{}{}, nil, WriteOptions{})
		if err == nil || !strings.Contains(err.Error(), "not sent") {
			t.Error(err)
		}
		wantContact(t, "not sent", c, never, never, never, "")
	})
}

// Controllers have clients that are limited to their rights, and guarded by the lease.
func TestClientsThatAreMadeOfOneShareItsContactAndItsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exchanges := 0
		c := pipeClient(t, scripted(answer(200, item("a", "5"))),
			func(cfg *Config) { cfg.OnExchange = func(Exchange) { exchanges++ } })
		limited := c.Guard(func() error { return nil }).Limit([]Right{{Resource: pods, Verbs: []string{"get"}}})
		if err := getPod(t, limited); err != nil {
			t.Fatal(err)
		}
		wantContact(t, "of the first", c, 0, 0, never, "")
		if exchanges != 1 {
			t.Errorf("%d requests were counted, want 1", exchanges)
		}
	})
}

func TestAPingTakesAnyAnswerAndReadsNoMoreThanAnErrorOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(failure(404, "NotFound", ""), answer(200, strings.Repeat(" ", 8<<20)), hang)
		c := pipeClient(t, s)
		query := Query{Resource: pods, Namespace: "default", LabelSelector: "a=b"}
		for range 2 {
			c.Ping(t.Context(), query)
			wantContact(t, "after a ping", c, 0, 0, never, "")
			time.Sleep(time.Second)
		}
		if url := s.requests()[0].URL.String(); url != "/api/v1/namespaces/default/pods?limit=1" {
			t.Errorf("it asks for %s", url)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c.Ping(ctx, query)
		wantContact(t, "without an answer", c, 6*time.Second, 6*time.Second, 5*time.Second, "list pods in default")
	})
}
