package manager

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/testcluster/apiserver"
)

// replica is one of several processes with the same controller.
type replica struct {
	prober
	metrics prober
	page    prober // of the live page
	journal
	election *apiserver.Pipe // the connections of its elector
	work     *apiserver.Pipe // those of its controller
	client   *kube.Client    // on those
	elector  *leader.Elector
	stop     func() error
}

// startReplica runs a manager whose controller writes its name into each config map. A run of the map "slow" lasts
// until its context ends.
func startReplica(t *testing.T, api *apiserver.Server, name string, recorders ...*events.Recorder) *replica {
	t.Helper()
	return startReplicaWith(t, api, name, func(_ *replica, o *Options) { o.Recorders = recorders })
}

// startReplicaWith is startReplica with other options.
func startReplicaWith(t *testing.T, api *apiserver.Server, name string, edit func(*replica, *Options)) *replica {
	t.Helper()
	r := &replica{election: api.ListenPipe(), work: api.ListenPipe()}
	connect := func(p *apiserver.Pipe) *kube.Client {
		c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: p.Dial, UserAgent: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); p.Close() })
		return c
	}
	var err error
	r.elector, err = leader.New(leader.Options{Client: connect(r.election), Namespace: "default", Name: "skiff",
		Identity: name,
		Log:      logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	r.client = connect(r.work)
	client := r.client.Guard(r.elector.Held)
	write := func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
		r.note("ran " + k.Name)
		if k.Name == "slow" {
			<-ctx.Done()
			r.note("cut " + k.Name)
			return controller.Done, ctx.Err()
		}
		return controller.Done, client.Patch(ctx, configMaps, k, kube.MergePatch,
			map[string]any{"data": map[string]any{"by": name}}, nil, kube.WriteOptions{})
	}
	store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client, LabelSelector: "by=test"})
	c := controller.New("writer", write, controller.Options{Elected: true}, controller.For(store))
	o := Options{Controllers: []*controller.Controller{c}, Elector: r.elector,
		ElectionLog: events.New(events.Options{Client: r.client, Controller: "skiff.dev/leader-election"})}
	edit(r, &o)
	all := runAll(t, o)
	r.prober, r.metrics, r.page, r.stop = all.health, all.metrics, all.page, all.stop
	return r
}

// writer is who wrote a config map last.
func writer(api *apiserver.Server, name string) any {
	data, _ := api.Get(configMaps, kube.Key{Namespace: "default", Name: name})["data"].(map[string]any)
	return data["by"]
}

// Rules: LE-05, LE-06, LE-08, MGR-06, MGR-16
func TestAStandbyIsReadyAndTakesOverWithinASecondOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		a := startReplica(t, api, "a")
		time.Sleep(time.Second)
		b := startReplica(t, api, "b")
		createMap(t, client, "one")
		time.Sleep(time.Minute)
		expect(t, "written by", writer(api, "one"), any("a"))
		code, body := b.get("/readyz?verbose")
		expect(t, "/readyz of the standby "+body, code, 200)
		expectText(t, "/readyz of the standby", body, "configmaps: streaming, 1 object,", // the mirror is warm
			"\n    this process stands by; the leader is a, which renewed the lease at ")
		_, body = b.get("/healthz?verbose")
		expectText(t, "/healthz of the standby", body, "[+]leader-election ok")

		expect(t, "stop", a.stop(), nil)
		time.Sleep(time.Second)
		expect(t, "written after a second by", writer(api, "one"), any("b"))
		expect(t, "stop", b.stop(), nil)
	})
}

// Rules: LE-02, LE-05, LE-10
func TestLosingTheLeaseCutsRunsShortAndRegainingItResumesInTheSameProcess(t *testing.T) {
	t.Run("of controllers", func(t *testing.T) {
		losesTheLease(t, func(*replica, *Options) {})
	})
	t.Run("of a Set", func(t *testing.T) {
		losesTheLease(t, func(_ *replica, o *Options) {
			o.Set = controller.NewSet(logr.Discard())
			expectNoError(t, o.Set.Add(o.Controllers[0]))
			o.Controllers = nil
		})
	})
}

