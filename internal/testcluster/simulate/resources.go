package simulate

import (
	"time"

	"skiff/internal/runtime/kube"
)

// Resources of the simulation.
var (
	podResource            = resource("", "pods", "Pod")
	nodeResource           = global("", "nodes", "Node")
	namespaceResource      = global("", "namespaces", "Namespace")
	configMapResource      = resource("", "configmaps", "ConfigMap")
	serviceAccountResource = resource("", "serviceaccounts", "ServiceAccount")
	claimResource          = resource("", "persistentvolumeclaims", "PersistentVolumeClaim")
	volumeResource         = global("", "persistentvolumes", "PersistentVolume")
	classResource          = global("storage.k8s.io", "storageclasses", "StorageClass")
	attributesResource     = global("storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass")
	serviceResource        = resource("", "services", "Service")
	endpointsResource      = resource("", "endpoints", "Endpoints")
	sliceResource          = resource("discovery.k8s.io", "endpointslices", "EndpointSlice")
	replicaSetResource     = resource("apps", "replicasets", "ReplicaSet")
	replicationResource    = resource("", "replicationcontrollers", "ReplicationController")
	deploymentResource     = resource("apps", "deployments", "Deployment")
	statefulSetResource    = resource("apps", "statefulsets", "StatefulSet")
	daemonSetResource      = resource("apps", "daemonsets", "DaemonSet")
	revisionResource       = resource("apps", "controllerrevisions", "ControllerRevision")
	jobResource            = resource("batch", "jobs", "Job")
	cronJobResource        = resource("batch", "cronjobs", "CronJob")
	leaseResource          = resource("coordination.k8s.io", "leases", "Lease")
	budgetResource         = resource("policy", "poddisruptionbudgets", "PodDisruptionBudget")
	scalerResource         = kube.Resource{Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers",
		Kind: "HorizontalPodAutoscaler"}
	policyResource = global("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy")
	crdResource    = global("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
)

func resource(group, plural, kind string) kube.Resource {
	return kube.Resource{Group: group, Version: "v1", Plural: plural, Kind: kind}
}

// global is resource for kinds without namespaces.
func global(group, plural, kind string) kube.Resource {
	r := resource(group, plural, kind)
	r.ClusterScoped = true
	return r
}

// Defaults of the API, for objects stored without values.
const (
	defaultReplicas         = 1
	defaultHistoryLimit     = 10
	defaultProgressDeadline = 600 // seconds
)

func (w *workload) replicas() int { return valueOr(w.Spec.Replicas, defaultReplicas) }

func valueOr(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}

// replicaSet is a ReplicaSet for the Deployment controller.
type replicaSet struct {
	*workload
	Status replicaSetStatus
}

type replicaSetStatus struct {
	Replicas            int        `json:"replicas"`
	ReadyReplicas       int        `json:"readyReplicas"`
	AvailableReplicas   int        `json:"availableReplicas"`
	TerminatingReplicas int        `json:"terminatingReplicas"`
	Conditions          conditions `json:"conditions"`
}

// available returns how many pods are available and stay so. After a scale-down the status still counts pods about to
// be deleted.
func (rs *replicaSet) available() int { return min(rs.Status.AvailableReplicas, rs.replicas()) }

// controllerRef returns the owner reference of an object that owner controls.
func controllerRef(r kube.Resource, owner *kube.Meta) object {
	return object{"apiVersion": r.APIVersion(), "kind": r.Kind, "name": owner.Name, "uid": owner.UID,
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
