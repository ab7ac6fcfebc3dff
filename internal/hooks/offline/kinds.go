package offline

import (
	"slices"
	"strings"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
)

// The kinds of Kubernetes itself. A controller names resources; requests and answers name kinds.
const (
	namespacedKinds = "ConfigMap ControllerRevision CronJob CSIStorageCapacity DaemonSet Deployment Endpoints " +
		"EndpointSlice Event HorizontalPodAutoscaler Ingress Job Lease LimitRange NetworkPolicy " +
		"PersistentVolumeClaim Pod PodDisruptionBudget PodTemplate ReplicaSet ReplicationController " +
		"ResourceQuota Role RoleBinding Secret Service ServiceAccount StatefulSet"
	clusterKinds = "APIService CertificateSigningRequest ClusterRole ClusterRoleBinding CSIDriver CSINode " +
		"CustomResourceDefinition FlowSchema IngressClass MutatingWebhookConfiguration Namespace Node " +
		"PersistentVolume PriorityClass PriorityLevelConfiguration RuntimeClass StorageClass " +
		"ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment"
)

// kinds are the kinds found in the files: of definitions, and of objects.
type kinds struct {
	known []kube.Resource
}

// definition is a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPIV3Schema *discovery.Schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// define takes the kind of a definition, which goes before kinds of objects.
func (k *kinds) define(d definition) {
	k.known = slices.Insert(k.known, 0, kube.Resource{Group: d.Spec.Group, Plural: d.Spec.Names.Plural,
		Kind: d.Spec.Names.Kind, ClusterScoped: d.Spec.Scope == "Cluster"})
}

// learn takes the kind of an object, unless the kind is known.
func (k *kinds) learn(apiVersion, kind string) kube.Resource {
	group, version := splitVersion(apiVersion)
	for _, r := range k.known {
		if r.Group == group && r.Kind == kind {
			r.Version = version
			return r
		}
	}
	r := kube.Resource{Group: group, Version: version, Plural: wire.PluralOf(kind), Kind: kind,
		ClusterScoped: builtIn(group) && slices.Contains(strings.Fields(clusterKinds), kind)}
	if kind != "" {
		k.known = append(k.known, r)
	}
	return r
}

// find returns the resource named by a rule. guessed says that no file has the kind.
func (k *kinds) find(t spec.Type) (r kube.Resource, guessed bool) {
	group, version := splitVersion(t.APIVersion)
	for _, r := range k.known {
		if r.Group == group && r.Plural == t.Resource {
			r.Version = version
			return r, false
		}
	}
	r = kube.Resource{Group: group, Version: version, Plural: t.Resource}
	if builtIn(group) {
		for i, names := range []string{namespacedKinds, clusterKinds} {
			for name := range strings.FieldsSeq(names) {
				if wire.PluralOf(name) == t.Resource {
					r.Kind, r.ClusterScoped = name, i == 1
					return r, false
				}
			}
		}
	}
	r.Kind = kindOf(t.Resource)
	return r, true
}

// builtIn says whether a group may belong to Kubernetes.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

func splitVersion(apiVersion string) (group, version string) {
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		return group, version
	}
	return "", apiVersion
}

// kindOf returns a kind with the plural.
func kindOf(plural string) string {
	for _, singular := range []string{strings.TrimSuffix(plural, "ies") + "y", strings.TrimSuffix(plural, "es"),
		strings.TrimSuffix(plural, "s")} {
		if wire.PluralOf(singular) == plural {
			return strings.ToUpper(singular[:1]) + singular[1:]
		}
	}
	return strings.ToUpper(plural[:1]) + plural[1:]
}
