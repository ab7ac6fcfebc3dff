package events

import "skiff/internal/runtime/kube"

// Rights are what a Recorder needs. A controller that records Events declares them as its own.
var Rights = []kube.Right{
	{Resource: resource, Verbs: []string{"create", "patch"}, Why: "what was done, and why"},
}
