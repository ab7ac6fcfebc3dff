package webserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"skiff/internal/apply"
	"skiff/internal/conditions"
)

// problemOf returns the problem that lies in the outcome of one child, nil if there is none.
func problemOf(o apply.Outcome, message string) *conditions.Problem {
	switch o {
	case apply.Foreign:
		return &conditions.Problem{Reason: "NameTaken",
			Message: message + "; delete it or give the WebServer another name, skiff looks again every minute"}
	case apply.Contested:
		return &conditions.Problem{Reason: "Contested", Message: message + "; find out what does, skiff tries again within a minute"}
	case apply.Waiting:
		return &conditions.Problem{Reason: "Waiting", Message: message + "; skiff looks again every few seconds", Passing: true}
	}
	return nil
}

// observe returns the status that follows from what was found.
func observe(ws *WebServer, f *findings, now time.Time) Status {
	s := Status{ObservedGeneration: ws.Generation, Selector: selector(ws.Name), NodePort: ws.Status.NodePort}
	if d := f.deployment; d != nil {
		s.Replicas, s.ReadyReplicas, s.UpdatedReplicas = d.Status.Replicas, d.Status.ReadyReplicas, d.Status.UpdatedReplicas
	}
	if port := nodePort(f.service); port != 0 {
		s.NodePort = &port
	}
	set := judge(ws, f, s.NodePort)
	s.Conditions = set.After(ws.Status.Conditions, ws.Generation, now)
	return s
}

// nodePort returns the port that a Service has on every node, 0 if it has none.
func nodePort(svc *service) int32 {
	if svc == nil {
		return 0
	}
	var body struct {
		Spec struct {
			Ports []struct {
				Name     string `json:"name"`
				NodePort int32  `json:"nodePort"`
			} `json:"ports"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(svc.Body, &body); err != nil {
		return 0 // the API server serves no such Service; then there is no port to speak of
	}
	for _, p := range body.Spec.Ports {
		if p.Name == portName {
			return p.NodePort
		}
	}
	return 0
}

// nodePortChanged is the reason of Degraded where all is well, but not as it was.
const nodePortChanged = "NodePortChanged"

// judge returns the conditions, without generation and time.
func judge(ws *WebServer, f *findings, port *int32) conditions.Set {
	ro := rolloutOf(ws, f.deployment)
	set := conditions.NewSet(ws.Annotations)
	set.Ready = conditions.New(conditions.Ready, ro.done, ro.reason, ro.message)
	if ro.done && port != nil {
		set.Ready.Message = fmt.Sprintf("%s, on port %d of every node", ro.message, *port)
	}
	set.Progressing = conditions.New(conditions.Progressing, !ro.done && !ro.stuck, ro.reason, ro.message)
	switch before, _ := conditions.Get(ws.Status.Conditions, conditions.Degraded); {
	case ro.failed:
		set.Degraded = conditions.New(conditions.Degraded, true, ro.reason, ro.message)
	case f.note != "":
		set.Degraded = conditions.New(conditions.Degraded, false, nodePortChanged, f.note)
	case before.Reason == nodePortChanged && before.ObservedGeneration == ws.Generation:
		set.Degraded = conditions.New(conditions.Degraded, false, before.Reason, before.Message) // it is still news
	}
	if f.held != "" {
		message := f.held + "; " + set.Paused.Message
		set.Ready = conditions.New(conditions.Ready, false, conditions.Paused, message)
		set.Progressing = conditions.New(conditions.Progressing, false, conditions.Paused, message)
	}
	if p := f.problem; p != nil && f.deployment == nil {
		set.Progressing = conditions.New(conditions.Progressing, p.Passing, p.Reason, p.Message)
	}
	set.Report(f.problem)
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

// rolloutOf reads a Deployment's status as `kubectl rollout status` does: a status of an older generation says nothing.
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
	look := fmt.Sprintf("; look at the pods with `kubectl describe pods -l %s`", selector(ws.Name))
	for _, c := range s.Conditions {
		switch {
		case c.Type == "Progressing" && c.Reason == "ProgressDeadlineExceeded":
			return rollout{stuck: true, failed: true, reason: c.Reason, message: strings.TrimSuffix(c.Message, ".") + look}
		case c.Type == "ReplicaFailure" && c.Status == "True":
			return rollout{failed: true, reason: "ReplicaFailure", message: strings.TrimSuffix(c.Message, ".") + look}
		}
	}
	switch {
	case s.UpdatedReplicas < want:
		return rollout{reason: "RollingOut", message: fmt.Sprintf("%d of %d pods are updated", s.UpdatedReplicas, want) + follow}
	case s.Replicas > want:
		return rollout{reason: "RollingOut", message: fmt.Sprintf("%d pods are to go", s.Replicas-want) + follow}
	}
	return rollout{reason: "PodsUnavailable", message: fmt.Sprintf("%d of %d pods are available", s.AvailableReplicas, want) + look}
}

// replicas returns how many pods the Deployment is to have: what we declare, or what somebody else has put there.
func replicas(ws *WebServer, d *deployment) int32 {
	if ws.Spec.Replicas != nil {
		return *ws.Spec.Replicas
	}
	var body struct {
		Spec struct {
			Replicas int32 `json:"replicas"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(d.Body, &body); err != nil {
		return -1 // the API server serves no such Deployment; it is then never complete
	}
	return body.Spec.Replicas
}
