package manager

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// lines are those of a log.
type lines struct {
	mu  sync.Mutex // guards all
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, args)
	}, funcr.Options{})
}

// with returns the lines with a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// startWatched starts a replica that sees whether the server answers, with its log.
func startWatched(t *testing.T, api *apiserver.Server, name string) (*replica, *lines) {
	var log lines
	return startReplicaWith(t, api, name, func(r *replica, o *Options) {
		o.Client, o.Log = r.client, log.logger()
	}), &log
}

// alone is a process without an election.
type alone struct {
	servers
	pipe   *apiserver.Pipe // the connections of its client
	client *kube.Client
	log    *lines
}

// startAlone starts one that sees whether the server answers.
func startAlone(t *testing.T, api *apiserver.Server, edit ...func(*kube.Config)) *alone {
	t.Helper()
	a := &alone{pipe: api.ListenPipe(), log: &lines{}}
	cfg := kube.Config{Server: apiserver.PipeURL, DialContext: a.pipe.Dial}
	for _, e := range edit {
		e(&cfg)
	}
	var err error
	if a.client, err = kube.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.client.Close(); a.pipe.Close() })
	store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: a.client,
		Namespaces: []string{"default"}, LabelSelector: "by=test", Log: a.log.logger()})
	c := controller.New("maps", nothing, controller.Options{}, controller.For(store))
	a.servers = runAll(t, Options{Controllers: []*controller.Controller{c}, Client: a.client, Log: a.log.logger()})
	return a
}

// pings are the requests since the last call of ForgetRequests that ask for one object.
func pings(api *apiserver.Server) (n int) {
	for _, r := range api.Requests() {
		if r.Method == "GET" && r.Query.Get("limit") == "1" && !r.Watch() {
			n++
		}
	}
	return n
}

func (p prober) verbose() string {
	code, body := p.get("/readyz?verbose")
	expect(p.t, "/readyz "+body, code, 200)
	return body
}

func TestAFrozenLeaderSaysThatNothingAnswersAndThatItDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		a, log := startWatched(t, api, "a")
		time.Sleep(61 * time.Second)
		expectText(t, "/readyz of a leader", a.verbose(), "\n    http://apiserver.test answered ",
			"\n    this process leads; it renewed the lease at 00:01:00, 1s ago\n")

		a.election.Blackhole(true)
		a.work.Blackhole(true)
		time.Sleep(8 * time.Second)
		expect(t, "warnings after 8 s", len(log.with("no answer from the API server")), 0)
		expect(t, "attention after 8 s", strings.Contains(a.verbose(), "    ! "), false)
		time.Sleep(39 * time.Second)
		warnings := log.with("no answer from the API server; nothing can be changed meanwhile")
		expect(t, "warnings after 47 s", len(warnings), 1)
		expectText(t, "the warning", strings.Join(warnings, "\n"), `"level"="WARN" "server"="http://apiserver.test" `+
			`"waited"="10s" "waiting"="`, `" "problem"="`)
		expectText(t, "/readyz after 47 s", a.verbose(),
			"\n    ! no answer from http://apiserver.test for 4", "; nothing can be changed meanwhile; waiting: ",
			"; /readyz stays 200, because a restart would not help\n",
			"\n    ! the lease is lost for 3", "s; who leads now is unknown; ")
		s := a.metrics.samples()
		if age := time.Since(time.UnixMilli(int64(1000 * s["skiff_last_answer_timestamp_seconds"]))); age <
			47*time.Second || age > 49*time.Second || s["skiff_unanswered_seconds"] < 45 {
			t.Errorf("the last answer was %s ago, requests have waited for %v s", age, s["skiff_unanswered_seconds"])
		}
		time.Sleep(10 * time.Minute) // the mirrors are old by now
		expectText(t, "/readyz after 11 minutes", a.verbose(), "\n    ! no answer from http://apiserver.test for 10m4")

		a.election.Blackhole(false)
		a.work.Blackhole(false)
		time.Sleep(2 * time.Minute) // with the pause of the mirror before its next try
		expect(t, "warnings in the end", len(log.with("no answer from the API server")), 1)
		back := log.with("the API server answers again")
		expect(t, "lines when it is back", len(back), 1)
		expectText(t, "that line", strings.Join(back, "\n"), `"outage"="10m`)
		body := a.verbose()
		expectText(t, "/readyz in the end", body, "\n    this process leads; it renewed the lease at ")
		expect(t, "attention in the end "+body, strings.Contains(body, "    ! "), false)
		expect(t, "stop", a.stop(), nil)
	})
}

func TestAStandbyThatIsCutOffDoesNotKnowWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		a := startReplica(t, api, "a")
		time.Sleep(time.Second)
		b, log := startWatched(t, api, "b")
		time.Sleep(time.Minute)
		expectText(t, "/readyz of a standby", b.verbose(),
			"\n    this process stands by; the leader is a, which renewed the lease at 00:01:00, 1s ago; "+
				"the lease expires at 00:01:15\n")
		b.election.Blackhole(true)
		b.work.Blackhole(true)
		time.Sleep(30 * time.Second)
		expect(t, "warnings", len(log.with("no answer from the API server")), 1)
		expectText(t, "/readyz when it is cut off", b.verbose(), "    ! no answer from http://apiserver.test for ",
			"\n    this process stands by; the last leader was a, which renewed the lease at 00:01:00, 31s ago; "+
				"who leads now is unknown\n")
		expect(t, "stop", errors.Join(a.stop(), b.stop()), nil)
	})
}

