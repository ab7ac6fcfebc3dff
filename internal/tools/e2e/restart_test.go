package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The API server dies by kill -9 and comes back, twice, while WebServers are created, changed and deleted before,
// during and after. skiff has to resume, miss nothing, make nothing twice, and must not storm the server.
func TestAPIServerIsKilledUnderLoad(t *testing.T) {
	s := newScope(t)
	proxy := must(StartTCPProxy(strings.TrimPrefix(s.c.Server, "https://")))(t)
	t.Cleanup(proxy.Close)
	kubeconfig := s.c.path("proxied.kubeconfig")
	if err := (Kubeconfig{Server: "https://" + proxy.Addr, CAFile: s.c.CAFile,
		Token: operator.Token}).Write(kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // also after a failure: the other tests need it
		if s.c.apiserver.Exited() {
			if err := s.c.StartAPIServer(noContext); err != nil {
				t.Error(err)
			}
		}
	})
	sk := launchSkiff(t, s, kubeconfig)
	waitReady(t, sk)

	start := time.Now()
	load := NewLoad(s.c.Admin, s.NS, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- load.Run(ctx) }()
	steps := func(n int) {
		t.Helper()
		from := load.Steps()
		Eventually(t, limit, fmt.Sprintf("%d more changes", n),
			func() (bool, string) { return load.Steps() >= from+n, fmt.Sprint(load.Steps()) })
	}
	steps(40)
	for range 2 {
		restartAPIServer(t, s, proxy)
		steps(40)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("load: %v", err)
	}

	waitWorld(t, s, load.Want())
	if sk.Exited() {
		t.Fatalf("skiff ended with exit code %d", sk.ExitCode())
	}
	noDuplicates(t, s, start)
	boundedRequests(t, s, start, load.Steps())
}

