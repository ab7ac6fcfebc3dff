package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The WebServer story, each part in a namespace of its own, all of them served by one skiff.
func TestWebServer(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s, "-v=1") // a reconcile that writes nothing is told at level 1
	for _, part := range []struct {
		name string
		test func(*Scope, *Skiff)
	}{
		{"AllocatedNodePortIsKept", testAllocatedNodePortIsKept},
		{"ForeignServiceIsLeftAlone", testForeignServiceIsLeftAlone},
		{"ArticleSample", testArticleSample},
		{"KubectlShowsIt", testKubectlShowsIt},
		{"DeletedChildrenComeBack", testDeletedChildrenComeBack},
		{"AutoscalerIsNotFought", testAutoscalerIsNotFought},
		{"OtherWritersAreNotFought", testOtherWritersAreNotFought},
		{"OurFieldsAreRestored", testOurFieldsAreRestored},
		{"ForeignDeploymentIsLeftAlone", testForeignDeploymentIsLeftAlone},
		{"RemovingReplicasKeepsTheCount", testRemovingReplicasKeepsTheCount},
		{"RemovingAnEnvEntryRemovesIt", testRemovingAnEnvEntryRemovesIt},
		{"StatusTellsTheTruth", testStatusTellsTheTruth},
		{"NothingToDoWritesNothing", testNothingToDoWritesNothing},
		{"OrphansAreAdopted", testOrphansAreAdopted},
	} { // those that wait for a minute come first
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(newScope(t), sk)
		})
	}
}

// The source article's tour: create, scale, upgrade, delete.
func testArticleSample(s *Scope, _ *Skiff) {
	s.Kubectl("apply", "-f", example("webserver.yaml"))
	s.Kubectl("wait", "--for=condition=Ready", "webserver/web", "--timeout=4m")
	s.waitChildren("web", "nginx:1.23.1", 3)
	svc := s.Service("web-service")
	if svc.Str("spec", "type") != "NodePort" || svc.Int("spec", "ports", "0", "nodePort") != 30010 ||
		svc.Int("spec", "ports", "0", "port") != 80 {
		s.Errorf("want a NodePort Service 80:30010, got %s", svc)
	}

	s.Kubectl("scale", "webserver/web", "--replicas=5")
	s.waitChildren("web", "nginx:1.23.1", 5)
	s.Kubectl("wait", "--for=jsonpath={.status.readyReplicas}=5", "ws/web", "--timeout=4m")
	s.Kubectl("scale", "webserver/web", "--replicas=1")
	s.waitChildren("web", "nginx:1.23.1", 1)

	s.Kubectl("patch", "ws", "web", "--type=merge", "-p", `{"spec":{"image":"nginx:1.25.0"}}`)
	s.waitChildren("web", "nginx:1.25.0", 1)
	s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
	s.Kubectl("wait", "--for=condition=Ready", "webserver/web", "--timeout=4m")
	if sets := s.get("/apis/apps/v1/namespaces/" + s.NS + "/replicasets").List("items"); len(sets) != 2 {
		s.Errorf("one image change should give two ReplicaSets, got %d", len(sets))
	}

	s.Kubectl("delete", "-f", example("webserver.yaml"), "--timeout=4m")
	Eventually(s, limit, "the garbage collector removes the children", func() (bool, string) {
		left := s.Kubectl("get", "deployments,services,replicasets,pods", "-o", "name")
		return strings.TrimSpace(left) == "", left
	})
}

// What a user at a terminal sees.
func testKubectlShowsIt(s *Scope, _ *Skiff) {
	watch := must(s.c.Start("get-w-"+s.NS, s.kubectl.env(), s.kubectl.argv([]string{"-n", s.NS, "get", "webservers",
		"-w"})...))(s)
	defer watch.Kill()
	s.Apply(WebServerManifest("shown", "image: nginx:1.23.1, replicas: 2"))
	s.waitCondition("shown", "Ready", "True")
	port := s.Service("shown-service").Int("spec", "ports", "0", "nodePort")
	Eventually(s, limit, "kubectl get -w shows the columns and two ready pods", func() (bool, string) {
		lines := strings.Split(watch.Log(), "\n")
		header := strings.Join(strings.Fields(lines[0]), " ")
		last := strings.Fields(lines[max(0, len(lines)-2)])
		return header == "NAME READY STATUS IMAGE NODEPORT AGE" && len(last) == 6 &&
			strings.Join(last[:5], " ") == fmt.Sprintf("shown 2/2 Ready nginx:1.23.1 %d", port), watch.Log()
	})

	for field, words := range map[string][]string{
		"webserver":               {"KIND:", "WebServer", "spec", "status"},
		"webserver.spec":          {"image", "-required-", "replicas"},
		"webserver.spec.image":    {"<string>", "nginx"},
		"webserver.spec.replicas": {"<integer>", "HorizontalPodAutoscaler"},
		"ws.spec.nodePort":        {"<integer>", "allocates"},
	} {
		text := s.Kubectl("explain", field)
		for _, w := range words {
			if !strings.Contains(text, w) {
				s.Errorf("kubectl explain %s does not say %q:\n%s", field, w, text)
			}
		}
	}
	if text := s.Kubectl("get", "all", "-l", "app.kubernetes.io/managed-by=skiff", "-o",
		"name"); !strings.Contains(text, "deployment.apps/shown") || !strings.Contains(text, "service/shown-service") {
		s.Errorf("the children should carry the managed-by label, got %s", text)
	}
	if text := s.Kubectl("describe", "webserver", "shown"); !strings.Contains(text, "Ready") ||
		!strings.Contains(text, "nginx:1.23.1") {
		s.Errorf("kubectl describe: %s", text)
	}
}

