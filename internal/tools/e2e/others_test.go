package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An autoscaler scales the Deployment of a WebServer that does not declare replicas.
func testAutoscalerIsNotFought(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("scaled", "image: nginx:1.23.1"))
	s.waitCondition("scaled", "Ready", "True")
	for _, n := range []string{"4", "2"} {
		s.Kubectl("scale", "deployment/scaled", "--replicas="+n)
		s.Kubectl("wait", "--for=jsonpath={.status.readyReplicas}="+n, "deployment/scaled", "--timeout=4m")
		s.Kubectl("wait", "--for=jsonpath={.status.readyReplicas}="+n, "webserver/scaled", "--timeout=4m")
	}
	// An edit that makes skiff apply the Deployment: the count must survive that, too.
	s.Kubectl("patch", "ws", "scaled", "--type=merge", "-p", `{"spec":{"image":"nginx:1.25.0"}}`)
	s.waitChildren("scaled", "nginx:1.25.0", 2)
}

// rollout restart, an injected sidecar, foreign annotations and labels, and a foreign Service field stay.
func testOtherWritersAreNotFought(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("shared", "image: nginx:1.23.1, replicas: 2, env: [{name: A, value: one}]"))
	s.waitChildren("shared", "nginx:1.23.1", 2)
	s.waitCondition("shared", "Ready", "True")

	start := time.Now()
	s.Kubectl("rollout", "restart", "deployment/shared")
	s.Kubectl("rollout", "status", "deployment/shared", "--timeout=4m")
	s.Kubectl("patch", "deployment", "shared", "--type=strategic", "-p",
		`{"metadata":{"annotations":{"example.com/note":"mine"}},"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"envoy:1"}]}}}}`)
	s.Kubectl("label", "service", "shared-service", "team=red")
	s.Kubectl("patch", "service", "shared-service", "--type=merge", "-p", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	s.Kubectl("rollout", "status", "deployment/shared", "--timeout=4m")
	s.waitCondition("shared", "Ready", "True")
	untouched := func(when string) {
		s.Helper()
		d, svc := s.Deployment("shared"), s.Service("shared-service")
		if d.Str("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt") == "" ||
			d.Str("metadata", "annotations", "example.com/note") != "mine" ||
			len(d.List("spec", "template", "spec", "containers")) != 2 {
			s.Errorf("%s: skiff took something out of the Deployment: %s", when, d)
		}
		if svc.Str("metadata", "labels", "team") != "red" || svc.Str("spec", "sessionAffinity") != "ClientIP" {
			s.Errorf("%s: skiff took something out of the Service: %s", when, svc)
		}
	}
	untouched("after the edits")
	if writes := s.skiffRequests(start, func(r Request) bool {
		return s.writesHere(r) &&
			r.Subresource != "status"
	}); len(writes) > 0 {
		s.Errorf("the edits of others made skiff write: %v", writes)
	}

	s.Kubectl("patch", "ws", "shared", "--type=merge", "-p", `{"spec":{"env":[{"name":"A","value":"two"}]}}`)
	s.waitObserved("shared")
	s.Kubectl("rollout", "status", "deployment/shared", "--timeout=4m")
	if got := envOf(s.Deployment("shared"))["A"]; got != "two" {
		s.Errorf("env A = %q, want two", got)
	}
	untouched("after an apply")
}

// What skiff declares is its own: an edit of that is undone.
func testOurFieldsAreRestored(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("owned", "image: nginx:1.23.1, replicas: 2, nodePort: 30022"))
	s.waitChildren("owned", "nginx:1.23.1", 2)
	s.Kubectl("set", "image", "deployment/owned", "webserver=httpd:2")
	s.Kubectl("scale", "deployment/owned", "--replicas=5")
	s.waitChildren("owned", "nginx:1.23.1", 2)
	for port := 30022; !s.restoresNodePort(port); port += 2 {
		if port == 30030 {
			s.Fatal("the server has leaked five node ports")
		}
		s.Kubectl("patch", "webserver", "owned", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"nodePort":%d}}`, port+2))
	}
	// The label is what skiff's watch selects by, so the child vanishes from its sight; it must be found all the same.
	uid := s.Deployment("owned").UID()
	s.Kubectl("label", "deployment", "owned", "app.kubernetes.io/managed-by-")
	Eventually(s, limit, "the managed-by label is back", func() (bool, string) {
		d := s.Deployment("owned")
		return d.Str("metadata", "labels", "app.kubernetes.io/managed-by") == "skiff", d.String()
	})
	if s.Deployment("owned").UID() != uid {
		s.Error("the Deployment that lost its label was replaced")
	}
}

// restoresNodePort gives the Service of the WebServer owned another node port and waits until it has its own again. It
// is false where the server, and nobody else, holds the port that was given up: see freed.
func (s *Scope) restoresNodePort(port int) bool {
	s.Helper()
	has := func(o Object) bool { return o.Int("spec", "ports", "0", "nodePort") == port }
	Eventually(s, limit, fmt.Sprint("the nodePort is ", port), func() (bool, string) {
		svc := s.Service("owned-service")
		return has(svc), svc.String()
	})
	s.Kubectl("patch", "service", "owned-service", "--type=json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/0/nodePort","value":%d}]`, port+1))
	changed, restored := time.Now(), false
	Eventually(s, limit, fmt.Sprint("the nodePort is ", port, " again, or the server has leaked it"),
		func() (bool, string) {
			svc, ws := s.Service("owned-service"), s.WebServer("owned")
			restored = has(svc)
			refused := strings.Contains(ws.Condition("Ready").Str("message"), fmt.Sprint("spec.nodePort ", port)) &&
				time.Since(changed) > 75*time.Second && // skiff asks once a minute
				!slices.ContainsFunc(s.get("/api/v1/services").List("items"), has)
			return restored || refused, svc.String() + "\n" + ws.String()
		})
	if !restored {
		s.Logf("the server does not free node port %d, which no Service has", port)
	}
	return restored
}

