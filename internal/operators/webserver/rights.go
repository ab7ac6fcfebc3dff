package webserver

import (
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Rights are all that the controller needs; its client sends nothing else.
var Rights = append([]kube.Right{
	{Resource: resource, Verbs: []string{"get", "list", "watch"}, Why: "what is declared"},
	{Resource: resource, Subresource: "status", Verbs: []string{"patch"}, Why: "what was seen"},
	{Resource: resource, Subresource: "finalizers", Verbs: []string{"update"},
		Why: "owner references, where OwnerReferencesPermissionEnforcement is on"},
	{Resource: deployments, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		Why: "children of a WebServer"},
	{Resource: services, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		Why: "children of a WebServer"},
}, events.Rights...)