func testDeletedChildrenComeBack(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("healed", "image: nginx:1.23.1, replicas: 2, nodePort: 30020"))
	s.waitChildren("healed", "nginx:1.23.1", 2)
	for range 3 { // more than once: the second time meets caches that have seen the first
		svc := s.Service("healed-service").UID()
		s.Kubectl("delete", "service", "healed-service")
		s.waitReplaced(freed, s.servicePath("healed-service"), svc)
		if got := s.Service("healed-service").Int("spec", "ports", "0", "nodePort"); got != 30020 {
			s.Errorf("the new Service has nodePort %d, want the declared 30020", got)
		}
		d := s.Deployment("healed").UID()
		s.Kubectl("delete", "deployment", "healed")
		s.waitReplaced(limit, s.deploymentPath("healed"), d)
		s.waitChildren("healed", "nginx:1.23.1", 2)
	}
}

// waitReplaced returns when an object of another uid is at the path.
func (s *Scope) waitReplaced(within time.Duration, path, uid string) {
	s.Helper()
	Eventually(s, within, path+" is made again", func() (bool, string) {
		now := s.get(path).UID()
		return now != "" && now != uid, now
	})
}

func testAllocatedNodePortIsKept(s *Scope, sk *Skiff) {
	s.Apply(WebServerManifest("kept", "image: nginx:1.23.1, replicas: 1"))
	s.waitCondition("kept", "Ready", "True")
	svc := s.Service("kept-service")
	port := svc.Int("spec", "ports", "0", "nodePort")
	if port < 30000 || s.WebServer("kept").Int("status", "nodePort") != port {
		s.Fatalf("the Service has nodePort %d, the status says %d", port,
			s.WebServer("kept").Int("status", "nodePort"))
	}
	s.Kubectl("delete", "service", "kept-service")
	s.waitReplaced(freed, s.servicePath("kept-service"), svc.UID())
	if got := s.Service("kept-service").Int("spec", "ports", "0", "nodePort"); got != port {
		s.Errorf("the new Service has nodePort %d, the old one had %d", got, port)
	}

	// Another Service took the port meanwhile: no endless fight, a condition that names it, and it heals when the port
	// is free.
	s.Kubectl("patch", "ws", "kept", "--type=merge", "-p", `{"spec":{"nodePort":30021}}`)
	s.waitConditionWithin(freed, "kept", "Ready", "True")
	s.Apply(WebServerManifest("rival", "image: nginx:1.23.1, replicas: 1, nodePort: 30021"))
	c := s.waitCondition("rival", "Ready", "False")
	if !strings.Contains(c.Str("message"), "30021") {
		s.Errorf("the message should name the port: %s", c)
	}
	start := time.Now()
	s.Kubectl("delete", "ws", "kept", "--timeout=4m")
	s.waitConditionWithin(freed, "rival", "Ready", "True")
	if n := len(s.skiffRequests(start, func(r Request) bool {
		return r.Namespace == s.NS &&
			r.Name == "rival-service" && r.Code >= 400
	})); n > 30 {
		s.Errorf("%d refused writes for one port: no backoff", n)
	}
}

// What `kubectl delete --cascade=orphan` has left is taken up by a WebServer of the same name, with its node port.
func testOrphansAreAdopted(s *Scope, _ *Skiff) {
	manifest := WebServerManifest("web", "image: nginx:1.23.1, replicas: 1")
	s.Apply(manifest)
	s.waitCondition("web", "Ready", "True")
	deployment, svc := s.Deployment("web").UID(), s.Service("web-service")
	s.Kubectl("delete", "ws", "web", "--cascade=orphan", "--timeout=60s")
	s.Apply(manifest)
	s.waitCondition("web", "Ready", "True")
	if d := s.Deployment("web"); d.UID() != deployment || d.ControllerUID() != s.WebServer("web").UID() {
		s.Errorf("the Deployment was not adopted: %s", d)
	}
	after := s.Service("web-service")
	if after.UID() != svc.UID() ||
		after.Int("spec", "ports", "0", "nodePort") != svc.Int("spec", "ports", "0", "nodePort") {
		s.Errorf("the Service was not adopted: %s, was %s", after, svc)
	}
}
