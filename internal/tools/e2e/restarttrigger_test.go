package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sidecarRole is the Role of examples/sidecar.yaml, for the user restricted.
const sidecarRole = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: predixy-restart}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
- {apiGroups: [apps], resources: [deployments], resourceNames: [predixy], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: predixy-restart}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: predixy-restart}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: restricted}]
`

func workloadManifest(kind, name string, replicas int) string {
	count := fmt.Sprintf("replicas: %d, ", replicas)
	if kind == "DaemonSet" {
		count = ""
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s}
spec: {%sselector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: main, image: x}]}}}
`, kind, name, count)
}

func sourcePod(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: redis-cluster}}
spec: {containers: [{name: redis, image: "redis:7"}]}
`, name)
}

// restartTriggerManifest is a RestartTrigger on pods of redis-cluster, with more of its spec in YAML flow style.
func restartTriggerManifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: skiff.dev/v1alpha1\nkind: RestartTrigger\nmetadata: {name: %s}\nspec: {source: "+
		"{selector: {matchLabels: {app: redis-cluster}}}, %s}\n", name, spec)
}

func (s *Scope) workload(plural, name string) Object {
	s.Helper()
	return s.get("/apis/apps/v1/namespaces/" + s.NS + "/" + plural + "/" + name)
}

func (s *Scope) restartTrigger(name string) Object {
	s.Helper()
	return s.get("/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/restarttriggers/" + name)
}

// restartedAt is the restart annotation of a workload, "" if it has none.
func restartedAt(o Object) string {
	return o.Str("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt")
}

func (s *Scope) waitTrigger(name, condition, want string) {
	s.Helper()
	Eventually(s, limit, fmt.Sprintf("%s of %s is %s", condition, name, want), func() (bool, string) {
		c := s.restartTrigger(name).Condition(condition)
		return c.Str("status")+"/"+c.Str("reason") == want, c.String()
	})
}

// replacePod deletes a pod of the source and makes it again, and returns when it runs.
func (s *Scope) replacePod(name string) {
	s.Helper()
	s.Kubectl("delete", "pod", name, "--now", "--ignore-not-found")
	s.Apply(sourcePod(name))
	s.Kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/"+name, "--timeout=4m")
}

// The RestartTrigger story, each part in a namespace of its own, all of them served by one skiff.
func TestRestartTrigger(t *testing.T) {
	s := newScope(t)
	start := time.Now()
	t.Cleanup(func() { onePodWatch(s, start) })
	sk := startSkiff(t, s, "--controllers", "restart")
	for _, part := range []struct {
		name string
		test func(*Scope, *Skiff)
	}{
		{"RestartWaitsForItsTarget", testRestartWaitsForItsTarget},
		{"RestartReasons", testRestartReasons},
		{"RestartIsHeldBack", testRestartIsHeldBack},
		{"RestartIsReverted", testRestartIsReverted},
		{"RestartCycle", testRestartCycle},
		{"RestartArticleSample", testRestartArticleSample},
		{"RestartSourceElsewhere", testRestartSourceElsewhere},
		{"RestartAllKindsInOrder", testRestartAllKindsInOrder},
		{"RestartRefusals", testRestartRefusals},
		{"RestartSidecar", testRestartSidecar},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(newScope(t), sk)
		})
	}
}

// The source article's use: the proxy restarts when a pod of the Redis cluster was replaced. And what a user sees of
// it.
func testRestartArticleSample(s *Scope, _ *Skiff) {
	s.Apply(workloadManifest("Deployment", "predixy", 2))
	s.replacePod("redis-1")
	s.replacePod("redis-2")
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	s.Apply(restartTriggerManifest("predixy", "targets: [{kind: Deployment, name: predixy}]"))
	s.waitTrigger("predixy", "Ready", "True/Armed")
	if at := restartedAt(s.workload("deployments", "predixy")); at != "" {
		s.Errorf("pods of the first list restarted the proxy at %s", at)
	}

	start := time.Now()
	s.replacePod("redis-2")
	s.waitTrigger("predixy", "Progressing", "True/Pending")
	Eventually(s, limit, "the proxy is restarted", func() (bool, string) {
		at := restartedAt(s.workload("deployments", "predixy"))
		return at != "", s.restartTrigger("predixy").String()
	})
	s.waitTrigger("predixy", "Ready", "True/Armed")
	rt, d := s.restartTrigger("predixy"), s.workload("deployments", "predixy")
	if rt.Str("status", "lastRestart", "time") != restartedAt(d) || rt.Int("status", "restarts") != 1 ||
		rt.Str("status", "lastRestart", "pod") != "redis-2" || d.Int("status", "updatedReplicas") != 2 {
		s.Errorf("want one restart, for redis-2, rolled out: %s\n%s", rt, d)
	}
	writes := s.skiffRequests(start, s.writesHere)
	if len(writes) != 5 { // pending, intent, restart, done, rolled out
		s.Errorf("%d writes for one restart: %v", len(writes), writes)
	}

	table := strings.Split(s.Kubectl("get", "rt"), "\n")
	if header := strings.Join(strings.Fields(table[0]), " "); header != "NAME READY STATUS SOURCE CONFIG TARGETS "+
		"LAST RESTART REASON COUNT AGE" {
		s.Errorf("columns: %s", header)
	}
	if row := strings.Fields(table[1]); len(row) != 9 || strings.Join(row[:5],
		" ") != "predixy True Ready app=redis-cluster deployment/predixy" ||
		strings.Join(row[6:8], " ") != "NewPodRunning 1" {
		s.Errorf("row: %s", table[1])
	}
	for object, words := range map[string][]string{
		"restarttrigger/predixy": {"Restarted", "restarted deployment/predixy: pod redis-2 replaced"},
		"deployment/predixy":     {"restarted by RestartTrigger predixy: pod redis-2 replaced"},
	} {
		Eventually(s, limit, "kubectl describe shows the Events of "+object, func() (bool, string) {
			text := s.Kubectl("describe", object)
			all := true
			for _, w := range words {
				all = all && strings.Contains(text, w)
			}
			return all, text
		})
	}
	if text := s.Kubectl("explain", "rt.spec.source.reasons"); !strings.Contains(text, "NewPodRunning") {
		s.Errorf("kubectl explain: %s", text)
	}

	quiet := time.Now()
	Throughout(s, 10*time.Second, "nothing is sent but watches", func() (bool, string) {
		requests := s.skiffRequests(quiet, func(r Request) bool {
			return r.Namespace == s.NS &&
				r.Resource != "events"
		})
		return len(requests) == 0, fmt.Sprint(requests)
	})
}

func testRestartAllKindsInOrder(s *Scope, _ *Skiff) {
	s.Apply(workloadManifest("Deployment", "a", 1) + "---\n" + workloadManifest("StatefulSet", "b", 2) + "---\n" +
		workloadManifest("DaemonSet", "c", 0))
	for _, w := range []string{"deployment/a", "statefulset/b", "daemonset/c"} {
		s.Kubectl("rollout", "status", w, "--timeout=4m")
	}
	s.replacePod("redis-0")
	s.Apply(restartTriggerManifest("all",
		`debounce: 1s, cooldown: 1s, targets: [{kind: Deployment, name: a}, {kind: StatefulSet, name: b}, {kind: DaemonSet, name: c}]`))
	s.waitTrigger("all", "Ready", "True/Armed")
	start := time.Now()
	s.replacePod("redis-0")
	Eventually(s, 2*limit, "all three are restarted at the same time and rolled out", func() (bool, string) {
		a, b, c := restartedAt(s.workload("deployments", "a")), restartedAt(s.workload("statefulsets", "b")),
			restartedAt(s.workload("daemonsets", "c"))
		rt := s.restartTrigger("all")
		return a != "" && a == b && b == c && rt.Condition("Ready").Str("status") == "True", rt.String()
	})
	if n := s.restartTrigger("all").Int("status", "restarts"); n != 1 {
		s.Errorf("%d restarts for one pod", n)
	}
	var order []string
	for _, r := range s.skiffRequests(start, func(r Request) bool { return s.writesHere(r) && r.Group == "apps" }) {
		order = append(order, r.Resource+"/"+r.Name)
	}
	if want := []string{"deployments/a", "statefulsets/b", "daemonsets/c"}; !slices.Equal(order, want) {
		s.Errorf("restarted %q, want %q", order, want)
	}
	// The StatefulSet rolls its two pods one by one: the DaemonSet has to have waited for the second.
	rolled, err := s.c.Requests(start, func(r Request) bool {
		return r.Resource == "daemonsets" && r.Verb == "patch" &&
			r.Namespace == s.NS
	})
	if err != nil || len(rolled) != 1 {
		s.Fatalf("want one PATCH of the DaemonSet, got %v %v", rolled, err)
	}
	for _, p := range s.get("/api/v1/namespaces/" + s.NS + "/pods?labelSelector=app%3Db").List("items") {
		if created, err := time.Parse(time.RFC3339, p.Str("metadata", "creationTimestamp")); err != nil ||
			created.After(rolled[0].Received) {
			s.Errorf("the DaemonSet was restarted at %s, before pod %s of the StatefulSet was made at %s %v",
				rolled[0].Received, p.Name(), created, err)
		}
	}
}

func testRestartRefusals(s *Scope, _ *Skiff) {
	s.Apply(workloadManifest("Deployment", "redis-cluster", 1))
	s.Apply(restartTriggerManifest("loop", `targets: [{kind: Deployment, name: redis-cluster}]`))
	s.waitTrigger("loop", "Stalled", "True/SelfReference")
	s.Apply(restartTriggerManifest("missing", `targets: [{kind: Deployment, name: nobody}]`))
	s.waitTrigger("missing", "Ready", "False/TargetMissing")
	for spec, field := range map[string]string{
		`targets: [{kind: Job, name: x}]`: "spec.targets[0].kind",
		`targets: []`:                     "spec.targets",
		`targets: [{kind: Deployment, name: x}], debounce: soon`:                 "spec.debounce",
		`targets: [{kind: Deployment, name: x}], budget: {max: 0, per: 1h}`:      "spec.budget.max",
		`targets: [{kind: Deployment, name: x}], cooldown: 1m, budget: {max: 1}`: "spec.budget.per",
	} {
		r, err := s.kubectl.Run(s.Context(), restartTriggerManifest("bad", spec), "-n", s.NS, "apply", "-f", "-")
		if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, field) {
			s.Errorf("%s: want a refusal that names %s, got %v %v", spec, field, r, err)
		}
	}
	Throughout(s, 5*time.Second, "nothing is restarted", func() (bool, string) {
		d := s.workload("deployments", "redis-cluster")
		return restartedAt(d) == "", d.String()
	})
}

// `skiff restart` with nothing but a Role of two rules.
func testRestartSidecar(s *Scope, _ *Skiff) {
	s.Apply(sidecarRole)
	s.Apply(workloadManifest("Deployment", "predixy", 2))
	s.replacePod("redis-0")
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	binary := must(skiffBinary())(s)
	kubeconfig := must(s.c.Kubeconfig(restricted))(s)
	run := func(name string) *Skiff {
		p := must(s.c.StartSkiffCommand(binary, name+"-"+s.NS, kubeconfig, "restart", "-n", s.NS,
			"--selector", "app=redis-cluster", "--target", "deployment/predixy", "--debounce", "1s", "--cooldown",
			"5s"))(s)
		s.Cleanup(func() {
			if s.Failed() {
				s.Log(p.Tail(40))
			}
		})
		return p
	}
	annotation := func() string {
		return s.workload("deployments", "predixy").Str("metadata", "annotations", "skiff.dev/restart-state")
	}
	one, two := run("one"), run("two") // as in two replicas of the proxy
	Eventually(s, limit, "the first state is stored", func() (bool, string) {
		return annotation() != "",
			one.Tail(20)
	})
	s.replacePod("redis-0")
	Eventually(s, limit, "the proxy is restarted", func() (bool, string) {
		return restartedAt(s.workload("deployments", "predixy")) != "", one.Tail(20)
	})
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	Throughout(s, 8*time.Second, "it is restarted once", func() (bool, string) {
		d := s.workload("deployments", "predixy")
		return d.Str("metadata", "annotations", "deployment.kubernetes.io/revision") == "2", d.String()
	})
	for _, p := range []*Skiff{one, two} {
		if inTime, err := p.Stop(30 * time.Second); err != nil || !inTime || p.ExitCode() != 0 {
			s.Errorf("on SIGTERM: in time %t, %v", inTime, err)
		}
	}
	s.replacePod("redis-0") // while no skiff runs
	three := run("three")
	Eventually(s, limit, "what was missed is made up for", func() (bool, string) {
		d := s.workload("deployments", "predixy")
		return d.Str("metadata", "annotations", "deployment.kubernetes.io/revision") == "3", three.Tail(20)
	})
	if _, err := three.Stop(30 * time.Second); err != nil {
		s.Error(err)
	}
}
