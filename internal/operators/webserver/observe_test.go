package webserver

import (
	"reflect"
	"testing"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// verdict is the conditions in short: "Ready=True/Complete".
func verdict(s conditions.Set) map[string]string {
	out := map[string]string{}
	for _, c := range []conditions.Condition{s.Ready, s.Progressing, s.Degraded, s.Stalled, s.Paused} {
		out[c.Type] = string(c.Status) + "/" + c.Reason
	}
	return out
}

// seen is the children as the engine reports them; nil: there is none.
func seen(d *deployment, svc *apply.Live[struct{}]) operator.Seen {
	out := operator.Seen{{Resource: deployments, Key: web("web")}, {Resource: services, Key: web("web-service")}}
	if d != nil {
		out[0].Live = d
	}
	if svc != nil {
		out[1].Live = svc
	}
	return out
}

func ofDeployment(generation int64, s deploymentStatus) *deployment {
	d := &deployment{Status: s}
	d.Body = kube.Raw(`{"spec":{"replicas":3}}`)
	d.Name, d.Generation = "web", generation
	return d
}

// Rules: MGR-12
func TestConditionsSayWhatWasSeen(t *testing.T) {
	complete := deploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3,
		AvailableReplicas: 3}
	failed := func(c deploymentCondition) deploymentStatus {
		return deploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 1,
			AvailableReplicas: 1, Conditions: []deploymentCondition{c}}
	}
	none := "False/AsExpected"
	for _, test := range []struct {
		name                         string
		deployment                   *deployment
		ready, progressing, degraded string
	}{
		{"complete", ofDeployment(2, complete),
			"True/Complete", "False/Complete", none},
		{"of an older generation", ofDeployment(3, complete),
			"False/RollingOut", "True/RollingOut", none},
		{"not all updated", ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1,
			AvailableReplicas: 3}),
			"False/RollingOut", "True/RollingOut", none},
		{"old pods left", ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3,
			AvailableReplicas: 4}),
			"False/RollingOut", "True/RollingOut", none},
		{"a pod died", ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3,
			AvailableReplicas: 2}),
			"False/PodsUnavailable", "True/PodsUnavailable", none},
		{"deadline exceeded", ofDeployment(2, failed(deploymentCondition{Type: "Progressing", Status: "False",
			Reason: "ProgressDeadlineExceeded", Message: "timed out."})),
			"False/ProgressDeadlineExceeded", "False/ProgressDeadlineExceeded", "True/ProgressDeadlineExceeded"},
		{"quota", ofDeployment(2, failed(deploymentCondition{Type: "ReplicaFailure", Status: "True",
			Reason: "FailedCreate", Message: "exceeded quota"})),
			"False/ReplicaFailure", "True/ReplicaFailure", "True/ReplicaFailure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ws := decode(t, `{`+identity+`,"spec":{"image":"nginx"}}`)
			ws.Generation = 5
			s, set := observe(ws, seen(test.deployment, nil), health.Problem{})
			want := map[string]string{conditions.Ready: test.ready, conditions.Progressing: test.progressing,
				conditions.Degraded: test.degraded, conditions.Stalled: none, conditions.Paused: "False/NotAnnotated"}
			if got := verdict(set); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if d := test.deployment; s.Replicas != d.Status.Replicas || s.ReadyReplicas != d.Status.ReadyReplicas {
				t.Errorf("status %+v, want the counts of %+v", s, d.Status)
			}
		})
	}
}

