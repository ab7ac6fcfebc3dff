package simulate

import (
	"time"

	"skiff/internal/kube"
)

// Resources that the simulation reads and writes.
var (
	podResource        = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	nodeResource       = kube.Resource{Version: "v1", Plural: "nodes", Kind: "Node", ClusterScoped: true}
	replicaSetResource = kube.Resource{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet"}
	deploymentResource = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	namespaceResource  = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	configMapResource  = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}

	statefulSetResource = kube.Resource{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet"}
	daemonSetResource   = kube.Resource{Group: "apps", Version: "v1", Plural: "daemonsets", Kind: "DaemonSet"}
	revisionResource    = kube.Resource{Group: "apps", Version: "v1", Plural: "controllerrevisions",
		Kind: "ControllerRevision"}
	jobResource     = kube.Resource{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job"}
	cronJobResource = kube.Resource{Group: "batch", Version: "v1", Plural: "cronjobs", Kind: "CronJob"}
	claimResource   = kube.Resource{Version: "v1", Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim"}

	serviceResource   = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
	endpointsResource = kube.Resource{Version: "v1", Plural: "endpoints", Kind: "Endpoints"}
	sliceResource     = kube.Resource{Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices",
		Kind: "EndpointSlice"}

	leaseResource  = kube.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"}
	budgetResource = kube.Resource{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets",
		Kind: "PodDisruptionBudget"}

	serviceAccountResource = kube.Resource{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount"}

	crdResource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1",
		Plural: "customresourcedefinitions",
		Kind:   "CustomResourceDefinition", ClusterScoped: true}
)

// deployment is the part of a Deployment that its controller reads.
type deployment struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               deploymentSpec   `json:"spec"`
	Status             deploymentStatus `json:"status"`
}

type deploymentSpec struct {
	Replicas *int `json:"replicas"`
	Selector struct {
		MatchLabels      map[string]string `json:"matchLabels"`
		MatchExpressions kube.Raw          `json:"matchExpressions"`
	} `json:"selector"`
	Template kube.Raw `json:"template"`
	Strategy struct {
		Type          string `json:"type"` // "Recreate"; anything else is RollingUpdate
		RollingUpdate struct {
			MaxSurge       kube.Raw `json:"maxSurge"` // a number or a percentage
			MaxUnavailable kube.Raw `json:"maxUnavailable"`
		} `json:"rollingUpdate"`
	} `json:"strategy"`
	MinReadySeconds         int  `json:"minReadySeconds"`
	RevisionHistoryLimit    *int `json:"revisionHistoryLimit"`
	ProgressDeadlineSeconds *int `json:"progressDeadlineSeconds"`
	Paused                  bool `json:"paused"`
}

type deploymentStatus struct {
	ObservedGeneration  int64                 `json:"observedGeneration"`
	Replicas            int                   `json:"replicas"`
	UpdatedReplicas     int                   `json:"updatedReplicas"`
	ReadyReplicas       int                   `json:"readyReplicas"`
	AvailableReplicas   int                   `json:"availableReplicas"`
	UnavailableReplicas int                   `json:"unavailableReplicas"`
	Conditions          []deploymentCondition `json:"conditions"`
}

type deploymentCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	LastUpdateTime     time.Time `json:"lastUpdateTime"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
}

// Defaults of the API, for objects that were stored without them.
const (
	defaultReplicas         = 1
	defaultHistoryLimit     = 10
	defaultProgressDeadline = 600 // seconds
)

func (d *deployment) replicas() int { return valueOr(d.Spec.Replicas, defaultReplicas) }

func valueOr(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}

// replicaSet is the part of a ReplicaSet that both controllers read.
type replicaSet struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               replicaSetSpec   `json:"spec"`
	Status             replicaSetStatus `json:"status"`
}

type replicaSetSpec struct {
	Replicas        *int     `json:"replicas"`
	MinReadySeconds int      `json:"minReadySeconds"`
	Template        kube.Raw `json:"template"`
}

type replicaSetStatus struct {
	ObservedGeneration   int64 `json:"observedGeneration"`
	Replicas             int   `json:"replicas"`
	FullyLabeledReplicas int   `json:"fullyLabeledReplicas"`
	ReadyReplicas        int   `json:"readyReplicas"`
	AvailableReplicas    int   `json:"availableReplicas"`
}

func (rs *replicaSet) replicas() int { return valueOr(rs.Spec.Replicas, defaultReplicas) }

// available returns how many pods are available and stay so. After a scale-down the status still counts pods that are
// about to be deleted.
func (rs *replicaSet) available() int { return min(rs.Status.AvailableReplicas, rs.replicas()) }

// controllerRef returns the owner reference of an object that owner controls.
func controllerRef(r kube.Resource, owner *kube.Meta) map[string]any {
	return map[string]any{"apiVersion": r.APIVersion(), "kind": r.Kind, "name": owner.Name, "uid": owner.UID,
		"controller": true, "blockOwnerDeletion": true}
}

// orNull returns n, or null for 0, which removes the field in a merge patch: the real controllers omit zero counts.
func orNull(n int) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

// wireTime formats a time as the API does.
func wireTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
