package redis

import (
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Rights are all that the controller needs; its client sends nothing else.
var Rights = append([]kube.Right{
	{Resource: resource, Verbs: []string{"get", "list", "watch"}, Why: "what is declared"},
	{Resource: resource, Verbs: []string{"patch"}, Why: "the finalizer of a Redis"},
	{Resource: resource, Subresource: "status", Verbs: []string{"patch"}, Why: "what was seen"},
	{Resource: resource, Subresource: "finalizers", Verbs: []string{"update"},
		Why: "owner references, where OwnerReferencesPermissionEnforcement is on"},
	{Resource: pods, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}, Why: "children of a Redis"},
	{Resource: services, Verbs: []string{"get", "list", "watch", "create", "patch"}, Why: "children of a Redis"},
}, events.Rights...)
