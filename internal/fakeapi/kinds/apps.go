package kinds

import (
	"strconv"
	"strings"

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
			Generation: specChanged, Defaults: daemonSetDefaults,
			Validate: workloadRules("daemonset", daemonSetRules, immutable("spec.selector")),
			Columns:  daemonSetColumns},
		{Resource: appsV1("deployments", "Deployment"), ShortNames: []string{"deploy"}, Categories: all,
			Status: true, Scale: replicated,
			NewStatus: constant(Object{}), Generation: deploymentChanged, Defaults: deploymentDefaults,
			Validate: workloadRules("deployment", deploymentRules, immutable("spec.selector")),
			Columns:  deploymentColumns},
		{Resource: appsV1("replicasets", "ReplicaSet"), ShortNames: []string{"rs"}, Categories: all,
			Status: true, Scale: replicated,
			NewStatus: constant(Object{"replicas": int64(0)}), Generation: specChanged,
			Defaults: replicaSetDefaults, Validate: workloadRules("deployment", immutable("spec.selector")),
			Fields:  map[string]func(Object) string{"status.replicas": numberAt("status", "replicas")},
			Columns: replicaSetColumns},
		{Resource: appsV1("statefulsets", "StatefulSet"), ShortNames: []string{"sts"}, Categories: all,
			Status: true, Scale: replicated,
			NewStatus: constant(Object{"replicas": int64(0), "availableReplicas": int64(0)}), Generation: specChanged,
			Defaults: statefulSetDefaults, Prepare: prepareStatefulSet,
			Validate: workloadRules("statefulset", statefulSetRules),
			Columns:  statefulSetColumns},
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

// workloadRules validates the kinds with a pod template: what they share, and their own rules. noun is what the server
// calls the kind in the error about an empty selector.
func workloadRules(noun string, own ...rule) func(next, cur Object) []Cause {
	return rules(append(own, func(next, cur Object) []Cause {
		spec := obj.Map(next, "spec")
		out := runChecks(next, "", workloadChecks)
		sel := obj.Map(spec, "selector")
		switch {
		case sel == nil:
			out = append(out, Required("spec.selector", ""))
		case len(obj.Map(sel, "matchLabels"))+len(obj.Slice(sel, "matchExpressions")) == 0:
			out = append(out, Invalid("spec.selector", sel, "empty selector is invalid for "+noun))
		}
		out = append(out, selectsTemplate(spec)...)
		for _, key := range sortedKeys(obj.Map(spec, "template", "metadata", "labels")) {
			out = append(out, InvalidAll("spec.template.labels", key, selector.QualifiedName(key))...)
		}
		claims := obj.Maps(spec, "volumeClaimTemplates")
		return append(out, podSpecRules(obj.Map(spec, "template", "spec"), "spec.template.spec", claims...)...)
	})...)
}