// Nothing is in flight, and there is no lease.
func TestASilentServerIsNoticedAtRestWithin30SecondsByFourSmallRequestsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, user := newServer(t)
		all := startAlone(t, api)
		time.Sleep(time.Minute)
		api.ForgetRequests()
		time.Sleep(2 * time.Minute) // within which no watch is renewed
		expect(t, "requests in two minutes", len(api.Requests()), pings(api))
		if n := pings(api); n < 7 || n > 9 {
			t.Errorf("%d pings in two minutes, want one each 15 s", n)
		}
		for range 5 { // changes show that the server works
			createMap(t, user, "one")
			time.Sleep(time.Second)
			if err := user.Delete(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "one"},
				kube.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		api.ForgetRequests()
		createMap(t, user, "two")
		time.Sleep(14 * time.Second)
		expect(t, "pings after a change", pings(api), 0)

		all.pipe.Blackhole(true)
		began := time.Now()
		for len(all.log.with("no answer from the API server")) == 0 && time.Since(began) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("noticed after %s", took)
		}
		expectText(t, "/readyz", all.health.verbose(), "    ! no answer from http://apiserver.test for 10s (",
			"; waiting: list configmaps in default; ")
		all.pipe.Blackhole(false)
		time.Sleep(15 * time.Second)
		expect(t, "lines when it is back", len(all.log.with("the API server answers again")), 1)
		expect(t, "stop", all.stop(), nil)
	})
}

// A server that refuses everything serves nothing, and is not asked more often for that.
func TestAServerThatRefusesTheCredentialIsAskedNoMoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		all := startAlone(t, api)
		time.Sleep(time.Minute)
		for _, verb := range []string{"get", "list"} {
			defer api.Inject(apiserver.Fault{Verb: verb, Reply: &apiserver.Reply{Code: 401, Reason: "Unauthorized"}})()
		}
		api.ForgetRequests()
		time.Sleep(2 * time.Minute)
		if n := pings(api); n < 7 || n > 18 { // two tries each, where there is a credential to be renewed
			t.Errorf("%d pings in two minutes, want one each 15 s", n)
		}
		expect(t, "warnings", len(all.log.with("no answer from the API server")), 0)
		expect(t, "stop", all.stop(), nil)
	})
}

// hangingPlugin gives a token as long as it does not hang.
type hangingPlugin struct {
	mu   sync.Mutex // guards hang
	hang bool
}

func (h *hangingPlugin) Authorization(ctx context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hang {
		<-ctx.Done()
		return "", errors.New("users: me: exec: no credential within a minute")
	}
	return "", nil
}
func (h *hangingPlugin) Invalidate(time.Time) {}
func (h *hangingPlugin) set(hang bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hang = hang
}

func TestACredentialPluginThatHangsIsALostContactWithItsOwnWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		plugin := &hangingPlugin{}
		all := startAlone(t, api, func(c *kube.Config) { c.Credentials = plugin })
		time.Sleep(time.Minute)
		plugin.set(true)
		time.Sleep(40 * time.Second)
		expect(t, "warnings", len(all.log.with("no credential for the API server; nothing can be changed")), 1)
		expectText(t, "/readyz", all.health.verbose(), "    ! no credential for http://apiserver.test for ",
			" (get a credential: users: me: ", "; nothing can be changed meanwhile; ",
			"; waiting: list configmaps in default; ")
		plugin.set(false)
		time.Sleep(20 * time.Second)
		expect(t, "lines when it is back", len(all.log.with("the API server answers again")), 1)
		expect(t, "stop", all.stop(), nil)
	})
}

// failingPlugin is a credential plugin that fails at once, or gives no credential.
type failingPlugin struct{ fails atomic.Bool }

func (f *failingPlugin) Authorization(context.Context) (string, error) {
	if f.fails.Load() {
		return "", errors.New("users: me: exec: run aws: exit status 1")
	}
	return "", nil
}
func (f *failingPlugin) Invalidate(time.Time) {}

func TestAnOutageIsOneWarningAndOneLineAboutItsEndWhoeverSeesItFirst(t *testing.T) {
	for name, from := range map[string]time.Duration{"from the start": 0, "while all watches are open": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, _ := newServer(t)
				plugin := &failingPlugin{}
				plugin.fails.Store(from == 0)
				all := startAlone(t, api, func(c *kube.Config) { c.Credentials = plugin })
				time.Sleep(from)
				plugin.fails.Store(true)
				time.Sleep(20 * time.Minute) // all watches have been renewed
				if n := len(all.log.with(`"level"="WARN"`)); n != 1 {
					t.Errorf("%d warnings, want 1: %q", n, all.log.with(""))
				}
				plugin.fails.Store(false)
				time.Sleep(2 * time.Minute)
				if n := len(all.log.with("the API server answers again")) +
					len(all.log.with("in contact with the API server again")); n != 1 {
					t.Errorf("%d lines about its end, want 1: %q", n, all.log.with(""))
				}
				expect(t, "stop", all.stop(), nil)
			})
		})
	}
}

// An admission webhook may take 30 s, and so may the first list of a large cluster.
func TestOneSlowRequestIsNoLostContactWhileOthersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		all := startAlone(t, api)
		createMap(t, all.client, "one")
		defer api.Inject(apiserver.Fault{Verb: "patch", Delay: 25 * time.Second})()
		for range 3 {
			if err := all.client.Patch(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "one"},
				kube.MergePatch, map[string]any{"data": map[string]any{"by": "test"}}, nil,
				kube.WriteOptions{}); err != nil {
				t.Error(err)
			}
		}
		expect(t, "warnings", len(all.log.with("no answer from the API server")), 0)
		expect(t, "stop", all.stop(), nil)
	})
}
