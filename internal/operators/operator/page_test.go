package operator_test

import (
	"errors"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file is a whole operator: a Page is a text that nginx serves, made of a Deployment, a ConfigMap and a Service.
// "Add an operator" in internal/README.md walks through it, and page_story_test.go runs it.

var (
	pages       = kube.Resource{Group: "example.com", Version: "v1", Plural: "pages", Kind: "Page"}
	configMaps  = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
)

var page = operator.Definition[*Page, PageStatus]{
	Name:     "page",
	Resource: pages,
	Children: []operator.Kind{operator.Owns[*apply.Live[deploymentStatus]](deployments),
		operator.Owns[*apply.Live[struct{}]](configMaps), operator.Owns[*apply.Live[struct{}]](services)},
	Desired: desiredPage,
	Observe: observePage,
}

// NewPages returns the controller.
func NewPages(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	return operator.New(s, recorder, page)
}

type Page = operator.Object[PageSpec, PageStatus]

type PageSpec struct {
	Text     string `json:"text"`
	Replicas int32  `json:"replicas"`
	Internal bool   `json:"internal"` // no Service
}

type PageStatus struct {
	operator.Common
	ReadyReplicas int32 `json:"readyReplicas"`
}

// deploymentStatus is what is read of a Deployment's status.
type deploymentStatus struct {
	ObservedGeneration int64 `json:"observedGeneration"`
	Replicas           int32 `json:"replicas"`
	UpdatedReplicas    int32 `json:"updatedReplicas"`
	ReadyReplicas      int32 `json:"readyReplicas"`
	AvailableReplicas  int32 `json:"availableReplicas"`
}

type object = map[string]any

// desiredPage returns what should exist.
func desiredPage(p *Page) ([]operator.Child, error) {
	if p.Spec.Text == "" {
		return nil, errors.New("spec.text: must not be empty")
	}
	selector := operator.SelectorLabels("page", p.Name)
	nginx := object{"name": "nginx", "image": "nginx",
		"volumeMounts": []object{{"name": "page", "mountPath": "/usr/share/nginx/html"}}}
	children := []operator.Child{
		{Resource: deployments, Name: p.Name, Body: object{"spec": object{
			"replicas": p.Spec.Replicas,
			"selector": object{"matchLabels": selector},
			"template": object{"metadata": object{"labels": selector}, "spec": object{"containers": []object{nginx},
				"volumes": []object{{"name": "page", "configMap": object{"name": p.Name}}}}}}}},
		{Resource: configMaps, Name: p.Name, Body: object{"data": object{"index.html": p.Spec.Text}}},
	}
	if !p.Spec.Internal {
		children = append(children, operator.Child{Resource: services, Name: p.Name, Body: object{"spec": object{
			"selector": selector, "ports": []object{{"port": 80, "protocol": "TCP"}}}}})
	}
	return children, nil
}

// observePage returns the status.
func observePage(p *Page, seen operator.Seen, _ health.Problem) (PageStatus, conditions.Set) {
	var status PageStatus
	rollout := conditions.Rollout{Kind: "Deployment", Want: p.Spec.Replicas}
	if d := operator.Find[deploymentStatus](seen, deployments, p.Name); d != nil {
		s := d.Status
		status.ReadyReplicas = s.ReadyReplicas
		rollout.Total, rollout.Updated, rollout.Available = s.Replicas, s.UpdatedReplicas, s.AvailableReplicas
		rollout.Observed = s.ObservedGeneration == d.Generation
	}
	return status, rollout.Progress().Set()
}
