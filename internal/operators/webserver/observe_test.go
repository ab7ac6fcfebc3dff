package webserver

import (
	"reflect"
	"testing"
	"time"

	"skiff/internal/apply"
	"skiff/internal/conditions"
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
	d := &deployment{Content: apply.Content{Body: kube.Raw(`{"spec":{"replicas":3}}`)}, Status: s}
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
		{"foreign Service while all pods run", findings{seen: seen{deployment: ofDeployment(2, complete)}, problem: &conditions.Problem{Reason: "NameTaken", Message: "m"}},
			"False/NameTaken", "False/Complete", "True/NameTaken", none},
		{"foreign Deployment", findings{problem: &conditions.Problem{Reason: "NameTaken", Message: "m"}},
			"False/NameTaken", "False/NameTaken", "True/NameTaken", none},
		{"invalid spec", findings{problem: &conditions.Problem{Reason: "InvalidSpec", Message: "m", Stalled: true}},
			"False/InvalidSpec", "False/InvalidSpec", "True/InvalidSpec", "True/InvalidSpec"},
		{"waiting for a deletion", findings{problem: &conditions.Problem{Reason: "Waiting", Message: "m", Passing: true}},
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
	svc := &service{Content: apply.Content{Body: kube.Raw(`{"spec":{"ports":[{"name":"other","nodePort":30001},{"name":"http","nodePort":30002}]}}`)}}
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
	if c, _ := conditions.Get(observe(ws, &findings{}, noon).Conditions, conditions.Degraded); c.Reason != conditions.AsExpected {
		t.Errorf("after a change of the spec: %+v", c)
	}
}

func TestMessagesOfProblemsEndWithTheNextStep(t *testing.T) {
	for o, want := range map[apply.Outcome]*conditions.Problem{
		apply.Foreign:   {Reason: "NameTaken", Message: "what happened; delete it or give the WebServer another name, skiff looks again every minute"},
		apply.Contested: {Reason: "Contested", Message: "what happened; find out what does, skiff tries again within a minute"},
		apply.Waiting:   {Reason: "Waiting", Message: "what happened; skiff looks again every few seconds", Passing: true},
		apply.Unchanged: nil, apply.Created: nil, apply.Applied: nil, apply.Overtaken: nil,
	} {
		if p := problemOf(o, "what happened"); !reflect.DeepEqual(p, want) {
			t.Errorf("%v: got %+v, want %+v", o, p, want)
		}
	}
}