// selectsTemplate requires that the selector of a spec selects the pods of its template.
func selectsTemplate(spec Object) []Cause {
	sel, labels := obj.Map(spec, "selector"), obj.Map(spec, "template", "metadata", "labels")
	parsed, err := selector.ParseLabels(FormatSelector(sel))
	switch {
	case err != nil:
		return []Cause{Invalid("spec.selector", sel, "invalid label selector")}
	case sel == nil || !parsed.Matches(obj.Strings(spec, "template", "metadata", "labels")):
		return []Cause{Invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")}
	}
	return nil
}

// workloadChecks are those of the workloads whose pods run for ever.
var workloadChecks = []check{
	must("spec.replicas", notNegative), must("spec.minReadySeconds", notNegative),
	must("spec.template.spec.restartPolicy", among("Always")),
	must("spec.selector.matchExpressions[].operator", func(at string, v any) []Cause {
		if among("In", "NotIn", "Exists", "DoesNotExist")(at, v) != nil {
			return []Cause{Invalid(at, v, "not a valid selector operator")}
		}
		return nil
	}),
	must("spec.template.spec.activeDeadlineSeconds", func(at string, v any) []Cause {
		if v == nil {
			return nil
		}
		return []Cause{Forbidden(at, "activeDeadlineSeconds in ReplicaSet is not Supported")}
	}),
}

// percentOf refuses what is neither a number from 0 on nor a percentage, and more than 100 % where that is the limit.
func percentOf(limited bool) test {
	return func(at string, v any) []Cause {
		s, isText := v.(string)
		if !isText {
			return notNegative(at, v)
		}
		n, ok := strings.CutSuffix(s, "%")
		number, err := strconv.Atoi(n)
		switch {
		case !ok || err != nil || number < 0:
			return []Cause{Invalid(at, s, "a valid percent string must be a numeric string followed by an ending '%' "+
				"(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")}
		case limited && number > 100:
			return []Cause{Invalid(at, s, "must not be greater than 100%")}
		}
		return nil
	}
}

func isZero(v any) bool { return v == nil || v == int64(0) || v == "0%" }

func deploymentRules(next, _ Object) []Cause {
	out := runChecks(next, "", []check{must("spec.revisionHistoryLimit", notNegative),
		must("spec.strategy.rollingUpdate.maxSurge", percentOf(false)),
		must("spec.strategy.rollingUpdate.maxUnavailable", percentOf(true))})
	spec := obj.Map(next, "spec")
	ready, _ := obj.Int(spec, "minReadySeconds")
	if n, ok := obj.Int(spec, "progressDeadlineSeconds"); ok && n <= ready {
		out = append(out, Invalid("spec.progressDeadlineSeconds", n, "must be greater than minReadySeconds"))
	}
	strategy := obj.Map(spec, "strategy")
	rolling := obj.Map(strategy, "rollingUpdate")
	switch kind := obj.String(strategy, "type"); {
	case kind == "Recreate" && rolling != nil:
		out = append(out, Forbidden("spec.strategy.rollingUpdate",
			"may not be specified when strategy `type` is 'Recreate'"))
	case kind == "RollingUpdate" && isZero(rolling["maxSurge"]) && isZero(rolling["maxUnavailable"]):
		out = append(out, Invalid("spec.strategy.rollingUpdate.maxUnavailable", rolling["maxUnavailable"],
			"may not be 0 when `maxSurge` is 0"))
	case kind != "Recreate" && kind != "RollingUpdate":
		out = append(out, NotSupported("spec.strategy", strategy, "Recreate", "RollingUpdate"))
	}
	return out
}

func daemonSetRules(next, _ Object) []Cause {
	const at = "spec.updateStrategy.rollingUpdate"
	out := runChecks(next, "", []check{must("spec.revisionHistoryLimit", notNegative),
		must(at+".maxSurge", percentOf(true)), must(at+".maxUnavailable", percentOf(true))})
	strategy := obj.Map(next, "spec", "updateStrategy")
	rolling := obj.Map(strategy, "rollingUpdate")
	none, still := isZero(rolling["maxSurge"]), isZero(rolling["maxUnavailable"])
	switch kind := obj.String(strategy, "type"); {
	case kind != "RollingUpdate" && kind != "OnDelete":
		out = append(out, NotSupported("spec.updateStrategy", strategy, "RollingUpdate", "OnDelete"))
	case kind == "RollingUpdate" && none && still:
		out = append(out, Required(at+".maxUnavailable", "cannot be 0 when maxSurge is 0"))
	case kind == "RollingUpdate" && !none && !still:
		out = append(out, Invalid(at+".maxSurge", rolling["maxSurge"],
			"may not be set when maxUnavailable is non-zero"))
	}
	return out
}

// changeableInSets are the fields of a StatefulSet's spec that may change.
var changeableInSets = []string{"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
	"persistentVolumeClaimRetentionPolicy", "minReadySeconds"}

func statefulSetRules(next, cur Object) []Cause {
	retention := among("Retain", "Delete")
	out := runChecks(next, "", []check{must("spec.ordinals.start", notNegative),
		must("spec.updateStrategy.rollingUpdate.partition", notNegative),
		must("spec.persistentVolumeClaimRetentionPolicy.whenScaled", retention),
		must("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", retention)})
	spec := obj.Map(next, "spec")
	if p := obj.String(spec, "podManagementPolicy"); p != "OrderedReady" && p != "Parallel" {
		out = append(out, Invalid("spec.podManagementPolicy", p, "must be 'OrderedReady' or 'Parallel'"))
	}
	strategy := obj.Map(spec, "updateStrategy")
	switch kind := obj.String(strategy, "type"); {
	case kind == "OnDelete" && obj.Map(strategy, "rollingUpdate") != nil:
		out = append(out, Invalid("spec.updateStrategy.rollingUpdate",
			obj.Map(strategy, "rollingUpdate"),
			"only allowed for updateStrategy 'RollingUpdate'"))
	case kind != "OnDelete" && kind != "RollingUpdate":
		out = append(out, Invalid("spec.updateStrategy", strategy,
			"must be 'RollingUpdate' or 'OnDelete'"))
	}
	if cur != nil && !obj.EqualExcept(spec, obj.Map(cur, "spec"), changeableInSets...) {
		out = append(out, Forbidden("spec", "updates to statefulset spec for fields other than 'replicas', "+
			"'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "+
			"'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
	}
	return out
}
