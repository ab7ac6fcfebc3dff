package webserver

import (
	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/kube"
)

// What this controller watches and writes.
var (
	resource    = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
)

// WebServer is the custom resource. crds/webserver.yaml says what its fields mean.
type WebServer struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               Spec   `json:"spec"`
	Status             Status `json:"status"`
}

// Spec is what the user wants. What is handed on to the pods as it is stays raw.
type Spec struct {
	Image     string   `json:"image"`
	Replicas  *int32   `json:"replicas"` // nil: not ours to decide
	Port      *int32   `json:"port"`     // nil: 80
	NodePort  *int32   `json:"nodePort"` // nil: the cluster's choice, kept
	Resources kube.Raw `json:"resources"`
	Env       kube.Raw `json:"env"`
	Template  kube.Raw `json:"template"`
}

// Status is what was seen. All of it is written, and null removes: so there is no omitempty.
type Status struct {
	ObservedGeneration int64                  `json:"observedGeneration"`
	Replicas           int32                  `json:"replicas"`
	ReadyReplicas      int32                  `json:"readyReplicas"`
	UpdatedReplicas    int32                  `json:"updatedReplicas"`
	Selector           string                 `json:"selector"`
	NodePort           *int32                 `json:"nodePort"`
	Conditions         []conditions.Condition `json:"conditions"`
}

// deployment and service are the children as they are cached.
type (
	deployment = apply.Live[deploymentStatus]
	service    = apply.Live[struct{}]
)

type deploymentStatus struct {
	ObservedGeneration int64                 `json:"observedGeneration"`
	Replicas           int32                 `json:"replicas"` // old and new
	UpdatedReplicas    int32                 `json:"updatedReplicas"`
	ReadyReplicas      int32                 `json:"readyReplicas"`
	AvailableReplicas  int32                 `json:"availableReplicas"` // ready for minReadySeconds
	Conditions         []deploymentCondition `json:"conditions"`
}

type deploymentCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}
