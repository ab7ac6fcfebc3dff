package kinds

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/fakeapi/cause"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/patch"
)

// requestsInLimits requires that no request of resources exceeds its limit.
func requestsInLimits(s scope) []Cause {
	var out []Cause
	for _, name := range obj.Keys(obj.Map(s.o, "requests")) {
		request, limit := obj.Get(s.o, "requests", name), obj.Get(s.o, "limits", name)
		if c, ok := compareQuantities(request, limit); ok && c > 0 {
			out = append(out, cause.Invalid(s.at+".requests", request,
				fmt.Sprintf("must be less than or equal to %s limit of %v", name, limit)))
		}
	}
	return out
}

// compareQuantities is Cmp for two encoded quantities; ok is false unless both are.
func compareQuantities(a, b any) (c int, ok bool) {
	x, isText := a.(string)
	y, isText2 := b.(string)
	if !isText || !isText2 {
		return 0, false
	}
	p, err := patch.ParseQuantity(x)
	q, err2 := patch.ParseQuantity(y)
	if err != nil || err2 != nil {
		return 0, false
	}
	return p.Cmp(q), true
}

// selectsTemplate requires that a selector selects the pods of the template of the same spec.
func selectsTemplate(sel, spec Object) []Cause {
	labels := obj.Map(spec, "template", "metadata", "labels")
	parsed, err := selector.ParseLabels(FormatSelector(sel))
	switch {
	case err != nil:
		return []Cause{cause.Invalid("spec.selector", sel, "invalid label selector")}
	case sel == nil || !parsed.Matches(obj.Strings(labels)):
		return []Cause{cause.Invalid("spec.template.metadata.labels", labels,
			"`selector` does not match template `labels`")}
	}
	return nil
}

// jobTemplateChange refuses a change of a Job's template. Before it starts, its labels, scheduling and resources may
// still change: queues for Jobs rely on it.
func jobTemplateChange(s scope) []Cause {
	if s.stored == nil {
		return nil
	}
	at, next := "spec.template", obj.Map(s.o, "spec", "template")
	old := obj.Clone(obj.Map(s.stored, "spec", "template"))
	if obj.Bool(s.stored, "spec", "suspend") && obj.Get(s.stored, "status", "startTime") == nil {
		next, old, at = obj.Map(next, "spec"), obj.Map(old, "spec"), "spec.template.spec"
		mutable := func(next, old Object, names ...string) {
			for _, f := range names {
				if delete(old, f); next[f] != nil {
					old[f] = next[f]
				}
			}
		}
		mutable(next, old, "affinity", "nodeSelector", "schedulingGates", "tolerations")
		for _, list := range []string{"initContainers", "containers"} {
			for i, c := range obj.Maps(next, list) {
				if was := obj.Maps(old, list); i < len(was) {
					mutable(c, was[i], "resources")
				}
			}
		}
	}
	if patch.Equal(next, old) {
		return nil
	}
	return []Cause{cause.Invalid(at, next, "field is immutable")}
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

// podChangeRules allows only the few changes of a pod's spec that the real server allows. A binding sets the node.
func podChangeRules(s scope) []Cause {
	next, cur := obj.Map(s.root, "spec"), obj.Map(s.stored, "spec")
	if s.stored == nil || patch.Equal(next, cur) {
		return nil
	}
	for _, list := range []string{"containers", "initContainers"} {
		if len(obj.Slice(next, list)) != len(obj.Slice(cur, list)) {
			return []Cause{cause.Forbidden("spec."+list, "pod updates may not add or remove containers")}
		}
	}
	var out []Cause
	is, set := obj.Int(next, "activeDeadlineSeconds")
	switch was, before := obj.Int(cur, "activeDeadlineSeconds"); {
	case before && !set:
		out = append(out, cause.Invalid("spec.activeDeadlineSeconds", nil,
			"must not update from a positive integer to nil value"))
	case before && is > was:
		out = append(out, cause.Invalid("spec.activeDeadlineSeconds", is,
			"must be less than or equal to previous value"))
	}
	for _, was := range obj.Maps(cur, "tolerations") {
		if !slices.ContainsFunc(obj.Maps(next, "tolerations"),
			func(is Object) bool { return obj.EqualExcept(was, is, "tolerationSeconds") }) {
			out = append(out, cause.Forbidden("spec.tolerations",
				"existing toleration can not be modified except its tolerationSeconds"))
		}
	}
	if !patch.Equal(frozenSpec(next), frozenSpec(cur)) {
		out = append(out, cause.Forbidden("spec", "pod updates may not change fields other than "+
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
