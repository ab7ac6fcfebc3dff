// Package webserver is the operator of the WebServer custom resource: an image and a number of pods become a
// Deployment NAME and a Service NAME-service, which are created again when they are deleted.
//
// All of it is pure: desired.go says what should exist, and observe.go what the status of that is. Package operator
// does the rest. It creates no pods: the cluster's Deployment controller does.
//
// Place on the event path: inside (*operator.reconciler).Reconcile, on the controller's workers. It starts no
// goroutine.
package webserver

import (
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// app is the name of the application in the labels of the children.
const app = "webserver"

// What this operator watches and writes.
var (
	resource    = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
)

var definition = operator.Definition[*WebServer, Status]{
	Name:     app,
	Resource: resource, ShortNames: []string{"ws"},
	Children: []operator.Kind{
		operator.Owns[*apply.Live[deploymentStatus]](deployments),
		operator.Owns[*apply.Live[struct{}]](services),
	},
	Desired: desired,
	Create:  keepNodePort,
	Observe: observe,
	Waits:   waits,
	Pods:    true,
	Example: `apiVersion: skiff.dev/v1alpha1
kind: WebServer
metadata: {name: web}
spec: {image: "nginx:1.23.1", replicas: 3}
`,
	Problem: nodePortProblem,
}

// Rights are all that the operator needs.
var Rights = definition.Rights()

// Marks returns the texts in the children of a custom resource that are computed from it.
var Marks = definition.Marks

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; the caller runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	return operator.New(s, recorder, definition)
}

// WebServer is the custom resource. crds/webserver.yaml says what its fields mean.
type WebServer = operator.Object[Spec, Status]

// Spec is what the user wants. What is handed on to the pods as it is stays raw.
type Spec struct {
	Image       string   `json:"image"`
	Replicas    *int32   `json:"replicas"`    // nil: not ours to decide
	Port        *int32   `json:"port"`        // nil: 80
	ServiceType string   `json:"serviceType"` // "": NodePort
	NodePort    *int32   `json:"nodePort"`    // nil: the cluster's choice, kept
	Resources   kube.Raw `json:"resources"`
	Env         kube.Raw `json:"env"`
	Template    kube.Raw `json:"template"`
}

// Status is what was seen.
type Status struct {
	operator.Common
	Ready           string `json:"ready"` // of the pods, for a column of kubectl: "1/3"
	Replicas        int32  `json:"replicas"`
	ReadyReplicas   int32  `json:"readyReplicas"`
	UpdatedReplicas int32  `json:"updatedReplicas"`
	Selector        string `json:"selector"`
	NodePort        *int32 `json:"nodePort"`
}

// deploymentBody and serviceBody are what is read of the children besides their status.
type (
	deploymentBody struct {
		Spec struct {
			Replicas int32 `json:"replicas"`
			Paused   bool  `json:"paused"`
		} `json:"spec"`
	}
	serviceBody struct {
		Spec struct {
			Ports []struct {
				Name     string `json:"name"`
				NodePort int32  `json:"nodePort"`
			} `json:"ports"`
		} `json:"spec"`
	}
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

	LastUpdateTime time.Time `json:"lastUpdateTime"`
}
