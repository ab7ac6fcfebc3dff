package restart

import (
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Rights are all that the controller needs; its client sends nothing else.
var Rights = append([]kube.Right{
	{Resource: resource, Verbs: []string{"get", "list", "watch"}, Why: "what is declared"},
	{Resource: resource, Subresource: "status", Verbs: []string{"patch"}, Why: "what was seen"},
	{Resource: pods, Verbs: []string{"list", "watch"}, Why: "sources of a RestartTrigger"},
	{Resource: namespaces, Verbs: []string{"get"}, Why: "whether pods of another namespace may be a source"},
	{Resource: targetKinds["Deployment"], Verbs: []string{"get", "patch"}, Why: targetRight},
	{Resource: targetKinds["StatefulSet"], Verbs: []string{"get", "patch"}, Why: targetRight},
	{Resource: targetKinds["DaemonSet"], Verbs: []string{"get", "patch"}, Why: targetRight},
}, events.Rights...)

const targetRight = "targets of a RestartTrigger"

// Rights are all that a `skiff restart` with this spec needs.
func (s *Spec) Rights() []kube.Right {
	rights := []kube.Right{
		{Resource: pods, Verbs: []string{"list", "watch"}, Why: "the pods that the targets depend on"}}
	seen := map[string]bool{}
	for _, t := range s.Targets {
		if !seen[t.Kind] {
			seen[t.Kind] = true
			rights = append(rights,
				kube.Right{Resource: targetKinds[t.Kind], Verbs: []string{"get", "patch"}, Why: "the targets"})
		}
	}
	return rights
}