// restartAPIServer kills the API server, watches for ten seconds how often skiff dials meanwhile, and starts it again.
func restartAPIServer(t *testing.T, s *Scope, proxy *TCPProxy) {
	t.Helper()
	const away = 10 * time.Second
	err := s.c.RestartAPIServer(t.Context(), func() {
		before := proxy.Dials()
		Throughout(t, away, "skiff dials with backoff", func() (bool, string) {
			// Each of up to 40 WebServers that has work is tried eleven times in ten seconds, with a backoff that
			// doubles from 5 ms, and each try may send three requests. Without a backoff there would be tens of
			// thousands.
			n := proxy.Dials() - before
			return n < 1500, fmt.Sprintf("%d connections", n)
		})
		t.Logf("%d connections in %s without a server", proxy.Dials()-before, away)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitWorld returns when the WebServers' children are what want says, and nothing else of skiff's is in the namespace.
func waitWorld(t *testing.T, s *Scope, want map[string]wanted) {
	t.Helper()
	Eventually(t, 2*limit, "the cluster is what was asked for", func() (bool, string) {
		problems, err := compareWorld(s, want)
		if err != nil {
			return false, err.Error()
		}
		return len(problems) == 0, strings.Join(problems, "\n")
	})
}

// compareWorld says what differs.
func compareWorld(s *Scope, want map[string]wanted) (problems []string, err error) {
	found := map[string]map[string]Object{}
	for kind, path := range map[string]string{
		"webserver":  "/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/webservers",
		"deployment": "/apis/apps/v1/namespaces/" + s.NS + "/deployments",
		"service":    "/api/v1/namespaces/" + s.NS + "/services",
	} {
		list, err := s.c.Admin.Get(s.Context(), path)
		if err != nil {
			return nil, err
		}
		found[kind] = map[string]Object{}
		for _, item := range list.List("items") {
			found[kind][item.Name()] = item
		}
		if len(found[kind]) != len(want) {
			problems = append(problems, fmt.Sprintf("%d objects of kind %s, want %d", len(found[kind]), kind,
				len(want)))
		}
	}
	for name, w := range want {
		ws, d, svc := found["webserver"][name], found["deployment"][name], found["service"][name+"-service"]
		switch {
		case ws == nil || d == nil || svc == nil:
			problems = append(problems, name+": object or child missing")
		case d.ControllerUID() != ws.UID() || svc.ControllerUID() != ws.UID():
			problems = append(problems, name+": child of another owner")
		case containerOf(d).Str("image") != w.image || d.Int("spec", "replicas") != w.replicas:
			problems = append(problems, fmt.Sprintf("%s: %s x %d, want %v", name, containerOf(d).Str("image"),
				d.Int("spec", "replicas"), w))
		case ws.Condition("Ready").Str("status") != "True" ||
			ws.Int("status", "observedGeneration") != ws.Int("metadata", "generation"):
			problems = append(problems, name+": not Ready: "+Object{"status": ws.At("status")}.String())
		}
	}
	return problems, nil
}

// noDuplicates checks that skiff did not create a child twice for one WebServer: names are unique at any time, but a
// child that is made again and again would show up here. That happens when the mirror of the children is fresh and
// that of the WebServers is not yet: a WebServer that was deleted meanwhile seems to lack its children, and the
// garbage collector takes each new one away.
func noDuplicates(t *testing.T, s *Scope, since time.Time) {
	t.Helper()
	deleted := s.skiffRequests(since, func(r Request) bool { return s.writesHere(r) && r.Verb == "delete" })
	if len(deleted) > 0 {
		t.Errorf("skiff deleted children that it should keep: %v", deleted)
	}
	count := func(r Request) bool { return r.Code == 201 && r.Namespace == s.NS }
	parents, err := s.c.Requests(since, func(r Request) bool {
		return count(r) && r.Resource == "webservers" &&
			r.Verb == "create"
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range []string{"deployments", "services"} {
		made := s.skiffRequests(since, func(r Request) bool {
			return count(r) && r.Resource == child &&
				r.Verb == "create"
		})
		// A create whose audit line died with the server leaves the numbers apart by one for each kill.
		if len(made) > len(parents)+2 {
			t.Errorf("%d %s created for %d WebServers", len(made), child, len(parents))
		}
	}
}

// boundedRequests checks what skiff sent in all against what the changes need.
func boundedRequests(t *testing.T, s *Scope, since time.Time, steps int) {
	t.Helper()
	watches := s.skiffRequests(since, func(r Request) bool { return !r.Write() && r.Name == "" })
	// Three kinds; per restart each may resume, be told to wait while the server starts, and list again.
	if len(watches) > 60 {
		t.Errorf("%d lists and watches for two restarts: %v", len(watches), watches)
	}
	// A change costs at most a create or an apply (with a look at managedFields before the first) for two children,
	// and a few status writes while pods become ready.
	writes := s.skiffRequests(since, func(r Request) bool { return r.Namespace == s.NS })
	if limit := 15 * steps; len(writes) > limit {
		t.Errorf("%d requests for %d changes, limit %d", len(writes), steps, limit)
	}
	t.Logf("%d changes: %d lists and watches, %d other requests", steps, len(watches), len(writes))
}

// The token of a running skiff is rotated in its file, and the server forgets the old one.
func TestTokenIsRotated(t *testing.T) {
	s := newScope(t)
	first, second := User{"rotating", canary + "-rotating-1", "system:masters"},
		User{"rotating", canary + "-rotating-2", "system:masters"}
	use := func(u User) {
		t.Helper()
		noError(t, s.c.SetUsers(append([]User{u}, clusterUsers...)))
		noError(t, s.c.RestartAPIServer(t.Context(), nil))
	}
	use(first)
	tokens, kubeconfig := s.c.path("rotating.token"), s.c.path("rotating.kubeconfig")
	writeFile(t, tokens, first.Token)
	noError(t, (Kubeconfig{Server: s.c.Server, CAFile: s.c.CAFile, TokenFile: tokens}).Write(kubeconfig))
	sk := launchSkiff(t, s, kubeconfig)
	waitReady(t, sk)
	s.Apply(WebServerManifest("before", "image: nginx:1.23.1, replicas: 1"))
	s.waitChildren("before", "nginx:1.23.1", 1)

	writeFile(t, tokens, second.Token)
	use(second)
	old := must(NewAPI(s.c.Server, s.c.CAFile, first.Token))(t)
	if _, err := old.Get(t.Context(), "/api/v1/namespaces"); !IsCode(err, 401) {
		t.Fatalf("the old token should be refused with 401, got %v", err)
	}
	s.Apply(WebServerManifest("after", "image: nginx:1.23.1, replicas: 1"))
	s.waitChildren("after", "nginx:1.23.1", 1)
	s.waitCondition("after", "Ready", "True")
	waitReady(t, sk)
}

// The audit log of a cluster at rest has nothing of skiff but its watches, and four lists of one object a minute that
// show whether the server still answers.
func TestSteadyStateSendsNothingButWatchesAndPings(t *testing.T) {
	isPing := func(r Request) bool { return r.Verb == "list" && strings.Contains(r.URI, "limit=1") }
	works := func(r Request) bool { return r.Verb != "watch" && !isPing(r) }
	s := newScope(t)
	Eventually(t, 2*limit, "the namespaces of earlier tests are gone, with what skiff does in them",
		func() (bool, string) {
			all := s.get("/apis/skiff.dev/v1alpha1/webservers").List("items")
			return len(all) == 0, fmt.Sprintf("%d WebServers", len(all))
		})
	startSkiff(t, s)
	for i := range 5 {
		s.Apply(WebServerManifest(fmt.Sprintf("rest-%d", i),
			"image: nginx:1.23.1, replicas: 2, resources: {requests: {cpu: '0.5'}}, env: [{name: A, value: b}]"))
	}
	for i := range 5 {
		s.waitCondition(fmt.Sprintf("rest-%d", i), "Ready", "True")
	}
	// Rest is when nothing happened for five seconds: the status write and its echo are then through.
	quiet := time.Now()
	Eventually(t, limit, "five seconds without a request", func() (bool, string) {
		last := s.skiffRequests(quiet, works)
		if len(last) > 0 {
			quiet = last[len(last)-1].Received.Add(time.Nanosecond)
		}
		return time.Since(quiet) > 5*time.Second, fmt.Sprint(last)
	})

	start := time.Now()
	Throughout(t, 30*time.Second, "nothing but watches and pings", func() (bool, string) {
		requests := s.skiffRequests(start, works)
		return len(requests) == 0, fmt.Sprint(requests)
	})
	if pings := s.skiffRequests(start, isPing); len(pings) > 3 { // one each 15 s
		t.Errorf("%d pings in 30 s: %v", len(pings), pings)
	}
	// A watch lasts five minutes at least, so at most one of each of the three kinds ends by chance in this window.
	isWatch := func(r Request) bool { return r.Verb == "watch" }
	if watches := s.skiffRequests(start, isWatch); len(watches) > 3 {
		t.Errorf("%d new watches in 30 s: %v", len(watches), watches)
	}
}
