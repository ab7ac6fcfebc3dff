package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// reasonTrigger is a RestartTrigger for one reason, on pods of redis-cluster.
func reasonTrigger(name, reason, target string) string {
	return fmt.Sprintf("apiVersion: skiff.dev/v1alpha1\nkind: RestartTrigger\nmetadata: {name: %s}\nspec: {source: "+
		"{selector: {matchLabels: "+
		"{app: redis-cluster}}, reasons: [%s]}, debounce: 1s, cooldown: 1s, targets: [{kind: Deployment, name: "+
		"%s}]}\n", name, reason, target)
}

// restarts is how many restarts a trigger counts.
func (s *Scope) restarts(name string) int {
	s.Helper()
	return max(0, s.restartTrigger(name).Int("status", "restarts"))
}

// waitRestarts returns when a trigger counts n restarts and all is rolled out.
func (s *Scope) waitRestarts(name string, n int) {
	s.Helper()
	Eventually(s, limit, fmt.Sprintf("%s has restarted %d times", name, n), func() (bool, string) {
		return s.restarts(name) == n && s.restartTrigger(name).Condition("Ready").Str("status") == "True",
			s.restartTrigger(name).String()
	})
}

// Each reason of its own: of five triggers on the same pod, the one restarts that is for what happened.
func testRestartReasons(s *Scope, _ *Skiff) {
	reasons := []string{"ContainerRestarted", "PodIPChanged", "PodDeleted", "PodReplaced", "NewPodRunning"}
	s.replacePod("redis-0")
	for _, reason := range reasons {
		s.Apply(workloadManifest("Deployment", strings.ToLower(reason), 1))
		s.Apply(reasonTrigger(strings.ToLower(reason), reason, strings.ToLower(reason)))
	}
	for _, reason := range reasons {
		s.Kubectl("rollout", "status", "deployment/"+strings.ToLower(reason), "--timeout=4m")
		s.waitTrigger(strings.ToLower(reason), "Ready", "True/Armed")
	}
	patch := func(status string) {
		s.Kubectl("patch", "pod", "redis-0", "--subresource=status", "--type=merge", "-p", `{"status":`+status+`}`)
	}
	want := map[string]int{}
	for _, event := range []struct {
		what    string
		do      func()
		reasons []string
	}{
		{"a container restarts", func() {
			patch(`{"containerStatuses":[{"name":"redis","image":"redis:7","imageID":"","ready":true,"started":true,"restartCount":1,"state":{"running":{}}}]}`)
		}, []string{"ContainerRestarted"}},
		{"the address changes", func() { patch(`{"podIP":"10.99.0.1","podIPs":[{"ip":"10.99.0.1"}]}`) },
			[]string{"PodIPChanged"}},
		{"the pod goes", func() { s.Kubectl("delete", "pod", "redis-0", "--now") }, []string{"PodDeleted"}},
		{"another takes its name", func() { s.replacePod("redis-0") },
			[]string{"PodIPChanged", "PodReplaced", "NewPodRunning"}},
		{"one of a new name runs", func() { s.replacePod("redis-1") }, []string{"NewPodRunning"}},
	} {
		event.do()
		for _, reason := range event.reasons {
			want[reason]++
			s.waitRestarts(strings.ToLower(reason), want[reason])
			if last := s.restartTrigger(strings.ToLower(reason)).Str("status", "lastRestart",
				"reason"); last != reason {
				s.Errorf("%s: the reason is %s, want %s", event.what, last, reason)
			}
		}
		for _, reason := range reasons {
			if n := s.restarts(strings.ToLower(reason)); n != want[reason] {
				s.Errorf("%s: %s has restarted %d times, want %d", event.what, reason, n, want[reason])
			}
		}
	}
}

