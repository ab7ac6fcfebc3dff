package e2e

import (
	"strings"
	"testing"
	"time"
)

// The harness itself, without skiff: if this fails, no other failure means anything.
func TestControlPlaneRunsAPlainDeployment(t *testing.T) {
	s := newScope(t)
	start := time.Now()
	s.Kubectl("create", "deployment", "plain", "--image=nginx:1.23.1", "--replicas=2")
	s.Kubectl("rollout", "status", "deployment/plain", "--timeout=4m")
	if got := s.Deployment("plain").Int("status", "readyReplicas"); got != 2 {
		t.Errorf("readyReplicas = %d, want 2", got)
	}
	pods := s.get("/api/v1/namespaces/" + s.NS + "/pods").List("items")
	if len(pods) != 2 || pods[0].Str("status", "podIP") == "" {
		t.Errorf("want 2 pods with an IP, got %v", pods)
	}

	s.Kubectl("delete", "deployment", "plain", "--timeout=4m")
	Eventually(t, limit, "the pods are garbage collected", func() (bool, string) {
		pods := s.get("/api/v1/namespaces/" + s.NS + "/pods").List("items")
		return len(pods) == 0, Object{"items": pods}.String()
	})

	requests, err := s.c.Requests(start, func(r Request) bool {
		return strings.HasPrefix(r.UserAgent, "kubectl") && r.Namespace == s.NS && r.Write()
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) != 2 || requests[0].Verb != "create" || requests[1].Verb != "delete" {
		t.Errorf("the audit log should hold one create and one delete by kubectl, has %v", requests)
	}
}
