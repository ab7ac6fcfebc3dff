package e2e

import (
	"fmt"
	"time"
)

// Conditions and numbers follow what was seen, and say which generation they are about.
func testStatusTellsTheTruth(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("told", "image: nginx:1.23.1, replicas: 2"))
	s.waitCondition("told", "Ready", "True")
	ws := s.WebServer("told")
	if ws.Int("status", "replicas") != 2 || ws.Int("status", "readyReplicas") != 2 ||
		ws.Int("status", "updatedReplicas") != 2 {
		s.Errorf("status: %s", ws)
	}
	if selector := ws.Str("status", "selector"); selector == "" ||
		len(s.get("/api/v1/namespaces/"+s.NS+"/pods?labelSelector="+escape(selector)).List("items")) != 2 {
		s.Errorf("status.selector %q does not select the pods", selector)
	}
	if scale := s.get(s.webServerPath("told") + "/scale"); scale.Int("spec", "replicas") != 2 ||
		scale.Int("status", "replicas") != 2 {
		s.Errorf("scale subresource: %s", scale)
	}

	// No node takes the new pods, so the roll cannot end: Ready must not stay True for the new generation.
	ready := ws.Condition("Ready").Str("lastTransitionTime")
	s.Kubectl("patch", "ws", "told", "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"no":"where"}}}}}`)
	s.waitCondition("told", "Ready", "False")
	s.waitCondition("told", "Progressing", "True")
	Eventually(s, limit, "the status shows the one pod of the new kind that the roll may add", func() (bool, string) {
		ws := s.WebServer("told")
		return ws.Int("status", "updatedReplicas") == 1 && ws.Int("status", "replicas") == 3 &&
			ws.Int("status", "readyReplicas") == 2 &&
			ws.Condition("Ready").Str("status") == "False", ws.String()
	})
	s.Kubectl("patch", "ws", "told", "--type=json", "-p", `[{"op":"remove","path":"/spec/template"}]`)
	s.waitCondition("told", "Ready", "True")
	s.waitCondition("told", "Progressing", "False")
	if again := s.WebServer("told").Condition("Ready").Str("lastTransitionTime"); again < ready {
		s.Errorf("lastTransitionTime went back from %s to %s", ready, again)
	}
	s.waitChildren("told", "nginx:1.23.1", 2)
}

// Reconciles that find nothing to do send nothing.
func testNothingToDoWritesNothing(s *Scope, sk *Skiff) {
	s.Apply(WebServerManifest("calm", "image: nginx:1.23.1, replicas: 2, resources: {requests: {cpu: '0.5', memory: "+
		"64Mi}, limits: {cpu: 1}}"))
	s.waitChildren("calm", "nginx:1.23.1", 2)
	s.waitCondition("calm", "Ready", "True")
	key := s.NS + "/calm"
	reconciles := func() int { return len(sk.LogLines(key)) }
	// The last status write comes back as an event and is one more reconcile; wait for its end.
	before := reconciles()
	start := time.Now()
	for i := range 2 {
		s.Kubectl("label", "webserver", "calm", fmt.Sprintf("round=%d", i), "--overwrite")
		Eventually(s, limit, "the label makes skiff reconcile", func() (bool, string) {
			n := reconciles()
			return n > before+i, fmt.Sprintf("%d reconciles, %d before", n, before)
		})
	}
	if writes := s.skiffRequests(start, s.writesHere); len(writes) > 0 {
		s.Errorf("skiff wrote without need: %v", writes)
	}
}
