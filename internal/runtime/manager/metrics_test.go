package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
	"skiff/internal/testcluster/apiserver"
)

// samples reads a scrape: the values by name and labels, as they are written.
func (p prober) samples() map[string]float64 {
	p.t.Helper()
	code, body := p.get("/metrics")
	if code != http.StatusOK {
		p.t.Fatalf("/metrics: %d %s", code, body)
	}
	out := map[string]float64{}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if value == "" {
			name, value, _ = strings.Cut(name, " ")
		} else {
			name += "}"
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			p.t.Fatalf("%q: %v", line, err)
		}
		if _, twice := out[name]; twice {
			p.t.Fatalf("%s is there twice", name)
		}
		out[name] = v
	}
	return out
}

func expectSamples(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if have, ok := got[name]; !ok {
			t.Errorf("no %s", name)
		} else if have != v {
			t.Errorf("%s is %v, want %v", name, have, v)
		}
	}
}

// measured is a client whose requests are counted.
func measured(t *testing.T, api *apiserver.Server, q *Requests) *kube.Client {
	t.Helper()
	p := api.ListenPipe()
	client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: p.Dial, OnExchange: q.Observe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); p.Close() })
	return client
}

// What objects take is in skiff_cache_bytes, by resource.
//
// Rules: NET-22
func TestRequestsAreMeasuredByVerbAndHostWithoutNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		requests := &Requests{}
		client := measured(t, api, requests)
		remove := api.Inject(apiserver.Fault{Verb: "get", Delay: 3 * time.Second})
		defer remove()
		scrape := func() string {
			p := &metrics.Page{}
			requests.write(p)
			var out strings.Builder
			if _, err := p.WriteTo(&out); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		ask := func(name string) {
			var o configMap
			if err := client.Get(t.Context(), configMaps, kube.Key{Namespace: "default", Name: name}, &o); err == nil {
				t.Errorf("%s exists", name)
			}
		}
		ask("secret-name-0")
		series := strings.Count(scrape(), "\n")
		for i := range 50 {
			ask(fmt.Sprint("secret-name-", i+1))
		}
		text := scrape()
		if n := strings.Count(text, "\n"); n != series || strings.Contains(text, "secret-name") {
			t.Errorf("%d lines for 51 objects, %d for one:\n%s", n, series, text)
		}
		const slow = `rest_client_request_duration_seconds_bucket{verb="GET",host="apiserver.test",le=`
		for _, want := range []string{slow + `"2"} 0`, slow + `"4"} 51`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	})
}

// Rules: MGR-09, MGR-10
func TestAScrapeCountsRunsQueuesRequestsAndWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, user := newServer(t)
		requests := &Requests{}
		client := measured(t, api, requests)
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client,
			Namespaces: []string{"default"}, LabelSelector: "by=test"})
		c := controller.New("maps", func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
			switch k.Name {
			case "bad":
				return controller.Done, controller.Terminal(errors.New("refused"))
			case "again":
				return controller.After(time.Hour), nil
			case "panics":
				panic("a bug")
			}
			time.Sleep(2 * time.Second)
			return controller.Done, client.Patch(ctx, configMaps, k, kube.MergePatch,
				map[string]any{"metadata": map[string]any{"resourceVersion": "1"}}, nil, kube.WriteOptions{})
		}, controller.Options{Workers: 2}, controller.For(store))
		all := runAll(t, Options{Controllers: []*controller.Controller{c}, Requests: requests})
		m := all.metrics
		const of = `{controller="maps"}`
		expectSamples(t, m.samples(), map[string]float64{ // before anything has happened
			`controller_runtime_reconcile_total{controller="maps",result="success"}`: 0,
			`controller_runtime_reconcile_total{controller="maps",result="requeue"}`: 0,
			"controller_runtime_reconcile_errors_total" + of:                         0,
			"controller_runtime_max_concurrent_reconciles" + of:                      2,
			"controller_runtime_active_workers" + of:                                 0,
			`workqueue_depth{name="maps",controller="maps",priority="0"}`:            0,
			`skiff_panics_total{part="http"}`:                                        0,
			`skiff_parked{controller="maps",namespace="default",reason="forbidden"}`: 0,
		})
		time.Sleep(time.Second)
		for _, name := range []string{"bad", "again", "panics", "conflict"} {
			createMap(t, user, name)
		}
		time.Sleep(time.Second)
		expectSamples(t, m.samples(), map[string]float64{
			"controller_runtime_active_workers" + of:                                            1,
			`workqueue_longest_running_processor_seconds{name="maps",controller="maps"}`:        1,
			`skiff_cache_objects{resource="configmaps",selector="by=test",namespace="default"}`: 4,
		})
		time.Sleep(90 * time.Second)
		got := m.samples()
		const watch = `resource="configmaps",selector="by=test",namespace="default"`
		expectSamples(t, got, map[string]float64{
			`controller_runtime_reconcile_total{controller="maps",result="requeue_after"}`: 1,
			"controller_runtime_terminal_reconcile_errors_total" + of:                      1,
			`skiff_reconcile_cause_total{controller="maps",cause="ConfigMap ADDED"}`:       4,
			"skiff_stalled_keys" + of:                                  1,
			"skiff_failing_keys" + of:                                  3,
			`skiff_cache_synced{` + watch + `}`:                        1,
			`skiff_watch_restarts_total{` + watch + `,reason="ended"}`: 0,
			`skiff_cache_lists_total{` + watch + `,reason="initial"}`:  1,
		})
		conflicts := got[`skiff_conflicts_total{resource="configmaps"}`]
		if conflicts < 1 || conflicts != got[`rest_client_requests_total{code="409",method="PATCH",host="apiserver.test"}`] {
			t.Errorf("%v conflicts, %v", conflicts, got)
		}
		panics := got["controller_runtime_reconcile_panics_total"+of]
		if panics < 1 || panics != got[`skiff_panics_total{part="reconcile"}`] {
			t.Errorf("%v panics", panics)
		}
		if age := time.Since(time.UnixMilli(int64(1000 *
			got[`skiff_watch_last_activity_timestamp_seconds{`+watch+`}`]))); age > 91*time.Second || age < 0 {
			t.Errorf("the watch was active %s ago", age)
		}
		if runs := got["controller_runtime_reconcile_time_seconds_count"+of]; runs !=
			got[`controller_runtime_reconcile_time_seconds_bucket{controller="maps",le="+Inf"}`] || runs < 4 {
			t.Errorf("%v runs were measured", runs)
		}
		if bytes := got[`skiff_cache_bytes{resource="configmaps",selector="by=test"}`]; bytes < 4*100 {
			t.Errorf("4 objects take %v bytes", bytes)
		}
		expect(t, "stop", all.stop(), nil)
	})
}

