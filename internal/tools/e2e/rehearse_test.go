package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A cluster on which skiff is done, and which changes no more, stays as it is in a rehearsal: the simulation does not
// take what the real controllers, scheduler and kubelet made for something to be done. The cluster itself is only
// read. Then a WebServer is changed while skiff is away, and the rehearsal shows what will be.
//
// Rules: PL-23, PL-24, PL-25, RR-01, RR-24
func TestARehearsalOnACopyOfARealCluster(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s, "--controllers", "redis,restart", "--watch-namespaces", s.NS)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 3, env: [{name: KEY, value: "+canary+"}]"))
	s.Apply(RedisManifest("cache", "port: 6379, num: 2, config: {requirepass: "+canary+"}"))
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		s.Apply(workloadManifest(kind, "w-"+strings.ToLower(kind), 2))
	}
	s.replacePod("redis-0")
	s.Apply(restartTriggerManifest("all", "debounce: 1s, targets: [{kind: Deployment, name: w-deployment}, "+
		"{kind: StatefulSet, name: w-statefulset}, {kind: DaemonSet, name: w-daemonset}]"))
	s.Kubectl("wait", "--for=condition=Ready", "webserver/web", "redis/cache", "--timeout=4m")
	s.waitTrigger("all", "Ready", "True/Armed")
	s.replacePod("redis-0") // which restarts the three workloads
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		Eventually(s, limit, kind+" is restarted", func() (bool, string) {
			w := s.workload(kind+"s", "w-"+kind)
			return restartedAt(w) != "", w.String()
		})
		s.Kubectl("rollout", "status", kind+"/w-"+kind, "--timeout=4m")
	}
	s.waitTrigger("all", "Ready", "True/Armed")
	s.Merge(s.webServerPath("web"), `{"spec":{"image":"nginx:1.25.3"}}`) // there is an old ReplicaSet, too
	s.waitChildren("web", "nginx:1.25.3", 3)
	s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
	s.Kubectl("wait", "--for=condition=Ready", "webserver/web", "--timeout=4m")
	start := time.Now()
	if r := s.rehearse(); r.Code != 0 || !strings.HasPrefix(r.Stdout, "No writes: the ") {
		t.Errorf("a healthy cluster: %s", r)
	}
	file := filepath.Join(t.TempDir(), "state")
	if r := s.rehearse("--save", file); r.Code != 0 {
		t.Errorf("--save: %s", r)
	}
	if text := string(must(os.ReadFile(file))(t)); strings.Contains(text, canary) {
		t.Error("the file has a canary")
	}
	from := must(runCommand(t.Context(), nil, "", must(skiffDevBinary())(t), "rehearse", "--from", file))(t)
	if from.Code != 0 || !strings.HasPrefix(from.Stdout, "No writes: the ") {
		t.Errorf("the same from a file: %s", from)
	}
	requests, err := s.c.Requests(start, func(r Request) bool {
		return r.User == admin.Name && strings.HasPrefix(r.UserAgent, "skiff")
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Verb != "get" && r.Verb != "list" {
			t.Errorf("a rehearsal sends %+v", r)
		}
	}
	if len(requests) == 0 {
		t.Error("the audit log has no request of the rehearsal")
	}

	if err := sk.Terminate(); err != nil {
		t.Fatal(err)
	}
	s.Merge(s.webServerPath("web"), `{"spec":{"image":"nginx:1.27.0"}}`)
	r := s.rehearse("--by-owner")
	ns := s.NS + "/"
	want := "(cluster) Deployment " + ns + "web: 3 of 3 new pods ready\nWebServer " + ns + "web ~ Deployment web\n" +
		"Rehearsal: 0 created, 1 changed, 0 deleted, 0 blocked.\n"
	if r.Code != 3 || !strings.HasPrefix(r.Stdout, want) {
		t.Errorf("a changed WebServer: %s\nwant %s", r, want)
	}
	if again := s.rehearse("--by-owner"); again.Stdout != r.Stdout {
		t.Errorf("the second rehearsal differs: %s\nthe first: %s", again, r)
	}
}

// rehearse rehearses with the namespace of the test.
func (s *Scope) rehearse(flags ...string) Result {
	s.Helper()
	args := append([]string{must(skiffDevBinary())(s), "rehearse", "--kubeconfig", must(s.c.Kubeconfig(admin))(s),
		"--watch-namespaces", s.NS}, flags...)
	return must(runCommand(s.Context(), nil, "", args...))(s)
}
