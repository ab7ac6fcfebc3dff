package webserver

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/kube"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// verdict is the conditions in short: "Ready=True/Complete".
func verdict(s Status) map[string]string {
	out := map[string]string{}
	for _, c := range s.Conditions {
		out[c.Type] = string(c.Status) + "/" + c.Reason
	}
	return out
}

func ofDeployment(generation int64, s deploymentStatus) *deployment {
	d := &deployment{Spec: kube.Raw(`{"replicas":3}`), Status: s}
	d.Name, d.Generation = "web", generation
	return d
}

// Rules: MGR-12
func TestConditionsSayWhatWasSeen(t *testing.T) {
	complete := deploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}
	failed := func(c deploymentCondition) deploymentStatus {
		return deploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 1, AvailableReplicas: 1, Conditions: []deploymentCondition{c}}
	}
	none := "False/AsExpected"
	for _, test := range []struct {
		name                                  string
		findings                              findings
		ready, progressing, degraded, stalled string
	}{
		{"complete", findings{seen: seen{deployment: ofDeployment(2, complete)}},
			"True/Complete", "False/Complete", none, none},
		{"of an older generation", findings{seen: seen{deployment: ofDeployment(3, complete)}},
			"False/RollingOut", "True/RollingOut", none, none},
		{"not all updated", findings{seen: seen{deployment: ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1, AvailableReplicas: 3})}},
			"False/RollingOut", "True/RollingOut", none, none},
		{"old pods left", findings{seen: seen{deployment: ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 4})}},
			"False/RollingOut", "True/RollingOut", none, none},
		{"a pod died", findings{seen: seen{deployment: ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2})}},
			"False/PodsUnavailable", "True/PodsUnavailable", none, none},
		{"deadline exceeded", findings{seen: seen{deployment: ofDeployment(2, failed(deploymentCondition{"Progressing", "False", "ProgressDeadlineExceeded", "timed out."}))}},
			"False/ProgressDeadlineExceeded", "False/ProgressDeadlineExceeded", "True/ProgressDeadlineExceeded", none},
		{"quota", findings{seen: seen{deployment: ofDeployment(2, failed(deploymentCondition{"ReplicaFailure", "True", "FailedCreate", "exceeded quota"}))}},
			"False/ReplicaFailure", "True/ReplicaFailure", "True/ReplicaFailure", none},
		{"foreign Service while all pods run", findings{seen: seen{deployment: ofDeployment(2, complete)}, problem: &problem{reason: "NameTaken", message: "m"}},
			"False/NameTaken", "False/Complete", "True/NameTaken", none},
		{"foreign Deployment", findings{problem: &problem{reason: "NameTaken", message: "m"}},
			"False/NameTaken", "False/NameTaken", "True/NameTaken", none},
		{"invalid spec", findings{problem: &problem{reason: "InvalidSpec", message: "m", stalled: true}},
			"False/InvalidSpec", "False/InvalidSpec", "True/InvalidSpec", "True/InvalidSpec"},
		{"waiting for a deletion", findings{problem: &problem{reason: "Waiting", message: "m", passing: true}},
			"False/Waiting", "True/Waiting", none, none},
		{"another node port", findings{seen: seen{deployment: ofDeployment(2, complete)}, note: "m"},
			"True/Complete", "False/Complete", "False/NodePortChanged", none},
	} {
		t.Run(test.name, func(t *testing.T) {
			ws := decode(t, `{`+identity+`,"spec":{"image":"nginx"}}`)
			ws.Generation = 5
			s := observe(ws, &test.findings, noon)
			want := map[string]string{conditions.Ready: test.ready, conditions.Progressing: test.progressing,
				conditions.Degraded: test.degraded, conditions.Stalled: test.stalled, conditions.Paused: "False/NotAnnotated"}
			if got := verdict(s); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if s.ObservedGeneration != 5 {
				t.Errorf("observedGeneration %d, want 5", s.ObservedGeneration)
			}
			for _, c := range s.Conditions {
				if c.ObservedGeneration != 5 || c.Message == "" {
					t.Errorf("condition %+v: want generation 5 and a message", c)
				}
			}
		})
	}
}

