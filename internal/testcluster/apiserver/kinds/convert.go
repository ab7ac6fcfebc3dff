package kinds

import (
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

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
	obj.Default(o, Object{}, "spec")
	spec, annotations := obj.Map(o, "spec"), obj.Map(o, "metadata", "annotations")
	for field, name := range inAnnotations {
		if v, err := patch.Decode([]byte(obj.String(annotations, name))); err == nil {
			spec[field] = v
			delete(annotations, name)
		}
	}
	if n, ok := obj.Int(spec, targetCPU); ok {
		target := Object{"type": "Utilization", "averageUtilization": n}
		cpu := Object{"type": "Resource", "resource": Object{"name": "cpu", "target": target}}
		spec["metrics"] = append(obj.Slice(spec, "metrics"), cpu)
	}
	delete(spec, targetCPU)
	return o
}

// eventNames has the name of each field in v1 and in events.k8s.io/v1.
var eventNames = [][2]string{{"involvedObject", "regarding"}, {"message", "note"}, {"source", "deprecatedSource"},
	{"firstTimestamp", "deprecatedFirstTimestamp"}, {"lastTimestamp", "deprecatedLastTimestamp"},
	{"count", "deprecatedCount"},
	{"reportingComponent", "reportingController"}}

// newEvent converts a stored Event (v1) to events.k8s.io/v1.
func newEvent(o Object) Object {
	out := obj.Shallow(o)
	for _, n := range eventNames {
		rename(out, n[0], n[1])
	}
	for _, f := range []string{"reportingController", "reportingInstance"} {
		if out[f] == "" {
			delete(out, f)
		}
	}
	return out
}

func oldEvent(o Object) Object {
	for _, n := range eventNames {
		rename(o, n[1], n[0])
	}
	return o
}

func rename(o Object, from, to string) {
	if v, ok := o[from]; ok {
		delete(o, from)
		o[to] = v
	}
}
