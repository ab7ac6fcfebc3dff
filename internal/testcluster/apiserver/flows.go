package apiserver

import (
	"fmt"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

var (
	flows  = kube.Resource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Plural: "flowschemas"}
	levels = kube.Resource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Plural: "prioritylevelconfigurations"}
)

// checkFlows says in the status of each FlowSchema whether there is the level that it names, as the real server does.
// No request waits for its level here.
func (s *Server) checkFlows() {
	s.store.Update(func(tx *store.Tx) error {
		for _, o := range tx.List(flows.GroupResource(), "") {
			flow := o.Value()
			name := obj.String(flow, "spec", "priorityLevelConfiguration", "name")
			status, reason, what := "False", "Found", "and it exists"
			if tx.Get(levels.GroupResource(), store.Key{Name: name}) == nil {
				status, reason, what = "True", "NotFound", "but there is no such object"
			}
			text := fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q %s", name,
				what)
			was := kinds.Condition(flow, "Dangling")
			if was["status"] == status && was["message"] == text {
				continue
			}
			s.statusOf(flows).change(tx, "api-priority-and-fairness-config-consumer-v1", o, func(next map[string]any) {
				setCondition(next, "Dangling", status, reason, text)
			})
		}
		return nil
	})
}
