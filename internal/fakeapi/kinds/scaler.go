package kinds

import (
	"maps"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// scalers are the HorizontalPodAutoscalers: stored as v2, and served as v1, too, for clients such as kubectl autoscale
// before 1.33.
func scalers() []*Kind {
	in := func(version string) *Kind {
		return &Kind{Resource: kube.Resource{Group: "autoscaling", Version: version,
			Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler"},
			ShortNames: []string{"hpa"}, Categories: []string{"all"}, Status: true,
			NewStatus: constant(Object{"desiredReplicas": int64(0), "currentMetrics": nil}),
			Defaults:  scalerDefaults, Validate: scalerRules, Columns: scalerColumns}
	}
	v2, v1 := in("v2"), in("v1")
	v1.StoredAs, v1.View, v1.Store = "autoscaling/v2", oldScaler, newScaler
	return []*Kind{v2, v1}
}

func scalerDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, int64(1), "minReplicas")
	if len(obj.Slice(spec, "metrics")) == 0 {
		spec["metrics"] = []any{cpuMetric(int64(80))}
	}
}

func cpuMetric(percent int64) Object {
	return Object{"type": "Resource", "resource": Object{"name": "cpu",
		"target": Object{"type": "Utilization", "averageUtilization": percent}}}
}

// metricSources are the types of metrics, and the members of a metric that describe them.
var metricSources = map[string]string{"ContainerResource": "containerResource", "External": "external",
	"Object": "object", "Pods": "pods", "Resource": "resource"}

var scalerChecks = []check{
	must("spec.minReplicas", between(1, 1<<31-1, "must be greater than or equal to 1")),
	must("spec.scaleTargetRef", func(at string, v any) []Cause {
		target, _ := v.(Object)
		out := runChecks(target, at, []check{must("kind", present(""), valid(selector.PathSegment)),
			must("name", present(""), valid(selector.PathSegment))})
		version := obj.String(target, "apiVersion")
		switch strings.Count(version, "/") {
		case 0:
			if version == "" && obj.String(target, "kind") == "" {
				out = append(out, Invalid(at+".apiVersion", version, "apiVersion must specify API group"))
			}
		case 1:
		default:
			out = append(out, Invalid(at+".apiVersion", version, "unexpected GroupVersion string: "+version))
		}
		return out
	}),
	must("spec.metrics[].type", among(slices.Sorted(maps.Keys(metricSources))...)),
	must("spec.metrics[]", func(at string, v any) []Cause {
		m, _ := v.(Object)
		if source := metricSources[obj.String(m, "type")]; source != "" && m[source] == nil {
			return []Cause{Required(at+"."+source, "must populate information for the given metric source")}
		}
		return nil
	}),
	must("spec.metrics[].resource.name", present("must specify a resource name")),
	must("spec.metrics[].resource.target.averageUtilization", positive),
	must("spec.metrics[].resource.target", func(at string, v any) []Cause {
		if t, _ := v.(Object); t["averageUtilization"] == nil && t["averageValue"] == nil {
			return []Cause{Required(at+".averageUtilization",
				"must set either a target raw value or a target utilization")}
		}
		return nil
	}),
}

func scalerRules(next, _ Object) []Cause {
	out := runChecks(next, "", scalerChecks)
	highest, _ := obj.Int(next, "spec", "maxReplicas")
	lowest, bounded := obj.Int(next, "spec", "minReplicas")
	switch {
	case highest == 0:
		out = append(out, Required("spec.maxReplicas", "must be set and greater than 0"))
	case highest < 0:
		out = append(out, Invalid("spec.maxReplicas", highest, "must be greater than or equal to 1"))
	}
	if bounded && highest < lowest {
		out = append(out, Invalid("spec.maxReplicas", highest, "must be greater than or equal to `minReplicas`"))
	}
	if bounded && lowest == 0 {
		out = append(out, Forbidden("spec.metrics",
			"must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return out
}

// inAnnotations are the annotations in which v1 keeps fields that it does not have, so that a change through v1 loses
// nothing. The names are the real server's; the values are in the form of v2.
var inAnnotations = map[string]string{"metrics": "autoscaling.alpha.kubernetes.io/metrics",
	"behavior": "autoscaling.alpha.kubernetes.io/behavior"}

const targetCPU = "targetCPUUtilizationPercentage"

// oldScaler converts a stored HorizontalPodAutoscaler to v1, which has a field for the CPU target and annotations for
// other metrics.
func oldScaler(o Object) Object {
	out, spec, status := obj.Shallow(o), obj.Shallow(obj.Map(o, "spec")), obj.Shallow(obj.Map(o, "status"))
	var others []any
	for _, m := range obj.Maps(spec, "metrics") {
		if n, ok := obj.Int(m, "resource", "target", "averageUtilization"); ok &&
			obj.String(m, "resource", "name") == "cpu" {
			spec[targetCPU] = n
		} else {
			others = append(others, m)
		}
	}
	if delete(spec, "metrics"); others != nil {
		spec["metrics"] = others
	}
	meta := obj.Shallow(obj.Map(o, "metadata"))
	annotations := obj.Shallow(obj.Map(meta, "annotations"))
	for field, name := range inAnnotations {
		if v := spec[field]; v != nil {
			if text, err := patch.Encode(v); err == nil {
				annotations[name] = string(text)
				meta["annotations"] = annotations
			}
		}
		delete(spec, field)
	}
	delete(status, "currentMetrics")
	delete(status, "conditions")
	obj.Default(status, int64(0), "currentReplicas")
	out["metadata"], out["spec"], out["status"] = meta, spec, status
	return out
}

// newScaler converts v1 to v2. An annotation that is not valid JSON stays an annotation.
func newScaler(o Object) Object {
	spec, annotations := specOf(o), obj.Map(o, "metadata", "annotations")
	for field, name := range inAnnotations {
		if v, err := patch.Decode([]byte(obj.String(annotations, name))); err == nil {
			spec[field] = v
			delete(annotations, name)
		}
	}
	if n, ok := obj.Int(spec, targetCPU); ok {
		spec["metrics"] = append(obj.Slice(spec, "metrics"), cpuMetric(n))
	}
	delete(spec, targetCPU)
	return o
}
