package kinds

import (
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

func appsV1(plural, kind string) kube.Resource {
	return kube.Resource{Group: "apps", Version: "v1", Plural: plural, Kind: kind}
}

// replicated is the scale of the kinds with replicas.
var replicated = &Scale{Spec: []string{"spec", "replicas"}, Status: []string{"status", "replicas"},
	Selector: []string{"spec", "selector"}}

func apps() []*Kind {
	all := []string{"all"}
	return []*Kind{
		{Resource: appsV1("controllerrevisions", "ControllerRevision"), Columns: revisionColumns},
		{Resource: appsV1("daemonsets", "DaemonSet"), ShortNames: []string{"ds"}, Categories: all, Status: true,
			NewStatus: constant(Object{"currentNumberScheduled": int64(0), "numberMisscheduled": int64(0),
				"desiredNumberScheduled": int64(0), "numberReady": int64(0)}),
			Generation: specChanged, Defaults: daemonSetDefaults, Validate: workloadRules, Columns: daemonSetColumns},
		{Resource: appsV1("deployments", "Deployment"), ShortNames: []string{"deploy"}, Categories: all,
			Status: true, Scale: replicated,
			NewStatus: constant(Object{}), Generation: deploymentChanged, Defaults: deploymentDefaults,
			Validate: workloadRules, Columns: deploymentColumns},
		{Resource: appsV1("replicasets", "ReplicaSet"), ShortNames: []string{"rs"}, Categories: all,
			Status: true, Scale: replicated,
			NewStatus: constant(Object{"replicas": int64(0)}), Generation: specChanged,
			Defaults: replicaSetDefaults, Validate: workloadRules,
			Fields:  map[string]func(Object) string{"status.replicas": numberAt("status", "replicas")},
			Columns: replicaSetColumns},
		{Resource: appsV1("statefulsets", "StatefulSet"), ShortNames: []string{"sts"}, Categories: all,
			Status: true, Scale: replicated,
			NewStatus: constant(Object{"replicas": int64(0), "availableReplicas": int64(0)}), Generation: specChanged,
			Defaults: statefulSetDefaults, Prepare: prepareStatefulSet, Validate: workloadRules,
			Columns: statefulSetColumns},
	}
}

// deploymentChanged includes the annotations of a Deployment, because its ReplicaSets get copies of them.
func deploymentChanged(next, cur Object) bool {
	return specChanged(next, cur) || !patch.Equal(obj.Get(next, "metadata", "annotations"),
		obj.Get(cur, "metadata", "annotations"))
}

func deploymentDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, int64(1), "replicas")
	obj.Default(spec, int64(10), "revisionHistoryLimit")
	obj.Default(spec, int64(600), "progressDeadlineSeconds")
	obj.Default(spec, "RollingUpdate", "strategy", "type")
	if obj.String(spec, "strategy", "type") == "RollingUpdate" {
		obj.Default(spec, "25%", "strategy", "rollingUpdate", "maxUnavailable")
		obj.Default(spec, "25%", "strategy", "rollingUpdate", "maxSurge")
	}
	templateDefaults(spec)
}

func replicaSetDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, int64(1), "replicas")
	templateDefaults(spec)
}

func statefulSetDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, int64(1), "replicas")
	obj.Default(spec, int64(10), "revisionHistoryLimit")
	obj.Default(spec, "OrderedReady", "podManagementPolicy")
	obj.Default(spec, "RollingUpdate", "updateStrategy", "type")
	if obj.String(spec, "updateStrategy", "type") == "RollingUpdate" {
		obj.Default(spec, int64(0), "updateStrategy", "rollingUpdate", "partition")
	}
	obj.Default(spec, "Retain", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	obj.Default(spec, "Retain", "persistentVolumeClaimRetentionPolicy", "whenScaled")
	templateDefaults(spec)
}

// prepareStatefulSet adds a field that the Go type always shows.
func prepareStatefulSet(next, _ Object) { obj.Default(next, "", "spec", "serviceName") }

func daemonSetDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, int64(10), "revisionHistoryLimit")
	obj.Default(spec, "RollingUpdate", "updateStrategy", "type")
	if obj.String(spec, "updateStrategy", "type") == "RollingUpdate" {
		obj.Default(spec, int64(1), "updateStrategy", "rollingUpdate", "maxUnavailable")
		obj.Default(spec, int64(0), "updateStrategy", "rollingUpdate", "maxSurge")
	}
	obj.Default(o, "1", "metadata", "annotations", "deprecated.daemonset.template.generation")
	templateDefaults(spec)
}

func specOf(o Object) Object {
	obj.Default(o, Object{}, "spec")
	return obj.Map(o, "spec")
}

func templateDefaults(spec Object) {
	obj.Default(spec, Object{}, "template")
	podSpecDefaults(specOf(obj.Map(spec, "template")))
}

// workloadRules validates the kinds with a pod template.
func workloadRules(next, cur Object) []Cause {
	var out []Cause
	spec := obj.Map(next, "spec")
	if n, ok := obj.Int(spec, "replicas"); ok && n < 0 {
		out = append(out, Invalid("spec.replicas", n, "must be greater than or equal to 0"))
	}
	sel := obj.Map(spec, "selector")
	switch {
	case sel == nil:
		out = append(out, Required("spec.selector", ""))
	case len(obj.Map(sel, "matchLabels"))+len(obj.Slice(sel, "matchExpressions")) == 0:
		out = append(out, Invalid("spec.selector", sel, "empty selector is invalid for deployment"))
	}
	labels := obj.Strings(spec, "template", "metadata", "labels")
	parsed, err := selector.ParseLabels(FormatSelector(sel))
	switch {
	case err != nil:
		out = append(out, Invalid("spec.selector", sel, "invalid label selector"))
	case sel == nil || !parsed.Matches(labels):
		out = append(out, Invalid("spec.template.metadata.labels", obj.Map(spec, "template", "metadata", "labels"),
			"`selector` does not match template `labels`"))
	}
	if p := obj.String(spec, "template", "spec", "restartPolicy"); p != "" && p != "Always" {
		out = append(out, NotSupported("spec.template.spec.restartPolicy", p, "Always"))
	}
	out = append(out, podSpecRules(obj.Map(spec, "template", "spec"), "spec.template.spec")...)
	if cur != nil && !patch.Equal(spec["selector"], obj.Get(cur, "spec", "selector")) {
		out = append(out, Invalid("spec.selector", spec["selector"], "field is immutable"))
	}
	return out
}