// The names and the labels are those of controller-runtime, for which dashboards and alerts are written.
//
// Rules: WQ-16
func TestTheQueueIsMeasuredUnderTheNamesOfControllerRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, user := newServer(t)
		for _, name := range []string{"runs", "waits", "waits-too"} {
			createMap(t, user, name)
		}
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: measured(t, api, &Requests{}),
			Namespaces: []string{"default"}, LabelSelector: "by=test"})
		c := controller.New("maps", func(context.Context, kube.Key) (controller.Outcome, error) {
			time.Sleep(10 * time.Second)
			return controller.After(time.Hour), nil
		}, controller.Options{Workers: 1}, controller.For(store))
		all := runAll(t, Options{Controllers: []*controller.Controller{c}})
		time.Sleep(time.Second)
		createMap(t, user, "new")
		time.Sleep(time.Second)
		got := map[string]float64{}
		for name, value := range all.metrics.samples() {
			if strings.HasPrefix(name, "workqueue_") && !strings.Contains(name, "_bucket{") {
				got[name] = value
			}
		}
		const of = `{name="maps",controller="maps"}`
		running := got["workqueue_unfinished_work_seconds"+of]
		if running < 1 || running > 2 {
			t.Errorf("the run has taken %v s", running)
		}
		want := map[string]float64{
			`workqueue_depth{name="maps",controller="maps",priority="0"}`:    1,
			`workqueue_depth{name="maps",controller="maps",priority="-100"}`: 2,
			"workqueue_adds_total" + of:                                      4,
			"workqueue_retries_total" + of:                                   0,
			"workqueue_unfinished_work_seconds" + of:                         running,
			"workqueue_longest_running_processor_seconds" + of:               running,
			"workqueue_queue_duration_seconds_sum" + of:                      0,
			"workqueue_queue_duration_seconds_count" + of:                    1,
			"workqueue_work_duration_seconds_sum" + of:                       0,
			"workqueue_work_duration_seconds_count" + of:                     0,
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
		time.Sleep(time.Minute)
		expectSamples(t, all.metrics.samples(), map[string]float64{
			`workqueue_depth{name="maps",controller="maps",priority="0"}`:    0,
			`workqueue_depth{name="maps",controller="maps",priority="-100"}`: 0,
			"workqueue_retries_total" + of:                                   4,
			// The new one is served before those of the list.
			"workqueue_queue_duration_seconds_sum" + of: 9 + 20 + 30,
			"workqueue_work_duration_seconds_sum" + of:  40,
		})
		expect(t, "stop", all.stop(), nil)
	})
}

