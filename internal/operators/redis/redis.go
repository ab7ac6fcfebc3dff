package redis

import (
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; who made it runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	return operator.New(s, recorder, definition(podOptions))
}

func definition(o apply.ReplaceOptions[*pod]) operator.Definition[*Redis, Status] {
	return operator.Definition[*Redis, Status]{
		Name:      app,
		Resource:  resource,
		Rights:    Rights,
		Finalizer: Finalizer,
		Children: []operator.Kind{operator.Owns[*apply.Live[struct{}]](services, apply.InPlace),
			operator.Replaces(pods, o)},
		Desired: desired,
		Observe: func(rd *Redis, seen operator.Seen) (Status, conditions.Set) {
			return observe(rd, seen, time.Now())
		},
		Known: func(rd *Redis) map[kube.Key]string {
			known := make(map[kube.Key]string, len(rd.Status.Members))
			for _, m := range rd.Status.Members {
				known[kube.Key{Namespace: rd.Namespace, Name: m.Name}] = m.UID
			}
			return known
		},
	}
}

// podOptions say how the pods are replaced.
var podOptions = apply.ReplaceOptions[*pod]{
	Revision: RevisionLabel,
	Selector: operator.SelectorKeys,
	Ready:    (*pod).ready,
	Ended:    (*pod).ended,
}
