package kinds

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// requestsInLimits requires that no request of resources exceeds its limit.
func requestsInLimits(s scope) {
	for _, name := range obj.Keys(obj.Map(s.o, "requests")) {
		request, limit := obj.Get(s.o, "requests", name), obj.Get(s.o, "limits", name)
		if c, ok := compare(request, limit); ok && limit != nil && c > 0 {
			s.invalid(s.at+".requests", request,
				fmt.Sprintf("must be less than or equal to %s limit of %v", name, limit))
		}
	}
}

// selectsTemplate requires that a selector selects the pods of the template of the same spec.
func selectsTemplate(s scope, sel Object) {
	labels := obj.Map(s.o, "template", "metadata", "labels")
	parsed, err := obj.ParseLabels(FormatSelector(sel))
	if err != nil {
		s.invalid("spec.selector", sel, "invalid label selector")
	} else if sel == nil || !parsed.Matches(obj.Strings(labels)) {
		s.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
	}
}

// addTolerations gives a pod the tolerations that the default admission plugins add.
func addTolerations(s scope) {
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		if !tolerates(s.o, key) {
			s.o["tolerations"] = append(obj.Slice(s.o, "tolerations"),
				Object{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)})
		}
	}
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

func tolerates(spec Object, key string) bool {
	for _, t := range obj.Maps(spec, "tolerations") {
		if k := obj.String(t, "key"); (k == key || k == "") &&
			(obj.String(t, "effect") == "" || obj.String(t, "effect") == "NoExecute") {
			return true
		}
	}
	return false
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

// tolerationsStay refuses changes of tolerations, besides new ones and other seconds.
func tolerationsStay(s scope) {
	for _, was := range obj.Maps(s.old, "tolerations") {
		if !slices.ContainsFunc(obj.Maps(s.o, "tolerations"),
			func(is Object) bool { return obj.EqualExcept(was, is, "tolerationSeconds") }) {
			s.add(obj.Forbidden("spec.tolerations",
				"existing toleration can not be modified except its tolerationSeconds"))
		}
	}
}