// A watch that is open and silent, as behind a proxy that keeps the connection: both ages grow, and the version stays.
//
// Rules: CCH-26
func TestASilentWatchShowsInItsAgeAndItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, user := newServer(t)
		pipe := api.ListenPipe()
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client,
			Namespaces: []string{"default"}, LabelSelector: "by=test"})
		c := controller.New("maps", nothing, controller.Options{}, controller.For(store))
		all := runAll(t, Options{Controllers: []*controller.Controller{c}})
		const of = `{resource="configmaps",selector="by=test",namespace="default"}`
		read := func() (age, bookmark time.Duration, version float64) {
			s := all.metrics.samples()
			active := time.UnixMilli(int64(1000 * s["skiff_watch_last_activity_timestamp_seconds"+of]))
			return time.Since(active), time.Duration(s["skiff_watch_bookmark_age_seconds"+of] * float64(time.Second)),
				s["skiff_watch_resource_version"+of]
		}
		for i := range 3 {
			createMap(t, user, fmt.Sprint("m", i)) // so that the bookmarks have something to tell
			time.Sleep(time.Minute)
		}
		time.Sleep(30 * time.Second) // a bookmark comes each minute: this is not the instant of one
		age, bookmark, version := read()
		if age > 90*time.Second || bookmark > 90*time.Second || version == 0 {
			t.Errorf("a watch in order: active %s ago, bookmark %s ago, version %v", age, bookmark, version)
		}
		pipe.Blackhole(true)
		createMap(t, user, "unseen")
		time.Sleep(2 * time.Minute)
		lateAge, lateBookmark, lateVersion := read()
		if lateAge < age+119*time.Second || lateBookmark < bookmark+119*time.Second || lateVersion != version {
			t.Errorf("two silent minutes later: active %s ago, bookmark %s ago, version %v; before %s, %s, %v",
				lateAge, lateBookmark, lateVersion, age, bookmark, version)
		}
		pipe.Blackhole(false)
		time.Sleep(10 * time.Minute)
		if age, _, now := read(); age > 10*time.Minute || now <= version {
			t.Errorf("afterwards: active %s ago, version %v", age, now)
		}
		expect(t, "stop", all.stop(), nil)
		expect(t, "close", pipe.Close(), nil)
	})
}

// Rules: LE-17
func TestTheMasterStatusIs1OnTheLeaderOnlyAnd0AfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		a := startReplica(t, api, "a")
		time.Sleep(time.Second)
		b := startReplica(t, api, "b")
		time.Sleep(time.Minute)
		const status = `leader_election_master_status{name="skiff"}`
		expectSamples(t, a.metrics.samples(), map[string]float64{status: 1, `leader_election_slowpath_total{name="skiff"}`: 0})
		expectSamples(t, b.metrics.samples(), map[string]float64{status: 0})
		a.election.Blackhole(true)
		time.Sleep(time.Minute)
		expectSamples(t, a.metrics.samples(), map[string]float64{status: 0})
		expectSamples(t, b.metrics.samples(), map[string]float64{status: 1})
		a.election.Blackhole(false)
		expect(t, "stop", errors.Join(a.stop(), b.stop()), nil)
	})
}

func TestWatchesBeyondTheBoundShareTheirSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newServer(t)
		var namespaces []string
		for i := range 2 * maxWatches {
			namespaces = append(namespaces, fmt.Sprintf("tenant-%03d", i))
		}
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: measured(t, api, &Requests{}),
			Namespaces: namespaces})
		m := New(Options{Controllers: []*controller.Controller{
			controller.New("maps", nothing, controller.Options{}, controller.For(store))}})
		var out strings.Builder
		page := &metrics.Page{}
		m.scrape(page)
		if _, err := page.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\nskiff_cache_objects{"); n != maxWatches+1 {
			t.Errorf("%d series, want %d", n, maxWatches+1)
		}
	})
}

func TestAPanicOfAnHTTPHandlerIsAnsweredCountedAndContained(t *testing.T) {
	m := New(Options{})
	h := m.contained(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") }))
	l := newPipeListener()
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	p := newProber(t, l)
	for range 2 {
		code, body := p.get("/metrics")
		expect(t, "code "+body, code, http.StatusInternalServerError)
	}
	expect(t, "panics", m.panics.Load(), 2)
	server.Close()
	<-done
}

// A scrape of three controllers with three watches each, as `skiff run` has them. What it allocates is what the heap
// of a process at rest grows by.
func BenchmarkScrape(b *testing.B) {
	client, err := kube.New(kube.Config{Server: apiserver.PipeURL})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	o := Options{Requests: &Requests{}}
	for _, name := range []string{"one", "two", "three"} {
		sources := []controller.Source{}
		for _, labels := range []string{"", "by=" + name, "for=" + name} {
			sources = append(sources, controller.For(cache.New[*configMap](cache.Options{Resource: configMaps,
				Client: client, LabelSelector: labels})))
		}
		o.Controllers = append(o.Controllers, controller.New(name, nil, controller.Options{}, sources...))
	}
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodDelete} {
		o.Requests.Observe(kube.Exchange{Host: "apiserver.test", Method: method, Code: 200, Took: time.Millisecond})
	}
	handler := New(o).metrics()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(nowhere{}, request)
	}
}

// nowhere answers nobody.
type nowhere struct{}

func (nowhere) Header() http.Header            { return http.Header{} }
func (nowhere) Write(text []byte) (int, error) { return len(text), nil }
func (nowhere) WriteHeader(int)                {}
