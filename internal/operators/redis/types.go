package redis

import (
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/kube"
)

// What this controller watches and writes.
var (
	resource = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	pods     = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	services = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
)

// Finalizer keeps a deleted Redis until its pods have been removed, in order.
const Finalizer = "skiff.dev/pods"

// RevisionLabel on a pod holds the hash of the template that it was made from.
const RevisionLabel = "skiff.dev/revision"

// Redis is the custom resource. crds/redis.yaml says what its fields mean.
type Redis = operator.Object[Spec, Status]

// Spec is what the user wants. What is handed on to the pods as it is stays raw.
type Spec struct {
	Port            int32    `json:"port"`
	Num             *int32   `json:"num"`   // nil is not 0: it would delete all pods
	Image           *string  `json:"image"` // nil: defaultImage
	MinReadySeconds int32    `json:"minReadySeconds"`
	Resources       kube.Raw `json:"resources"`
	Config          kube.Raw `json:"config"`
	Template        kube.Raw `json:"template"`
}

// Status is what was seen.
type Status struct {
	operator.Common
	Replicas        int32    `json:"replicas"`
	ReadyReplicas   int32    `json:"readyReplicas"`
	UpdatedReplicas int32    `json:"updatedReplicas"`
	Selector        string   `json:"selector"`
	Members         []Member `json:"members"`
}

// Member is one pod, in the order of the ordinals.
type Member struct {
	Name     string `json:"name"`
	UID      string `json:"uid"`
	IP       string `json:"ip"` // "" before the pod has one
	Ready    bool   `json:"ready"`
	Revision string `json:"revision"` // of the template that it was made from
}

// pod is a pod as it is cached: what its controller decides by, and what tells a user why it is not ready.
type pod struct {
	kube.Meta `json:"metadata"`
	Status    podStatus `json:"status"`
}

type podStatus struct {
	Phase                 string            `json:"phase"`
	Reason                string            `json:"reason"` // Evicted, NodeLost ...
	Message               string            `json:"message"`
	PodIP                 string            `json:"podIP"`
	Conditions            []podCondition    `json:"conditions"`
	InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
	ContainerStatuses     []containerStatus `json:"containerStatuses"`
}

type podCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

type containerStatus struct {
	Name  string `json:"name"`
	State struct {
		Waiting struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Terminated terminated `json:"terminated"`
	} `json:"state"`
	LastState struct {
		Terminated terminated `json:"terminated"`
	} `json:"lastState"`
}

type terminated struct {
	Reason   string `json:"reason"`
	ExitCode int    `json:"exitCode"`
}

// condition returns the condition of a type, the zero value if there is none.
func (p *pod) condition(conditionType string) podCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return podCondition{}
}

// ready says whether the pod answers, by its readiness probe, and since when.
func (p *pod) ready() (since time.Time, ok bool) {
	if _, ended := p.ended(); ended || p.Deleting() {
		return since, false
	}
	c := p.condition("Ready")
	return c.LastTransitionTime, c.Status == "True"
}
