package webserver

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
)

// deployment is the Deployment as it is cached.
type deployment = apply.Live[deploymentStatus]

// observe returns the status that follows from the children.
func observe(ws *WebServer, seen operator.Seen, unready health.Problem) (Status, conditions.Set) {
	d := operator.Find[deploymentStatus](seen, deployments, ws.Name)
	s := Status{Selector: operator.Selector(app, ws.Name), NodePort: ws.Status.NodePort}
	if d != nil {
		s.Replicas, s.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
		s.UpdatedReplicas = d.Status.UpdatedReplicas
	}
	if port := nodePort(operator.Find[struct{}](seen, services, serviceName(ws.Name))); port != 0 {
		s.NodePort = &port
	}
	if serviceType(ws) == clusterIP {
		s.NodePort = nil
	}
	s.Ready = fmt.Sprintf("%d/%d", s.ReadyReplicas, replicas(ws, d))
	set := rolloutOf(ws, d, unready).Set()
	if set.Ready.Status == conditions.True && s.NodePort != nil {
		set.Ready.Message += fmt.Sprintf(", on port %d of every node", *s.NodePort)
	}
	return s, set
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

// waits says that the pods of the Deployment are not available, and since when nothing has become better.
func waits(ws *WebServer, seen operator.Seen, now time.Time) (selector string, since time.Time) {
	d := operator.Find[deploymentStatus](seen, deployments, ws.Name)
	if d == nil || d.Status.ObservedGeneration < d.Generation || rolloutOf(ws, d, health.Problem{}).Done {
		return "", now
	}
	since = now
	if c, ok := conditions.Get(ws.Status.Conditions, conditions.Ready); ok && c.Status == conditions.False {
		since = c.LastTransitionTime
	}
	for _, c := range d.Status.Conditions {
		if c.Type == "Progressing" && c.LastUpdateTime.After(since) {
			since = c.LastUpdateTime
		}
	}
	return operator.Selector(app, ws.Name), since
}

// rolloutOf returns how far the Deployment is.
func rolloutOf(ws *WebServer, d *deployment, unready health.Problem) conditions.Progress {
	if d == nil {
		return conditions.Progress{Problem: health.Problem{Reason: "DeploymentMissing",
			Public: "there is no Deployment yet", Severity: health.Passing}}
	}
	s := &d.Status
	look := operator.LookAtPods(ws.Namespace, operator.Selector(app, ws.Name))
	follow := fmt.Sprintf("follow it with `kubectl rollout status -n %s deployment/%s`", ws.Namespace, ws.Name)
	r := conditions.Rollout{Kind: "Deployment", Want: replicas(ws, d), Updated: s.UpdatedReplicas, Total: s.Replicas,
		Available: s.AvailableReplicas, Observed: s.ObservedGeneration >= d.Generation, Look: look,
		Follow: follow}.Progress()
	if r.Done || s.ObservedGeneration < d.Generation {
		return r
	}
	if unready.Reason != "" {
		r.Failed, r.Problem = unready.Severity != health.Passing, unready
		r.Public = fmt.Sprintf("%d of %d pods are available: %s", s.AvailableReplicas, replicas(ws, d), unready.Public)
		r.Next = look
	}
	for _, c := range s.Conditions {
		switch {
		case c.Type == "Progressing" && c.Reason == "ProgressDeadlineExceeded":
			r.Stuck = true // the Deployment controller has given up waiting
			if !r.Failed { // that it takes too long follows from why pods are not ready, or cannot be created
				r.Failed, r.Reason, r.Next = true, c.Reason, look
				r.Public, r.Quoted = "the rollout has made no progress for too long", trimmed(c.Message)
			}
		case c.Type == "ReplicaFailure" && c.Status == "True":
			r.Failed, r.Problem = true, replicaFailure(c, look)
		}
	}
	// Paused by `kubectl rollout pause`, the Deployment controller keeps the number of pods, and replaces none.
	body, err := apply.Read[deploymentBody](d)
	if err == nil && body.Spec.Paused && s.Replicas > s.UpdatedReplicas && !r.Failed {
		r.Stuck, r.Problem = true, health.Problem{Reason: "DeploymentPaused",
			Public: fmt.Sprintf("the Deployment is paused, %d of %d pods are updated", s.UpdatedReplicas,
				replicas(ws, d)),
			Next: fmt.Sprintf("resume it with `kubectl rollout resume -n %s deployment/%s`", ws.Namespace, ws.Name)}
	}
	return r
}

// What a ReplicaSet says of pods that the API server refuses, behind a name that is another one for each try.
var (
	refusedPod    = regexp.MustCompile(`^pods "[^"]*" is forbidden: `)
	exceededQuota = regexp.MustCompile(`^exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)$`)
)

// replicaFailure says why pods are not created or deleted. look, the usual step, is of use only where there is a pod.
func replicaFailure(c deploymentCondition, look string) health.Problem {
	p := health.Problem{Reason: "ReplicaFailure", Public: "pods cannot be created or deleted",
		Quoted: trimmed(c.Message), Next: look}
	if c.Reason != "FailedCreate" {
		return p
	}
	p.Public, p.Quoted = "no pod can be created", refusedPod.ReplaceAllString(p.Quoted, "")
	p.Next = "correct spec.template, or change what refuses the pods"
	if q := exceededQuota.FindStringSubmatch(p.Quoted); q != nil {
		p.Quoted = fmt.Sprintf("exceeded quota %s, %s", q[1], quotaUse(q[2], q[3], q[4]))
		p.Next = "raise the quota or lower spec.replicas"
	} else if strings.HasPrefix(p.Quoted, "violates PodSecurity") {
		p.Next = "set securityContext under spec.template.spec"
	}
	return p
}

// trimmed is a message that more follows.
func trimmed(message string) string { return strings.TrimSuffix(message, ".") }

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

// replicas returns how many pods the Deployment is to have: what we declare, or what another field manager has set.
func replicas(ws *WebServer, d *deployment) int32 {
	if ws.Spec.Replicas != nil {
		return *ws.Spec.Replicas
	}
	if d == nil {
		return 0 // the server's default comes with the Deployment
	}
	body, err := apply.Read[deploymentBody](d)
	if err != nil {
		return -1 // the API server serves no such Deployment; it is then never complete
	}
	return body.Spec.Replicas
}

// nodePortProblem says which field of the WebServer asks for a node port that cannot be had.
func nodePortProblem(ws *WebServer, r apply.Result) *health.Problem {
	switch {
	case r.Outcome == apply.PortTaken && ws.Spec.NodePort != nil:
		return &health.Problem{Reason: "NodePortRefused", Quoted: r.Why().Quoted,
			Public: fmt.Sprintf("spec.nodePort %d is refused", *ws.Spec.NodePort),
			Next:   "choose another one or free it, skiff looks again"}
	case r.Outcome == apply.NoNodePort:
		return &health.Problem{Reason: "NoNodePort", Public: "the cluster has no free node port",
			Next: "delete a Service that has one, or set spec.serviceType: ClusterIP; skiff tries again"}
	}
	return nil
}
