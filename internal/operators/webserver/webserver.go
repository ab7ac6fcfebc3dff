package webserver

import (
	"fmt"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
)

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; who made it runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	return operator.New(s, recorder, operator.Definition[*WebServer, Status]{
		Name:     "webserver",
		Resource: resource,
		Rights:   Rights,
		Children: []operator.Kind{
			operator.Owns[*deployment](deployments, apply.InPlace, apply.Reads[deploymentBody]),
			operator.Owns[*apply.Live[struct{}]](services, apply.InPlace, apply.Reads[serviceBody]),
		},
		Desired: desired,
		Observe: observe,
		Problem: nodePortProblem,
	})
}

// nodePortProblem says which field of the WebServer asks for a node port that cannot be had.
func nodePortProblem(ws *WebServer, r apply.Result) *conditions.Problem {
	switch {
	case r.Outcome == apply.PortTaken && ws.Spec.NodePort != nil:
		return &conditions.Problem{Reason: "NodePortRefused",
			Message: fmt.Sprintf("spec.nodePort %d: %s; choose another one or free it, skiff looks again every minute",
				*ws.Spec.NodePort, r.Message)}
	case r.Outcome == apply.Exhausted:
		return &conditions.Problem{Reason: "NoNodePort",
			Message: fmt.Sprintf("the cluster has no free node port: %s; delete a Service that has one, or set "+
				"spec.serviceType: ClusterIP; skiff tries again every minute", r.Message)}
	}
	return nil
}