// Cooldown, budget, suspend and pause hold a restart back, say until when, and then let it happen, once.
func testRestartIsHeldBack(s *Scope, _ *Skiff) {
	s.Apply(workloadManifest("Deployment", "cool", 1) + "---\n" + workloadManifest("Deployment", "thrifty", 1))
	s.replacePod("redis-0")
	s.Kubectl("rollout", "status", "deployment/cool", "--timeout=4m")
	s.Kubectl("rollout", "status", "deployment/thrifty", "--timeout=4m")
	s.Apply(restartTriggerManifest("cool", "debounce: 1s, cooldown: 30s, targets: [{kind: Deployment, name: cool}]"))
	s.Apply(restartTriggerManifest("thrifty", "debounce: 1s, cooldown: 1s, budget: {max: 1, per: 1h}, targets: "+
		"[{kind: Deployment, name: thrifty}]"))
	s.waitTrigger("cool", "Ready", "True/Armed")
	s.waitTrigger("thrifty", "Ready", "True/Armed")

	s.replacePod("redis-0")
	s.waitRestarts("cool", 1)
	s.waitRestarts("thrifty", 1)
	first := s.restartTrigger("cool").Str("status", "lastRestart", "time")
	for range 2 { // two more, which make one restart
		s.replacePod("redis-0")
	}
	s.waitTrigger("thrifty", "Progressing", "True/Pending")
	rt := s.restartTrigger("thrifty")
	next, err := time.Parse(time.RFC3339, rt.Str("status", "nextRestartTime"))
	if err != nil || time.Until(next) < 50*time.Minute || rt.Int("status", "restartsInWindow") != 1 {
		s.Errorf("the budget is used up for an hour, and the status is %s", rt)
	}
	if message := rt.Condition("Progressing").Str("message"); !strings.HasSuffix(message,
		"the restart is due at "+rt.Str("status", "nextRestartTime")) {
		s.Errorf("the message does not end with when it goes on: %s", message)
	}
	s.waitRestarts("cool", 2)
	second := s.restartTrigger("cool").Str("status", "lastRestart", "time")
	from, err1 := time.Parse(time.RFC3339, first)
	to, err2 := time.Parse(time.RFC3339, second)
	if err1 != nil || err2 != nil || to.Sub(from) < 30*time.Second {
		s.Errorf("restarts at %s and %s, with a cooldown of 30s", first, second)
	}
	if n := s.restarts("thrifty"); n != 1 {
		s.Errorf("%d restarts with a budget of one", n)
	}

	s.Kubectl("patch", "rt", "cool", "--type=merge", "-p", `{"spec":{"suspend":true,"cooldown":"1s"}}`)
	s.waitTrigger("cool", "Paused", "True/Suspended")
	s.replacePod("redis-0")
	s.Kubectl("annotate", "rt", "cool", "skiff.dev/paused=true")
	s.Kubectl("patch", "rt", "cool", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	s.waitTrigger("cool", "Paused", "True/Annotated")
	s.waitTrigger("cool", "Progressing", "False/Held")
	Throughout(s, 4*time.Second, "nothing is restarted", func() (bool, string) {
		return s.restarts("cool") == 2,
			s.restartTrigger("cool").String()
	})
	s.Kubectl("annotate", "rt", "cool", "skiff.dev/paused-")
	s.waitRestarts("cool", 3)
}

// A target that is paused, or that is rolling out, is left alone until that is over; one that appears is picked up.
func testRestartWaitsForItsTarget(s *Scope, _ *Skiff) {
	s.Apply(workloadManifest("Deployment", "halted", 1) + "---\n" + workloadManifest("Deployment", "stuck", 1))
	s.replacePod("redis-0")
	for _, name := range []string{"halted", "stuck", "late"} {
		if name != "late" {
			s.Kubectl("rollout", "status", "deployment/"+name, "--timeout=4m")
		}
		s.Apply(restartTriggerManifest(name, "debounce: 1s, cooldown: 1s, targets: [{kind: Deployment, name: "+
			""+name+"}]"))
	}
	s.waitTrigger("halted", "Ready", "True/Armed")
	s.waitTrigger("stuck", "Ready", "True/Armed")
	s.waitTrigger("late", "Ready", "False/TargetMissing")
	if message := s.restartTrigger("late").Condition("Ready").Str("message"); !strings.HasSuffix(message,
		"skiff looks again") {
		s.Errorf("the message does not end with the next step: %s", message)
	}
	s.Apply(workloadManifest("Deployment", "late", 1))
	s.Kubectl("rollout", "pause", "deployment/halted")
	s.Kubectl("patch", "deployment", "stuck", "--type=strategic", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"no":"where"}}}}}`)
	s.Kubectl("wait", "--for=jsonpath={.status.unavailableReplicas}=1", "deployment/stuck", "--timeout=4m")
	s.replacePod("redis-0")
	s.waitTrigger("halted", "Ready", "False/TargetPaused")
	s.waitTrigger("stuck", "Progressing", "True/RollingOut")
	Throughout(s, 4*time.Second, "neither is restarted", func() (bool, string) {
		halted, stuck := restartedAt(s.workload("deployments", "halted")),
			restartedAt(s.workload("deployments", "stuck"))
		return halted == "" && stuck == "", halted + stuck
	})
	s.Kubectl("rollout", "resume", "deployment/halted")
	s.Kubectl("patch", "deployment", "stuck", "--type=json", "-p",
		`[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]`)
	s.waitRestarts("halted", 1)
	s.waitRestarts("stuck", 1)
	s.waitTrigger("late", "Ready", "True/Armed")
}

// What takes the annotation back is not fought.
func testRestartIsReverted(s *Scope, _ *Skiff) {
	s.Apply(workloadManifest("Deployment", "predixy", 1))
	s.replacePod("redis-0")
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	s.Apply(restartTriggerManifest("predixy", "debounce: 1s, cooldown: 1s, targets: [{kind: Deployment, name: "+
		"predixy}]"))
	s.waitTrigger("predixy", "Ready", "True/Armed")
	s.replacePod("redis-0")
	s.waitRestarts("predixy", 1)
	s.Kubectl("rollout", "undo", "deployment/predixy")
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	s.replacePod("redis-0")
	s.waitTrigger("predixy", "Stalled", "True/Reverted")
	if message := s.restartTrigger("predixy").Condition("Stalled").Str("message"); !strings.Contains(message,
		"deployment/predixy") || !strings.HasSuffix(message, "then change this spec or restart the target by hand") {
		s.Errorf("the message does not say which target and what to do: %s", message)
	}
	Throughout(s, 4*time.Second, "nothing is restarted", func() (bool, string) {
		at := restartedAt(s.workload("deployments", "predixy"))
		return at == "", at
	})
	s.waitText([]string{"Warning", "Reverted"}, "describe", "restarttrigger", "predixy")
	s.Kubectl("patch", "rt", "predixy", "--type=merge", "-p", `{"spec":{"debounce":"2s"}}`)
	s.waitRestarts("predixy", 2)
}

// Two triggers that would restart each other's source for ever are refused, and the condition names the way around.
func testRestartCycle(s *Scope, _ *Skiff) {
	for name, source := range map[string]string{"chicken": "egg", "egg": "chicken"} {
		s.Apply(workloadManifest("Deployment", name, 1))
		s.Apply(fmt.Sprintf("apiVersion: skiff.dev/v1alpha1\nkind: RestartTrigger\nmetadata: {name: %s}\nspec: "+
			"{source: {selector: {matchLabels: {app: %s}}}, "+
			"debounce: 1s, cooldown: 1s, targets: [{kind: Deployment, name: %[1]s}]}\n", name, source))
	}
	for _, name := range []string{"chicken", "egg"} {
		s.waitTrigger(name, "Stalled", "True/Cycle")
		if message := s.restartTrigger(name).Condition("Stalled").Str("message"); !strings.Contains(message,
			"chicken") || !strings.Contains(message, "egg") {
			s.Errorf("the cycle is not named: %s", message)
		}
	}
	before := restartedAt(s.workload("deployments", "chicken")) // by a trigger that was alone for longer than a second
	s.Kubectl("rollout", "restart", "deployment/egg")
	s.Kubectl("rollout", "status", "deployment/egg", "--timeout=4m")
	Throughout(s, 4*time.Second, "the chicken is left alone", func() (bool, string) {
		at := restartedAt(s.workload("deployments", "chicken"))
		return at == before, at
	})
}

// What is under way when skiff dies goes on with the next one; what happens in between is noticed.
func TestRestartTriggerSurvivesKills(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s, "--controllers", "restart")
	s.Apply(workloadManifest("Deployment", "predixy", 1))
	s.replacePod("redis-0")
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	s.Apply(restartTriggerManifest("predixy", "debounce: 8s, cooldown: 1s, targets: [{kind: Deployment, name: "+
		"predixy}]"))
	s.waitTrigger("predixy", "Ready", "True/Armed")
	kill := func() {
		t.Helper()
		noError(t, sk.Kill())
	}

	s.replacePod("redis-0")
	s.waitTrigger("predixy", "Progressing", "True/Pending")
	due := s.restartTrigger("predixy").Str("status", "nextRestartTime")
	kill() // within the debounce
	sk = startSkiff(t, s, "--controllers", "restart")
	s.waitRestarts("predixy", 1)
	if at := s.restartTrigger("predixy").Str("status", "lastRestart", "time"); at < due {
		t.Errorf("restarted at %s, which is before %s", at, due)
	}
	kill()
	s.replacePod("redis-0") // while no skiff runs
	sk = startSkiff(t, s, "--controllers", "restart")
	s.waitRestarts("predixy", 2)
	if last := s.restartTrigger("predixy").Str("status", "lastRestart", "pod"); last != "redis-0" {
		t.Errorf("restarted for %s", last)
	}
	for range 2 { // at any moment of a restart
		n := s.restarts("predixy")
		s.replacePod("redis-0")
		s.waitTrigger("predixy", "Progressing", "True/Pending")
		Eventually(t, limit, "the restart has begun", func() (bool, string) {
			reason := s.restartTrigger("predixy").Condition("Progressing").Str("reason")
			return reason != "Pending", reason
		})
		kill()
		sk = startSkiff(t, s, "--controllers", "restart")
		s.waitRestarts("predixy", n+1)
	}
	Throughout(t, 4*time.Second, "no restart is repeated", func() (bool, string) {
		return s.restarts("predixy") == 4,
			s.restartTrigger("predixy").String()
	})
	if revision := s.workload("deployments", "predixy").Str("metadata", "annotations",
		"deployment.kubernetes.io/revision"); revision != "5" {
		t.Errorf("the proxy is at revision %s after four restarts", revision)
	}
}

// onePodWatch checks that skiff, without its Redis controller, has watched pods once, however many triggers there
// were.
func onePodWatch(s *Scope, since time.Time) {
	s.Helper()
	watches := s.skiffRequests(since, func(r Request) bool {
		return r.Resource == "pods" && r.Verb == "watch" &&
			r.User == operator.Name
	})
	lists := s.skiffRequests(since, func(r Request) bool {
		return r.Resource == "pods" && r.Verb == "list" &&
			r.User == operator.Name
	})
	// A watch lasts five minutes at least, so one may have been renewed.
	if len(watches) < 1 || len(watches) > 2 || len(lists) > 0 ||
		slices.ContainsFunc(watches, func(r Request) bool { return r.Namespace != "" }) {
		s.Errorf("want one watch of all pods, got %v and the lists %v", watches, lists)
	}
}
