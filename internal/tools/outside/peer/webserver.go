package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WebServer has what peer reads and writes of skiff's.
type WebServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebServerSpec   `json:"spec,omitempty"`
	Status WebServerStatus `json:"status,omitempty"`
}

// WebServerSpec is what the user wants.
type WebServerSpec struct {
	Image    string `json:"image"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// WebServerStatus is what was seen.
type WebServerStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas"`
	NodePort           int32              `json:"nodePort,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WebServerList is a list of them.
type WebServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebServer `json:"items"`
}

// DeepCopyObject copies w.
func (w *WebServer) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	if w.Spec.Replicas != nil {
		replicas := *w.Spec.Replicas
		c.Spec.Replicas = &replicas
	}
	c.Status.Conditions = slices.Clone(w.Status.Conditions)
	return &c
}

// DeepCopyObject copies l.
func (l *WebServerList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]WebServer, 0, len(l.Items))
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*WebServer))
	}
	return &c
}

// addWebServer has a scheme know them.
func addWebServer(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "skiff.dev", Version: "v1alpha1"}
	scheme.AddKnownTypes(version, &WebServer{}, &WebServerList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}