func TestZeroReplicasAreReady(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx","replicas":0}}`)
	s := observe(ws, &findings{seen: seen{deployment: ofDeployment(1, deploymentStatus{ObservedGeneration: 1})}}, noon)
	if got := verdict(s)[conditions.Ready]; got != "True/Complete" {
		t.Errorf("Ready is %s", got)
	}
}

func TestNodePortStaysInStatusWithoutAService(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx"},"status":{"nodePort":31234}}`)
	if s := observe(ws, &findings{}, noon); s.NodePort == nil || *s.NodePort != 31234 {
		t.Errorf("node port %v, want 31234", s.NodePort)
	}
	svc := &service{Spec: kube.Raw(`{"ports":[{"name":"other","nodePort":30001},{"name":"http","nodePort":30002}]}`)}
	if s := observe(ws, &findings{seen: seen{service: svc}}, noon); s.NodePort == nil || *s.NodePort != 30002 {
		t.Errorf("node port %v, want 30002, the one of the Service", s.NodePort)
	}
}

func TestNodePortChangeIsNewsUntilTheSpecChanges(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx"}}`)
	ws.Status = observe(ws, &findings{note: "node port 1 became 2"}, noon)
	again := observe(ws, &findings{}, noon)
	if c, _ := conditions.Get(again.Conditions, conditions.Degraded); c.Reason != nodePortChanged || c.Message != "node port 1 became 2" {
		t.Errorf("in the next round: %+v", c)
	}
	ws.Generation++
	if c, _ := conditions.Get(observe(ws, &findings{}, noon).Conditions, conditions.Degraded); c.Reason != asExpected {
		t.Errorf("after a change of the spec: %+v", c)
	}
}

func TestMessagesOfProblemsAreStableAndEndWithTheNextStep(t *testing.T) {
	invalid := fmt.Errorf("create deployments.apps shop/web: %w", &kube.Status{Code: 422, Reason: "Invalid", Message: "spec.x: no"})
	forbidden := &kube.Status{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}
	offline := errors.New("read tcp 127.0.0.1:43210->127.0.0.1:6443: connection reset by peer")
	for _, test := range []struct {
		outcome apply.Outcome
		err     error
		attempt int
		reason  string
		text    string
		stalled bool
	}{
		{err: invalid, reason: "DeploymentRefused", text: "spec.x: no; correct the WebServer", stalled: true},
		{err: forbidden, reason: "DeploymentFailed", text: "exceeded quota; skiff keeps trying"},
		{err: offline, reason: "DeploymentFailed", text: "the API server cannot be reached; skiff keeps trying"},
		{err: forbidden, attempt: controller.StallAfter - 1, reason: "DeploymentFailed", text: "exceeded quota; skiff tries again every few minutes", stalled: true},
		{outcome: apply.Foreign, reason: "NameTaken", text: "skiff looks again every minute"},
		{outcome: apply.Contested, reason: "Contested", text: "skiff tries again within a minute"},
		{outcome: apply.Waiting, reason: "Waiting", text: "skiff looks again every few seconds"},
	} {
		p := problemOf("Deployment", test.outcome, "what happened", test.err, test.attempt)
		if p == nil || p.reason != test.reason || !strings.Contains(p.message, test.text) || p.stalled != test.stalled {
			t.Errorf("%v %v: got %+v, want %s: %s", test.outcome, test.err, p, test.reason, test.text)
		}
	}
	for _, o := range []apply.Outcome{apply.Unchanged, apply.Created, apply.Applied, apply.Overtaken} {
		if p := problemOf("Deployment", o, "", nil, 0); p != nil {
			t.Errorf("%v: got problem %+v", o, p)
		}
	}
}