// A Deployment that somebody has paused says nothing of its own accord, and makes no deadline either.
func TestARolloutOfAPausedDeploymentIsNotUnderWay(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx"}}`)
	for _, test := range []struct {
		name               string
		updated, available int32
		ready, progressing string
	}{
		{"no pod is updated", 0, 3, "False/DeploymentPaused", "False/DeploymentPaused"},
		{"halfway", 2, 3, "False/DeploymentPaused", "False/DeploymentPaused"},
		{"a pod of the present template died", 3, 2, "False/PodsUnavailable", "True/PodsUnavailable"},
		{"nothing is to be done", 3, 3, "True/Complete", "False/Complete"},
	} {
		d := ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: test.updated,
			AvailableReplicas: test.available})
		d.Body = kube.Raw(`{"spec":{"replicas":3,"paused":true}}`)
		_, set := observe(ws, seen(d, nil), health.Problem{})
		got := verdict(set)
		if got[conditions.Ready] != test.ready || got[conditions.Progressing] != test.progressing {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestPodsThatAreRefusedAreExplainedWithTheNextStep(t *testing.T) {
	const look = "; look at the pods with `kubectl describe pods -n shop " +
		"-l app.kubernetes.io/instance=web,app.kubernetes.io/name=webserver`"
	const pod = `pods "web-5d4f8c7b9-x7z2p" is forbidden: `
	for _, test := range []struct{ reason, message, want string }{
		{"FailedCreate", pod + "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
			"no pod can be created (exceeded quota q, pods: 2 of 2 used); raise the quota or lower spec.replicas"},
		{"FailedCreate", pod + "exceeded quota: q, requested: limits.cpu=2,pods=1, used: limits.cpu=3,pods=2, " +
			"limited: limits.cpu=4,pods=2",
			"no pod can be created (exceeded quota q, limits.cpu: 3 of 4 used, a pod asks for 2; pods: 2 of 2 " +
				"used); " +
				"raise the quota or lower spec.replicas"},
		{"FailedCreate", pod + `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`,
			`no pod can be created (violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false); ` +
				"set securityContext under spec.template.spec"},
		{"FailedCreate", `admission webhook "no.example.com" denied the request: not today.`,
			`no pod can be created (admission webhook "no.example.com" denied the request: not today); ` +
				"correct spec.template, or change what refuses the pods"},
		{"FailedDelete", "pods is forbidden.", "pods cannot be created or deleted (pods is forbidden)" + look},
	} {
		d := ofDeployment(2, deploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2,
			AvailableReplicas: 2,
			Conditions: []deploymentCondition{
				{Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Message: "timed out"},
				{Type: "ReplicaFailure", Status: "True", Reason: test.reason, Message: test.message}}})
		_, set := observe(decode(t, `{`+identity+`,"spec":{"image":"nginx"}}`), seen(d, nil), health.Problem{})
		if got := set.Degraded.Message; got != test.want || set.Progressing.Status != "False" {
			t.Errorf("%s: got\n%s, want\n%s; Progressing is %s", test.message, got, test.want, set.Progressing.Status)
		}
	}
}

func TestZeroReplicasAreReady(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx","replicas":0}}`)
	_, set := observe(ws, seen(ofDeployment(1, deploymentStatus{ObservedGeneration: 1}), nil), health.Problem{})
	if got := verdict(set)[conditions.Ready]; got != "True/Complete" {
		t.Errorf("Ready is %s", got)
	}
}

func TestNodePortStaysInStatusWithoutAService(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx"},"status":{"nodePort":31234}}`)
	if s, _ := observe(ws, nil, health.Problem{}); s.NodePort == nil || *s.NodePort != 31234 {
		t.Errorf("node port %v, want 31234", s.NodePort)
	}
	svc := &apply.Live[struct{}]{}
	svc.Body = kube.Raw(`{"spec":{"ports":[{"name":"other","nodePort":30001},{"name":"http","nodePort":30002}]}}`)
	if s, _ := observe(ws, seen(nil, svc), health.Problem{}); s.NodePort == nil || *s.NodePort != 30002 {
		t.Errorf("node port %v, want 30002, the one of the Service", s.NodePort)
	}
	ws.Spec.ServiceType = clusterIP
	if s, _ := observe(ws, nil, health.Problem{}); s.NodePort != nil {
		t.Errorf("node port %d of a Service of type ClusterIP, want none", *s.NodePort)
	}
}

func TestProblemsOfTheNodePortNameTheField(t *testing.T) {
	ws := decode(t, `{`+identity+`,"spec":{"image":"nginx","nodePort":30010}}`)
	for outcome, want := range map[apply.Outcome]string{
		apply.PortTaken: "spec.nodePort 30010 is refused (why); choose another one or free it, skiff looks again",
		apply.NoNodePort: "the cluster has no free node port; delete a Service that has one, or set " +
			"spec.serviceType: ClusterIP; " +
			"skiff tries again",
	} {
		if p := nodePortProblem(ws, apply.Result{Outcome: outcome,
			Problem: &health.Problem{Quoted: "why"}}); p == nil || p.Note() != want {
			t.Errorf("%v: %+v, want message %q", outcome, p, want)
		}
	}
	if p := nodePortProblem(ws, apply.Result{Outcome: apply.Created}); p != nil {
		t.Errorf("a problem without a reason: %+v", p)
	}
}
