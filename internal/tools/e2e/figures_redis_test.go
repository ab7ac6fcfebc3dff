package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/simulate"
)

// BenchmarkManyRedis measures 1,000 Redis of one pod each on the real control plane: until they are there, while they
// rest, and when their pods are deleted.
func BenchmarkManyRedis(b *testing.B) {
	s := figureScope(b)
	makeRedises(b, s.c.Admin, s.NS)
	kubeconfig := must(s.c.Kubeconfig(admin))(b)
	start := time.Now()
	sk, _ := startMeasured(b, s.c, kubeconfig, "redis", "run")
	waitRedises(b, s.c.Admin, s.NS)
	requests := quiet(b, start, func() []Request { return s.skiffRequests(start, func(Request) bool { return true }) })
	rowsOfRedis(b, start, requests, usageOf(b, sk))

	begin, before := time.Now(), usageOf(b, sk)
	s.waitMoment(figureWindow)
	now := usageOf(b, sk)
	figure(b, "at-rest", took(figureWindow, now.CPU-before.CPU), memory(now),
		requestsFor(1, s.skiffRequests(begin, func(Request) bool { return true })))

	begin = time.Now()
	figure(b, "from-DELETED-to-ADDED-on-a-watch", distribution(deletePods(b, s)))
	figure(b, "from-the-end-of-DELETE-to-skiffs-POST", distribution(deleteToPost(b, s, begin)))
	if err := sk.Terminate(); err != nil {
		b.Error(err)
	}
}

// BenchmarkManyRedisOnTheEmbeddedServer measures the same beginning on the embedded API server, with simulated nodes.
func BenchmarkManyRedisOnTheEmbeddedServer(b *testing.B) {
	server := apiserver.New(apiserver.Options{Token: admin.Token})
	b.Cleanup(server.Close)
	tls := must(server.ListenTLS("127.0.0.1:0"))(b)
	b.Cleanup(func() {
		if err := tls.Close(); err != nil {
			b.Error(err)
		}
	})
	dir := b.TempDir()
	ca, path := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "kubeconfig")
	writeFile(b, ca, string(tls.CA))
	noError(b, (Kubeconfig{Server: tls.URL, CAFile: ca, Token: admin.Token}).Write(path))
	startNodes(b, path)
	api := must(NewAPI(tls.URL, ca, admin.Token))(b)
	group := must(NewGroup())(b)
	b.Cleanup(group.Close)
	c := &Cluster{Dir: dir, group: group} // a place to run skiff in; the control plane is in this process
	binary := must(skiffBinary())(b)
	if r, err := runCommand(b.Context(), nil, "", binary, "crds", "install", "--kubeconfig", path); err != nil ||
		r.Code != 0 {
		b.Fatalf("install the CRDs: %v %v", err, r)
	}
	makeRedises(b, api, "default")
	start := time.Now()
	sk, _ := startMeasured(b, c, path, "redis", "run")
	waitRedises(b, api, "default")
	requests := quiet(b, start, func() []Request { return fakeRequests(server, start) })
	rowsOfRedis(b, start, requests, usageOf(b, sk))
	if err := sk.Terminate(); err != nil {
		b.Error(err)
	}
}

// startNodes simulates nodes on the server of the kubeconfig until the test is over.
func startNodes(t testing.TB, path string) {
	t.Helper()
	cfg, _, err := kubeconfig.Load(kubeconfig.Flags{Kubeconfig: path}, kubeconfig.OSEnv(func(string) {}))
	if err != nil {
		t.Fatal(err)
	}
	cfg.UserAgent = "simulate"
	client := must(kube.New(cfg))(t)
	ctx, cancel := context.WithCancel(noContext)
	ended := make(chan error, 1)
	go func() { ended <- simulate.New(client, simulate.Options{}).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		client.Close()
	})
}

func redisName(i int) string { return fmt.Sprintf("r%04d", i) }

// makeRedises makes all Redis, before there is a controller.
func makeRedises(t testing.TB, api *API, namespace string) {
	t.Helper()
	parallel(t, figureRedises, func(ctx context.Context, i int) error {
		_, err := api.Create(ctx, "/apis/skiff.dev/v1alpha1/namespaces/"+namespace+"/redis",
			Object{"apiVersion": "skiff.dev/v1alpha1",
				"kind": "Redis", "metadata": Object{"name": redisName(i)}, "spec": Object{"port": 6379, "num": 1}})
		return err
	})
}

// figureLook is how often it is looked whether all is done: a list of all Redis, or the whole audit log, is much work
// beside that which is measured.
const figureLook = 2 * time.Second

// waitRedises returns when all Redis are Ready.
func waitRedises(t testing.TB, api *API, namespace string) {
	t.Helper()
	tick := time.NewTicker(figureLook)
	defer tick.Stop()
	Eventually(t, 3*limit, "all Redis are Ready", func() (bool, string) {
		<-tick.C
		list := must(api.Get(t.Context(), "/apis/skiff.dev/v1alpha1/namespaces/"+namespace+"/redis"))(t)
		ready := 0
		for _, rd := range list.List("items") {
			if rd.Condition("Ready").Str("status") == "True" {
				ready++
			}
		}
		return ready == figureRedises, fmt.Sprintf("%d of %d", ready, figureRedises)
	})
}

