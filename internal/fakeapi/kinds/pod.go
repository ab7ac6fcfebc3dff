package kinds

import (
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

var podFields = map[string]func(Object) string{
	"spec.nodeName": at("spec", "nodeName"), "spec.restartPolicy": at("spec", "restartPolicy"),
	"spec.schedulerName":      at("spec", "schedulerName"),
	"spec.serviceAccountName": at("spec", "serviceAccountName"), "spec.hostNetwork": boolAt("spec", "hostNetwork"),
	"status.phase": at("status", "phase"), "status.podIP": at("status", "podIP"),
	"status.nominatedNodeName": at("status", "nominatedNodeName"),
}

// newPodStatus returns the status of a new pod.
func newPodStatus(o Object) any {
	return Object{"phase": "Pending", "qosClass": qosClass(obj.Map(o, "spec"))}
}

// qosClass derives the QoS class from the resources of the containers (pkg/apis/core/helper/qos).
func qosClass(spec Object) string {
	guaranteed, any := true, false
	for _, c := range obj.Maps(spec, "containers") {
		limits, requests := obj.Map(c, "resources", "limits"), obj.Map(c, "resources", "requests")
		any = any || len(limits) > 0 || len(requests) > 0
		for _, r := range []string{"cpu", "memory"} {
			if limits[r] == nil || requests[r] != nil && !patch.Equal(limits[r], requests[r]) {
				guaranteed = false
			}
		}
	}
	switch {
	case !any:
		return "BestEffort"
	case guaranteed:
		return "Guaranteed"
	}
	return "Burstable"
}

// podGrace returns the grace period of a DELETE: 0 for a pod that is not on a node or has ended.
func podGrace(o Object, asked *int64) int64 {
	phase := obj.String(o, "status", "phase")
	if obj.String(o, "spec", "nodeName") == "" || phase == "Failed" || phase == "Succeeded" {
		return 0
	}
	if asked != nil {
		return max(*asked, 0)
	}
	if left, ok := obj.Int(o, "metadata", "deletionGracePeriodSeconds"); ok &&
		obj.String(o, "metadata", "deletionTimestamp") != "" {
		return left
	}
	grace, ok := obj.Int(o, "spec", "terminationGracePeriodSeconds")
	if !ok {
		return 30
	}
	return grace
}

// preparePod acts as the default admission plugins: it adds tolerations and the priority.
func preparePod(next, cur Object) {
	if cur != nil {
		return
	}
	spec := specOf(next)
	obj.Default(spec, int64(0), "priority")
	obj.Default(spec, "PreemptLowerPriority", "preemptionPolicy")
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		if !tolerates(spec, key) {
			spec["tolerations"] = append(obj.Slice(spec, "tolerations"),
				Object{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)})
		}
	}
}

func tolerates(spec Object, key string) bool {
	for _, t := range obj.Maps(spec, "tolerations") {
		if k := obj.String(t, "key"); (k == key || k == "") &&
			(obj.String(t, "effect") == "" || obj.String(t, "effect") == "NoExecute") {
			return true
		}
	}
	return false
}

func podDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, true, "enableServiceLinks")
	podSpecDefaults(spec)
	if grace, _ := obj.Int(spec, "terminationGracePeriodSeconds"); grace < 0 {
		spec["terminationGracePeriodSeconds"] = int64(1)
	}
	// In pods, but not in templates, limits are also the default of requests.
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range obj.Maps(spec, list) {
			for name, v := range obj.Map(c, "resources", "limits") {
				obj.Default(c, v, "resources", "requests", name)
			}
		}
	}
}

func podSpecDefaults(spec Object) {
	obj.Default(spec, "Always", "restartPolicy")
	obj.Default(spec, int64(30), "terminationGracePeriodSeconds")
	obj.Default(spec, "ClusterFirst", "dnsPolicy")
	obj.Default(spec, Object{}, "securityContext")
	obj.Default(spec, "default-scheduler", "schedulerName")
	if sa := obj.String(spec, "serviceAccountName"); sa != "" {
		obj.Default(spec, sa, "serviceAccount") // the deprecated alias of the field has the same value
	}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for _, c := range obj.Maps(spec, list) {
			containerDefaults(c)
		}
	}
	for _, v := range obj.Maps(spec, "volumes") {
		if len(v) == 1 && v["name"] != nil {
			v["emptyDir"] = Object{}
		}
		for _, source := range []string{"configMap", "secret", "downwardAPI", "projected"} {
			if obj.Map(v, source) != nil {
				obj.Default(v, int64(0o644), source, "defaultMode")
			}
		}
	}
}