func losesTheLease(t *testing.T, edit func(*replica, *Options)) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		a := startReplicaWith(t, api, "a", edit)
		createMap(t, client, "slow")
		time.Sleep(20 * time.Second)
		expect(t, "began", a.has("ran slow"), true)
		expect(t, "cut", a.has("cut slow"), false)
		lists := countLists(api)

		a.election.Blackhole(true) // only the elector is cut off
		time.Sleep(leader.DefaultRenewDeadline + time.Millisecond)
		expect(t, "cut", a.has("cut slow"), true)
		createMap(t, client, "one")
		time.Sleep(10 * time.Second)
		expect(t, "written without the lease by", writer(api, "one"), any(nil))
		expect(t, "runs of the slow one", a.count("ran slow"), 1)
		code, body := a.get("/readyz")
		expect(t, "/readyz "+body, code, 200)

		a.election.Blackhole(false)
		for !a.elector.Leading() {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		expect(t, "written by", writer(api, "one"), any("a"))
		expect(t, "runs of the slow one", a.count("ran slow"), 2)
		expect(t, "lists", countLists(api), lists)
		go func() { // the run that does not end by itself is cut short when the drain is over
			expectNoError(t, a.stop())
		}()
		time.Sleep(controller.DrainTimeout)
		synctest.Wait()
	})
}

// Rules: LE-19
func TestEachChangeOfTheLeaderIsOneEventOnTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		leases := kube.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"}
		want := func(when string, want ...string) {
			t.Helper()
			var got []string
			uid := api.Get(leases, kube.Key{Namespace: "default", Name: "skiff"})["metadata"].(map[string]any)["uid"]
			for _, e := range api.List(kube.Resource{Version: "v1", Plural: "events", Kind: "Event"}, "default") {
				about := e["involvedObject"].(map[string]any)
				if about["kind"] != "Lease" || about["name"] != "skiff" || about["uid"] != uid || e["count"] != nil ||
					e["series"] != nil || e["reason"] != "LeaderElection" || e["type"] != "Normal" {
					t.Errorf("%s: an Event of another form: %v", when, e)
				}
				got = append(got, e["message"].(string))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: Events %q, want %q", when, got, want)
			}
		}
		a := startReplica(t, api, "a")
		time.Sleep(time.Second)
		b := startReplica(t, api, "b")
		time.Sleep(10 * time.Minute)
		want("after 300 renewals", "a became leader")
		a.election.Blackhole(true)
		time.Sleep(time.Minute)
		want("when a was cut off", "a became leader", "a stopped leading", "b became leader")
		a.election.Blackhole(false)
		expect(t, "stop", b.stop(), nil)
		want("when b has stopped", "a became leader", "a stopped leading", "b became leader", "b stopped leading")
		expect(t, "stop", a.stop(), nil)
	})
}

func expectNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func (j *journal) count(line string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(strings.Join(j.lines, "\n")+"\n", line+"\n")
}

func countLists(api *apiserver.Server) int {
	n := 0
	for _, r := range api.Requests() {
		if r.Method == "GET" && !r.Watch() && strings.HasSuffix(r.Path, "/configmaps") {
			n++
		}
	}
	return n
}

// Rules: MGR-02
func TestALeaderThatIsStoppedSendsItsEventsBeforeItReleasesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client := newServer(t)
		recorder := events.New(events.Options{Client: client, Controller: "test"})
		r := startReplica(t, api, "a", recorder)
		createMap(t, client, "slow")
		time.Sleep(20 * time.Second)
		go func() { expectNoError(t, r.stop()) }()
		synctest.Wait() // the run is still under way
		code, _ := r.get("/readyz")
		expect(t, "/readyz", code, 503)
		recorder.Record(events.Event{Regarding: events.Object{APIVersion: "v1", Kind: "ConfigMap",
			Namespace: "default", Name: "slow", UID: "u"}, Type: events.Normal, Reason: "Stopped",
			Action: "Stop", Note: "the last one"})
		time.Sleep(controller.DrainTimeout + time.Second) // not at the moment in which the run is cut short
		synctest.Wait()
		requests := api.Requests()
		event, release := -1, -1
		for i, q := range requests {
			switch {
			case q.Method == "POST" && strings.HasSuffix(q.Path, "/events"):
				event = i
			case q.Method == "PATCH" && strings.Contains(q.Path, "/leases/"):
				release = i // the last one
			}
		}
		if event < 0 || event > release {
			t.Errorf("the Event was request %d, the release of the lease %d", event, release)
		}
		for _, q := range requests {
			if q.Watch() && (q.Done.IsZero() || q.Done.After(requests[release].Time)) {
				t.Errorf("still watched when the lease was released: %s", q.Path)
			}
		}
		standby := startReplica(t, api, "b") // which need not wait until the lease expires
		time.Sleep(time.Second)
		expect(t, "leads", standby.elector.Leading(), true)
		expect(t, "stop", standby.stop(), nil)
		code, _ = r.get("/healthz")
		expect(t, "/healthz at the end", code, 0)
	})
}
