package operator_test

import (
	"errors"
	"fmt"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// This file is a whole operator: a Page is a text that nginx serves, made of a ConfigMap, a Deployment and a Service.
// The README walks through it, and page_story_test.go runs it.

var (
	pages       = kube.Resource{Group: "example.com", Version: "v1", Plural: "pages", Kind: "Page"}
	configMaps  = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	services    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
)

type Page = operator.Object[PageSpec, PageStatus]

type PageSpec struct {
	Text     string `json:"text"`
	Replicas int64  `json:"replicas"`
	Internal bool   `json:"internal"` // no Service
}

type PageStatus struct {
	operator.Common
	ReadyReplicas int64 `json:"readyReplicas"`
}

// deploymentStatus is what is read of a Deployment's status.
type deploymentStatus struct {
	ObservedGeneration int64 `json:"observedGeneration"`
	ReadyReplicas      int64 `json:"readyReplicas"`
}

// NewPages returns the controller.
func NewPages(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	every := []string{"get", "list", "watch", "create", "patch", "delete"}
	return operator.New(s, recorder, operator.Definition[*Page, PageStatus]{
		Name:     "page",
		Resource: pages,
		Rights: append([]kube.Right{
			{Resource: pages, Verbs: []string{"get", "list", "watch"}, Why: "what is declared"},
			{Resource: pages, Subresource: "status", Verbs: []string{"patch"}, Why: "what was seen"},
			{Resource: configMaps, Verbs: every, Why: "children of a Page"},
			{Resource: deployments, Verbs: every, Why: "children of a Page"},
			{Resource: services, Verbs: every, Why: "children of a Page"},
		}, events.Rights...),
		Children: []operator.Kind{
			operator.Owns[*apply.Live[deploymentStatus]](deployments, apply.InPlace),
			operator.Owns[*apply.Live[struct{}]](configMaps, apply.InPlace),
			operator.Owns[*apply.Live[struct{}]](services, apply.InPlace),
		},
		Desired: desiredPage,
		Observe: observePage,
	})
}

// desiredPage returns what should exist.
func desiredPage(p *Page) ([]apply.Child, error) {
	if p.Spec.Text == "" {
		return nil, errors.New("spec.text: must not be empty")
	}
	owner, selector := apply.OwnerOf(pages, p), operator.SelectorLabels("page", p.Name)

	config := operator.Body(owner, configMaps, "page", p.Name)
	config["data"] = map[string]any{"index.html": p.Spec.Text}

	deployment := operator.Body(owner, deployments, "page", p.Name)
	deployment["spec"] = map[string]any{
		"replicas": p.Spec.Replicas,
		"selector": map[string]any{"matchLabels": selector},
		"template": map[string]any{
			"metadata": map[string]any{"labels": selector},
			"spec": map[string]any{
				"containers": []any{map[string]any{"name": "nginx", "image": "nginx",
					"volumeMounts": []any{map[string]any{"name": "page", "mountPath": "/usr/share/nginx/html"}}}},
				"volumes": []any{map[string]any{"name": "page", "configMap": map[string]any{"name": p.Name}}},
			},
		},
	}
	children := []apply.Child{{Body: deployment}, {Body: config}}
	if p.Spec.Internal {
		return children, nil
	}
	service := operator.Body(owner, services, "page", p.Name)
	service["spec"] = map[string]any{"selector": selector, "ports": []any{map[string]any{"port": int64(80),
		"protocol": "TCP"}}}
	return append(children, apply.Child{Body: service}), nil
}

// observePage returns the status.
func observePage(p *Page, seen operator.Seen) (PageStatus, conditions.Set) {
	var s PageStatus
	d := operator.Child[deploymentStatus](seen, deployments, p.Name)
	if d != nil {
		s.ReadyReplicas = d.Status.ReadyReplicas
	}
	ready := d != nil && d.Status.ObservedGeneration == d.Generation && s.ReadyReplicas == p.Spec.Replicas
	message := fmt.Sprintf("%d of %d pods are ready", s.ReadyReplicas, p.Spec.Replicas)
	set := conditions.NewSet(p.Annotations)
	set.Ready = conditions.New(conditions.Ready, ready, "Pods", message)
	set.Progressing = conditions.New(conditions.Progressing, !ready, "Pods", message)
	return s, set
}