// A foreign Service of the wanted name.
func testForeignServiceIsLeftAlone(s *Scope, _ *Skiff) {
	s.Kubectl("create", "service", "clusterip", "taken-service", "--tcp=8080:8080")
	before := s.Service("taken-service")
	s.Apply(WebServerManifest("taken", "image: nginx:1.23.1, replicas: 1"))
	c := s.waitCondition("taken", "Ready", "False")
	Eventually(s, limit, "a condition names the foreign Service", func() (bool, string) {
		c = s.WebServer("taken").Condition("Ready")
		return strings.Contains(c.Str("message"), "taken-service"), s.WebServer("taken").String()
	})
	if after := s.Service("taken-service"); after.Str("metadata", "resourceVersion") != before.Str("metadata",
		"resourceVersion") {
		s.Errorf("the foreign Service was changed:\n%s\n%s", before, after)
	}
	if s.Deployment("taken") == nil {
		s.Error("one foreign child should not keep skiff from making the other")
	}
	s.Kubectl("delete", "service", "taken-service")
	// its watch does not show foreign objects: it has to look again
	s.Kubectl("wait", "--for=condition=Ready", "webserver/taken", "--timeout=4m")
	s.waitChildren("taken", "nginx:1.23.1", 1)
}

func testForeignDeploymentIsLeftAlone(s *Scope, _ *Skiff) {
	s.Kubectl("create", "deployment", "taken", "--image=httpd:2")
	s.Kubectl("rollout", "status", "deployment/taken", "--timeout=4m")
	before := s.Deployment("taken")
	s.Apply(WebServerManifest("taken", "image: nginx:1.23.1, replicas: 3"))
	s.waitCondition("taken", "Ready", "False")
	Eventually(s, limit, "a condition names the foreign Deployment", func() (bool, string) {
		ws := s.WebServer("taken")
		return strings.Contains(ws.Condition("Ready").Str("message"), "taken"), ws.String()
	})
	after := s.Deployment("taken")
	if containerOf(after) != nil || after.ControllerUID() != "" ||
		after.Int("metadata", "generation") != before.Int("metadata", "generation") {
		s.Errorf("the foreign Deployment was changed: %s", after)
	}
}

// Replicas are handed over, not reset to the server's default of 1.
func testRemovingReplicasKeepsTheCount(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("freed", "image: nginx:1.23.1, replicas: 3"))
	s.waitChildren("freed", "nginx:1.23.1", 3)
	s.Kubectl("patch", "ws", "freed", "--type=json", "-p", `[{"op":"remove","path":"/spec/replicas"}]`)
	s.waitObserved("freed")
	s.waitChildren("freed", "nginx:1.23.1", 3)
	Eventually(s, limit, "skiff no longer owns replicas", func() (bool, string) {
		return !owns(s.Deployment("freed"), "skiff", "f:spec", "f:replicas"),
			s.Kubectl("get", "deployment", "freed", "-o", "yaml", "--show-managed-fields")
	})
	s.Kubectl("scale", "deployment/freed", "--replicas=1")
	s.Kubectl("patch", "ws", "freed", "--type=merge", "-p", `{"spec":{"image":"nginx:1.25.0"}}`)
	s.waitChildren("freed", "nginx:1.25.0", 1)
	// And back: declaring it again takes it over.
	s.Kubectl("scale", "webserver/freed", "--replicas=2")
	s.waitChildren("freed", "nginx:1.25.0", 2)
}

// owns reports whether an entry of managedFields of exactly that manager holds the field.
func owns(obj Object, manager string, field ...string) bool {
	for _, entry := range obj.List("metadata", "managedFields") {
		if entry.Str("manager") == manager && entry.At(append([]string{"fieldsV1"}, field...)...) != nil {
			return true
		}
	}
	return false
}

func testRemovingAnEnvEntryRemovesIt(s *Scope, _ *Skiff) {
	const b = canary + "-b" // passwords do not belong there, and are found there: none may get into a log
	s.Apply(WebServerManifest("env", "image: nginx:1.23.1, replicas: 1, env: [{name: A, value: a}, {name: B, value: "+
		""+b+"}]"))
	s.waitChildren("env", "nginx:1.23.1", 1)
	if env := envOf(s.Deployment("env")); env["A"] != "a" || env["B"] != b {
		s.Fatalf("env is %v", env)
	}
	ip := s.Service("env-service").Str("spec", "clusterIP")
	s.Apply(WebServerManifest("env", "image: nginx:1.23.1, replicas: 1, env: [{name: B, value: "+b+"}]"))
	Eventually(s, limit, "A is gone from the Deployment", func() (bool, string) {
		env := envOf(s.Deployment("env"))
		_, a := env["A"]
		return !a && env["B"] == b, s.Deployment("env").String()
	})
	if got := s.Service("env-service").Str("spec", "clusterIP"); got != ip {
		s.Errorf("the Service's clusterIP changed from %s to %s", ip, got)
	}
	s.Apply(WebServerManifest("env", "image: nginx:1.23.1, replicas: 1"))
	Eventually(s, limit, "B is gone, too", func() (bool, string) {
		return len(envOf(s.Deployment("env"))) == 0, s.Deployment("env").String()
	})
}