func containerDefaults(c Object) {
	obj.Default(c, Object{}, "resources")
	obj.Default(c, "/dev/termination-log", "terminationMessagePath")
	obj.Default(c, "File", "terminationMessagePolicy")
	obj.Default(c, pullPolicy(obj.String(c, "image")), "imagePullPolicy")
	for _, p := range obj.Maps(c, "ports") {
		obj.Default(p, "TCP", "protocol")
	}
	for _, e := range obj.Maps(c, "env") {
		if obj.Map(e, "valueFrom", "fieldRef") != nil {
			obj.Default(e, "v1", "valueFrom", "fieldRef", "apiVersion")
		}
	}
	for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		probe := obj.Map(c, name)
		if probe == nil {
			continue
		}
		obj.Default(probe, int64(1), "timeoutSeconds")
		obj.Default(probe, int64(10), "periodSeconds")
		obj.Default(probe, int64(1), "successThreshold")
		obj.Default(probe, int64(3), "failureThreshold")
		if obj.Map(probe, "httpGet") != nil {
			obj.Default(probe, "/", "httpGet", "path")
			obj.Default(probe, "HTTP", "httpGet", "scheme")
		}
	}
}

// pullPolicy is Always for images without a tag or with "latest", which may change.
func pullPolicy(image string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	if strings.Contains(name, "@") {
		return "IfNotPresent"
	}
	if _, tag, ok := strings.Cut(name, ":"); ok && tag != "latest" {
		return "IfNotPresent"
	}
	return "Always"
}

func podRules(next, cur Object) []Cause {
	out := append(podSpecRules(obj.Map(next, "spec"), "spec"), ephemeralRules(obj.Map(next, "spec"))...)
	if cur == nil && len(obj.Slice(next, "spec", "ephemeralContainers")) > 0 {
		out = append(out, Forbidden("spec.ephemeralContainers", "cannot be set on create"))
	}
	if cur != nil {
		out = append(out, podChangeRules(obj.Map(next, "spec"), obj.Map(cur, "spec"))...)
	}
	return out
}

// podChangeRules allows only the few changes of a pod's spec that the real server allows. A binding sets the node.
func podChangeRules(next, cur Object) []Cause {
	if patch.Equal(next, cur) {
		return nil
	}
	for _, list := range []string{"containers", "initContainers"} {
		if len(obj.Slice(next, list)) != len(obj.Slice(cur, list)) {
			return []Cause{Forbidden("spec."+list, "pod updates may not add or remove containers")}
		}
	}
	var out []Cause
	is, set := obj.Int(next, "activeDeadlineSeconds")
	switch was, before := obj.Int(cur, "activeDeadlineSeconds"); {
	case before && !set:
		out = append(out, Invalid("spec.activeDeadlineSeconds", nil,
			"must not update from a positive integer to nil value"))
	case before && is > was:
		out = append(out, Invalid("spec.activeDeadlineSeconds", is, "must be less than or equal to previous value"))
	}
	for _, was := range obj.Maps(cur, "tolerations") {
		if !slices.ContainsFunc(obj.Maps(next, "tolerations"),
			func(is Object) bool { return obj.EqualExcept(was, is, "tolerationSeconds") }) {
			out = append(out, Forbidden("spec.tolerations",
				"existing toleration can not be modified except its tolerationSeconds"))
		}
	}
	if !patch.Equal(frozenSpec(next), frozenSpec(cur)) {
		out = append(out, Forbidden("spec", "pod updates may not change fields other than "+
			"`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"+
			"`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "+
			"(allow it to be set to 1 if it was previously negative)"))
	}
	return out
}

// frozenSpec returns the part of a pod's spec that cannot change.
func frozenSpec(spec Object) Object {
	out := obj.Clone(spec)
	for _, f := range []string{"activeDeadlineSeconds", "tolerations", "schedulingGates"} {
		delete(out, f)
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range obj.Maps(out, list) {
			delete(c, "image")
		}
	}
	return out
}
