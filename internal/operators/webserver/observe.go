package webserver

import (
	"fmt"
	"regexp"
	"strings"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
)

// deployment is the Deployment as it is cached.
type deployment = apply.Live[deploymentStatus]

// observe returns the status that follows from the children.
func observe(ws *WebServer, seen operator.Seen) (Status, conditions.Set) {
	d := operator.Child[deploymentStatus](seen, deployments, ws.Name)
	s := Status{Selector: operator.Selector(app, ws.Name), NodePort: ws.Status.NodePort}
	if d != nil {
		s.Replicas, s.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
		s.UpdatedReplicas = d.Status.UpdatedReplicas
	}
	if port := nodePort(operator.Child[struct{}](seen, services, serviceName(ws.Name))); port != 0 {
		s.NodePort = &port
	}
	if serviceType(ws) == clusterIP {
		s.NodePort = nil
	}
	return s, judge(ws, rolloutOf(ws, d), s.NodePort)
}

// nodePort returns the port that a Service has on every node, 0 if it has none.
func nodePort(svc *apply.Live[struct{}]) int32 {
	if svc == nil {
		return 0
	}
	body, err := apply.Read[serviceBody](svc)
	if err != nil {
		return 0 // the API server serves no such Service; then there is no port to speak of
	}
	for _, p := range body.Spec.Ports {
		if p.Name == portName {
			return p.NodePort
		}
	}
	return 0
}

// judge returns the conditions that follow from the rollout.
func judge(ws *WebServer, ro rollout, port *int32) conditions.Set {
	set := conditions.NewSet(ws.Annotations)
	set.Ready = conditions.New(conditions.Ready, ro.done, ro.reason, ro.message)
	if ro.done && port != nil {
		set.Ready.Message = fmt.Sprintf("%s, on port %d of every node", ro.message, *port)
	}
	set.Progressing = conditions.New(conditions.Progressing, !ro.done && !ro.stuck, ro.reason, ro.message)
	if ro.failed {
		set.Degraded = conditions.New(conditions.Degraded, true, ro.reason, ro.message)
	}
	return set
}

// rollout is how far the Deployment is.
type rollout struct {
	done    bool // all pods are of the present template and available, and there are no others
	stuck   bool // the Deployment controller has given up waiting
	failed  bool // something is wrong
	reason  string
	message string
}

// rolloutOf reads a Deployment's status as `kubectl rollout status` does: a status of an older generation says
// nothing.
func rolloutOf(ws *WebServer, d *deployment) rollout {
	if d == nil {
		return rollout{reason: "DeploymentMissing", message: "there is no Deployment yet"}
	}
	want := replicas(ws, d)
	s := &d.Status
	follow := fmt.Sprintf("; follow it with `kubectl rollout status deployment/%s`", d.Name)
	current := s.ObservedGeneration >= d.Generation
	switch {
	case current && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want:
		return rollout{done: true, reason: "Complete", message: fmt.Sprintf("%d of %d pods are available", want, want)}
	case !current:
		return rollout{reason: "RollingOut", message: "the Deployment controller has not seen the change yet" + follow}
	}
	look := fmt.Sprintf("; look at the pods with `kubectl describe pods -l %s`", operator.Selector(app, ws.Name))
	var r rollout
	for _, c := range s.Conditions {
		switch {
		case c.Type == "Progressing" && c.Reason == "ProgressDeadlineExceeded":
			r.stuck = true
			if !r.failed { // that it takes too long follows from why pods cannot be created
				r.failed, r.reason, r.message = true, c.Reason, strings.TrimSuffix(c.Message, ".")+look
			}
		case c.Type == "ReplicaFailure" && c.Status == "True":
			r.failed, r.reason, r.message = true, "ReplicaFailure", replicaFailure(c, look)
		}
	}
	if r.failed {
		return r
	}
	switch {
	case s.UpdatedReplicas < want:
		return rollout{reason: "RollingOut",
			message: fmt.Sprintf("%d of %d pods are updated", s.UpdatedReplicas, want) + follow}
	case s.Replicas > want:
		return rollout{reason: "RollingOut", message: operator.DeletingSurplus(int(s.Replicas-want)) + follow}
	}
	return rollout{reason: "PodsUnavailable",
		message: fmt.Sprintf("%d of %d pods are available", s.AvailableReplicas, want) + look}
}

// What a ReplicaSet says of pods that the API server refuses, behind a name that is another one for each try.
var (
	refusedPod    = regexp.MustCompile(`^pods "[^"]*" is forbidden: `)
	exceededQuota = regexp.MustCompile(`^exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)$`)
)

// replicaFailure says why pods are not created or deleted, and what to do. look is of use only where there is a pod.
func replicaFailure(c deploymentCondition, look string) string {
	cause := strings.TrimSuffix(c.Message, ".")
	if c.Reason != "FailedCreate" {
		return cause + look
	}
	cause = refusedPod.ReplaceAllString(cause, "")
	step := "correct spec.template, or change what refuses the pods"
	if q := exceededQuota.FindStringSubmatch(cause); q != nil {
		cause = fmt.Sprintf("exceeded quota %s (%s)", q[1], quotaUse(q[2], q[3], q[4]))
		step = "raise the quota or lower spec.replicas"
	} else if strings.HasPrefix(cause, "violates PodSecurity") {
		step = "set securityContext under spec.template.spec"
	}
	return "no pod can be created: " + cause + "; " + step
}

// quotaUse makes "pods: 2 of 2 used" of lists like "pods=2", and says what else a pod asks for.
func quotaUse(requested, used, limited string) string {
	value := func(list, resource string) string {
		for item := range strings.SplitSeq(list, ",") {
			if name, v, _ := strings.Cut(item, "="); name == resource {
				return v
			}
		}
		return "?"
	}
	var uses []string
	for item := range strings.SplitSeq(limited, ",") {
		resource, limit, _ := strings.Cut(item, "=")
		use := fmt.Sprintf("%s: %s of %s used", resource, value(used, resource), limit)
		if more := value(requested, resource); more != "1" {
			use += ", a pod asks for " + more
		}
		uses = append(uses, use)
	}
	return strings.Join(uses, "; ")
}

// replicas returns how many pods the Deployment is to have: what we declare, or what somebody else has put there.
func replicas(ws *WebServer, d *deployment) int32 {
	if ws.Spec.Replicas != nil {
		return *ws.Spec.Replicas
	}
	body, err := apply.Read[deploymentBody](d)
	if err != nil {
		return -1 // the API server serves no such Deployment; it is then never complete
	}
	return body.Spec.Replicas
}