// quiet returns the requests once none but watches has come for ten seconds: what follows from the last change is then
// through, Events included.
func quiet(t testing.TB, since time.Time, requests func() []Request) (all []Request) {
	t.Helper()
	tick := time.NewTicker(figureLook)
	defer tick.Stop()
	Eventually(t, limit, "ten seconds without a request", func() (bool, string) {
		<-tick.C
		all = requests()
		last := since
		for _, r := range all {
			if r.Verb != "watch" && r.Received.After(last) {
				last = r.Received
			}
		}
		return time.Since(last) > 10*time.Second, fmt.Sprintf("%d requests, the last %s ago", len(all),
			time.Since(last))
	})
	return all
}

// rowsOfRedis says how 1,000 Redis came to be.
func rowsOfRedis(b *testing.B, start time.Time, requests []Request, u Usage) {
	made, lastPod, lastWrite := 0, start, start
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == "pods" && r.Code == http.StatusCreated {
			made++
			lastPod = r.Answered
		}
		if r.Verb == "patch" && r.Resource == "redis" && r.Subresource == "status" && r.Answered.After(lastWrite) {
			lastWrite = r.Answered
		}
	}
	figure(b, "made", took(lastWrite.Sub(start), u.CPU), memory(u),
		map[string]float64{"pods": float64(made), "to-last-pod-s": lastPod.Sub(start).Seconds()})
	figure(b, "requests-for-each", requestsFor(figureRedises, requests))
}

// fakeRequests are skiff's requests to the embedded server in the words of the audit log.
func fakeRequests(server *apiserver.Server, since time.Time) (out []Request) {
	verbs := map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodDelete: "delete",
		http.MethodPut: "update", http.MethodGet: "get"}
	for _, r := range server.Requests() {
		path := strings.Split(strings.Trim(r.Path, "/"), "/")
		request := Request{Received: r.Time, Answered: r.Done, UserAgent: r.UserAgent, Verb: verbs[r.Method],
			URI: r.Path, Code: r.Status}
		if !BySkiff(request) || r.Time.Before(since) {
			continue
		}
		// api/VERSION or apis/GROUP/VERSION, then perhaps namespaces/NAME, then the resource.
		rest := path[min(len(path), len("ab")):]
		if path[0] == "apis" {
			rest = rest[1:]
		}
		if len(rest) > 2 && rest[0] == "namespaces" {
			rest = rest[2:]
		}
		request.Resource = rest[0]
		if len(rest) > 2 {
			request.Subresource = rest[2]
		}
		switch {
		case r.Watch():
			request.Verb = "watch"
		case request.Verb == "get" && len(rest) == 1:
			request.Verb = "list"
		}
		out = append(out, request)
	}
	return out
}

// deletePods deletes the pod of one Redis after the other, and returns the times from DELETED to ADDED as a watch
// shows them.
func deletePods(t testing.TB, s *Scope) (latencies []time.Duration) {
	t.Helper()
	collection := "/api/v1/namespaces/" + s.NS + "/pods"
	events := arrivals(t, s.c.Admin, collection, figureDeletions)
	for i := range figureDeletions {
		name := redisName(i) + "-0"
		if _, err := s.c.Admin.Do(t.Context(), http.MethodDelete, s.podPath(name), "application/json",
			`{"gracePeriodSeconds":0}`); err != nil {
			t.Fatal(err)
		}
		deleted := events.next(t, "DELETED", name)
		latencies = append(latencies, events.next(t, "ADDED", name).Sub(deleted))
	}
	return latencies
}

// deleteToPost is the same from inside: from when the API server had answered the DELETE to when skiff's POST of that
// pod arrived.
func deleteToPost(t testing.TB, s *Scope, since time.Time) (latencies []time.Duration) {
	t.Helper()
	requests, err := s.c.Requests(since, func(r Request) bool {
		return r.Resource == "pods" && r.Namespace == s.NS &&
			r.Code < 300
	})
	if err != nil {
		t.Fatal(err)
	}
	deleted := map[string]time.Time{}
	for _, r := range requests {
		if r.Verb == "delete" && !BySkiff(r) {
			deleted[r.Name] = r.Answered
		}
	}
	for _, r := range requests {
		if at, ok := deleted[r.Name]; ok && r.Verb == "create" && BySkiff(r) {
			latencies = append(latencies, r.Received.Sub(at))
			delete(deleted, r.Name)
		}
	}
	if len(deleted) > 0 {
		t.Errorf("the audit log shows no POST for %d deleted pods", len(deleted))
	}
	return latencies
}

func distribution(all []time.Duration) map[string]float64 {
	ms := func(p float64) float64 { return percentile(all, p).Seconds() * 1000 }
	return map[string]float64{"p50-ms": ms(0.5), "p99-ms": ms(0.99), "longest-ms": ms(1), "pods": float64(len(all))}
}
