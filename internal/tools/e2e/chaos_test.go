package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// chaosSeed runs a failing TestChaosConverges with the same faults again, as far as a real control plane repeats
// itself.
var chaosSeed = flag.Uint64("chaos-seed", 0, "seed of TestChaosConverges; 0: a new one")

// All three controllers work for a minute through a proxy that breaks a quarter of their requests. Once it stops, the
// cluster is what is declared; and what must happen once has happened once, also where its answer was lost.
func TestChaosConverges(t *testing.T) {
	s, web := newScope(t), newScope(t) // what is in the second is all of the load's
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again with -chaos-seed=%d", seed)
	proxy := must(StartFaultProxy(s.c.Server, s.c.CAFile, t.TempDir(), seed))(t)
	t.Cleanup(proxy.Close)
	kubeconfig := s.c.path("chaos.kubeconfig")
	if err := (Kubeconfig{Server: proxy.Server, CAFile: proxy.CAFile,
		Token: operator.Token}).Write(kubeconfig); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	sk := launchSkiffCommand(t, s, kubeconfig, "run")

	s.Apply(workloadManifest("Deployment", "proxy", 1))
	s.Apply(RedisManifest("cache", "port: 6379, num: 3, image: 'redis:7.0'"))
	s.waitRedis("cache", "redis:7.0", 3)
	s.replacePod("source-0")
	s.Kubectl("rollout", "status", "deployment/proxy", "--timeout=4m")
	s.Apply(restartTriggerManifest("proxy", "debounce: 1s, cooldown: 1s, targets: [{kind: Deployment, name: proxy}]"))
	s.waitTrigger("proxy", "Ready", "True/Armed")

	load := NewLoad(s.c.Admin, web.NS, seed)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- load.Run(ctx) }()
	const rounds = 4
	for i := range rounds {
		s.Kubectl("patch", "redis", "cache", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"image":"redis:7.%d"}}`, i+1))
		s.replacePod("source-0")
		s.waitRestarts("proxy", i+1)
		s.waitRedis("cache", fmt.Sprintf("redis:7.%d", i+1), 3)
	}
	Eventually(t, limit, "a hundred changes", func() (bool, string) {
		return load.Steps() >= 100,
			fmt.Sprint(load.Steps())
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("load: %v", err)
	}
	proxy.Calm()

	waitWorld(t, web, load.Want())
	if sk.Exited() {
		t.Fatalf("skiff ended with exit code %d", sk.ExitCode())
	}
	counts := proxy.Counts()
	t.Logf("%d changes, faults: %v", load.Steps(), counts)
	for _, fault := range faults {
		if counts[fault] == 0 {
			t.Errorf("no request was %s: this has shown less than it says", fault)
		}
	}
	noDuplicates(t, web, start)
	doneOnce(t, s, start, rounds)
}

// doneOnce checks what skiff wrote against what was asked for.
func doneOnce(t *testing.T, s *Scope, start time.Time, rounds int) {
	t.Helper()
	// Three pods at first, and three for each roll. kwok deletes by name, and now and then hits the successor of the
	// pod that it means.
	made := s.skiffRequests(start, func(r Request) bool {
		return s.writesHere(r) && r.Resource == "pods" && r.Verb == "create" && r.Code == 201 &&
			!strings.Contains(r.URI, "dryRun")
	})
	deleted := s.podsWritten(start, "delete")
	if want := 3 + len(deleted); len(made) < 3*(rounds+1) || len(made) > want+rounds {
		t.Errorf("%d pods were created and %d deleted for %d rolls of three", len(made), len(deleted), rounds)
	}
	d := s.workload("deployments", "proxy")
	if revision := d.Str("metadata", "annotations",
		"deployment.kubernetes.io/revision"); revision != fmt.Sprint(rounds+1) {
		t.Errorf("the proxy is at revision %s after %d restarts", revision, rounds)
	}
	if n := s.restarts("proxy"); n != rounds {
		t.Errorf("the trigger counts %d restarts, want %d", n, rounds)
	}
}
