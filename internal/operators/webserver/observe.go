package webserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// problem is what keeps a WebServer from being what it declares.
type problem struct {
	reason  string
	message string        // ends with the next step, or the next retry
	stalled bool          // nothing happens any more until somebody changes something
	passing bool          // it is on its way to being solved, and nobody has to do anything
	child   events.Object // that it is about; the zero value: about none
}

// problemOf returns the problem that lies in the outcome or the error of one child, nil if there is none. Its message is
// the same for each attempt, because a new message is a write.
func problemOf(kind string, o apply.Outcome, message string, err error, attempt int) *problem {
	switch {
	case apply.Refused(err):
		return &problem{reason: kind + "Refused", message: reasonFor(err) + "; correct the WebServer", stalled: true}
	case err != nil && attempt+1 >= controller.StallAfter:
		return &problem{reason: kind + "Failed", stalled: true,
			message: reasonFor(err) + "; skiff tries again every few minutes, and at once when the WebServer changes"}
	case err != nil:
		return &problem{reason: kind + "Failed", message: reasonFor(err) + "; skiff keeps trying"}
	case o == apply.Foreign:
		return &problem{reason: "NameTaken",
			message: message + "; delete it or give the WebServer another name, skiff looks again every minute"}
	case o == apply.Contested:
		return &problem{reason: "Contested", message: message + "; find out what does, skiff tries again within a minute"}
	case o == apply.Waiting:
		return &problem{reason: "Waiting", message: message + "; skiff looks again every few seconds", passing: true}
	}
	return nil
}

// reasonFor is the server's own text. An error of the connection names ports that differ each time.
func reasonFor(err error) string {
	if s := kube.AsStatus(err); s != nil {
		return s.Error()
	}
	return "the API server cannot be reached"
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
	list := judge(ws, f, s.NodePort)
	for i := range list {
		list[i].ObservedGeneration = ws.Generation
	}
	s.Conditions = conditions.Update(ws.Status.Conditions, list, now)
	return s
}

// nodePort returns the port that a Service has on every node, 0 if it has none.
func nodePort(svc *service) int32 {
	if svc == nil {
		return 0
	}
	var spec struct {
		Ports []struct {
			Name     string `json:"name"`
			NodePort int32  `json:"nodePort"`
		} `json:"ports"`
	}
	if err := json.Unmarshal(svc.Spec, &spec); err != nil {
		return 0 // the API server serves no such Service; then there is no port to speak of
	}
	for _, p := range spec.Ports {
		if p.Name == portName {
			return p.NodePort
		}
	}
	return 0
}

// Reasons of conditions where all is well.
const (
	asExpected      = "AsExpected"
	nodePortChanged = "NodePortChanged"
)

// judge returns the conditions, without generation and time.
func judge(ws *WebServer, f *findings, port *int32) []conditions.Condition {
	ro := rolloutOf(ws, f.deployment)
	ready := condition(conditions.Ready, ro.done, ro.reason, ro.message)
	if ro.done && port != nil {
		ready.Message = fmt.Sprintf("%s, on port %d of every node", ro.message, *port)
	}
	progressing := condition(conditions.Progressing, !ro.done && !ro.stuck, ro.reason, ro.message)
	degraded := condition(conditions.Degraded, false, asExpected, "nothing to do")
	stalled := condition(conditions.Stalled, false, asExpected, "nothing to do")
	switch before, _ := conditions.Get(ws.Status.Conditions, conditions.Degraded); {
	case ro.failed:
		degraded = condition(conditions.Degraded, true, ro.reason, ro.message)
	case f.note != "":
		degraded.Reason, degraded.Message = nodePortChanged, f.note
	case before.Reason == nodePortChanged && before.ObservedGeneration == ws.Generation:
		degraded.Reason, degraded.Message = before.Reason, before.Message // it is still news
	}
	paused := conditions.PausedFor(ws.Annotations)
	if f.held != "" {
		ready = condition(conditions.Ready, false, conditions.Paused, f.held+"; "+paused.Message)
		progressing = condition(conditions.Progressing, false, conditions.Paused, ready.Message)
	}
	if p := f.problem; p != nil {
		ready = condition(conditions.Ready, false, p.reason, p.message)
		if f.deployment == nil {
			progressing = condition(conditions.Progressing, p.passing, p.reason, p.message)
		}
		if !p.passing {
			degraded = condition(conditions.Degraded, true, p.reason, p.message)
		}
		if p.stalled {
			stalled = condition(conditions.Stalled, true, p.reason, p.message)
		}
	}
	return []conditions.Condition{ready, progressing, degraded, stalled, paused}
}

func condition(conditionType string, status bool, reason, message string) conditions.Condition {
	return conditions.Condition{Type: conditionType, Status: conditions.Of(status), Reason: reason, Message: message}
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
	var spec struct {
		Replicas int32 `json:"replicas"`
	}
	if err := json.Unmarshal(d.Spec, &spec); err != nil {
		return -1 // the API server serves no such Deployment; it is then never complete
	}
	return spec.Replicas
}
