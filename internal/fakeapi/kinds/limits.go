package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// limits are the kinds that bound what pods take: quotas, ranges, priorities and runtimes.
func limits() []*Kind {
	return []*Kind{
		{Resource: v1("limitranges", "LimitRange"), ShortNames: []string{"limits"}, CreateOnUpdate: true,
			Defaults: limitRangeDefaults, Validate: limitRangeRules, Columns: createdAtOnly},
		{Resource: v1("resourcequotas", "ResourceQuota"), ShortNames: []string{"quota"}, Status: true,
			NewStatus: constant(Object{}), DeleteReturns: true, Validate: quotaRules, Columns: quotaColumns()},
		{Resource: clusterScoped(kube.Resource{Group: "scheduling.k8s.io", Version: "v1", Plural: "priorityclasses",
			Kind: "PriorityClass"}), ShortNames: []string{"pc"},
			Generation: func(Object, Object) bool { return false },
			Defaults:   func(o Object) { obj.Default(o, "PreemptLowerPriority", "preemptionPolicy") },
			Validate:   rules(priorityRules, immutable("preemptionPolicy")),
			Columns: []Column{integer("Value", "value"), boolean("Global-Default", false, "globalDefault"),
				ageColumn, text("PreemptionPolicy", field("preemptionPolicy"))}},
		{Resource: clusterScoped(kube.Resource{Group: "node.k8s.io", Version: "v1", Plural: "runtimeclasses",
			Kind: "RuntimeClass"}), CreateOnUpdate: true, NeedsVersion: true,
			Validate: rules(required("handler"), handlerRules, immutable("handler")),
			Columns:  []Column{text("Handler", field("handler")), ageColumn}},
	}
}

// limitRangeDefaults gives containers the maximum as default limit, and the limit, then the minimum, as default
// request.
func limitRangeDefaults(o Object) {
	for _, limit := range obj.Maps(o, "spec", "limits") {
		if obj.String(limit, "type") != "Container" {
			continue
		}
		for _, from := range [][2]string{{"max", "default"}, {"default", "defaultRequest"},
			{"min", "defaultRequest"}} {
			for name, v := range obj.Map(limit, from[0]) {
				obj.Default(limit, v, from[1], name)
			}
		}
	}
}

func limitRangeRules(next, _ Object) []Cause {
	var out []Cause
	seen := map[string]bool{}
	for i, limit := range obj.Maps(next, "spec", "limits") {
		at, kind := fmt.Sprintf("spec.limits[%d]", i), obj.String(limit, "type")
		if seen[kind] {
			out = append(out, Duplicate(at+".type", kind))
		}
		seen[kind] = true
		for _, f := range []string{"default", "defaultRequest"} {
			if kind == "Pod" && len(obj.Map(limit, f)) > 0 {
				out = append(out, Forbidden(at+"."+f, "may not be specified when `type` is 'Pod'"))
			}
		}
		out = append(out, limitOrder(limit, at)...)
	}
	return out
}

// limitOrder requires that the minimum, the defaults and the maximum of each resource are in that order.
func limitOrder(limit Object, at string) []Cause {
	names := Object{}
	for _, f := range []string{"min", "max", "default", "defaultRequest"} {
		maps.Copy(names, obj.Map(limit, f))
	}
	var out []Cause
	for _, name := range sortedKeys(names) {
		for _, r := range []struct{ low, high, lowText, highText, field, value string }{
			{"min", "max", "min", "max", "min", "min"},
			{"min", "defaultRequest", "min", "default request", "defaultRequest", "defaultRequest"},
			{"defaultRequest", "max", "default request", "max", "defaultRequest", "defaultRequest"},
			{"defaultRequest", "default", "default request", "default limit", "defaultRequest", "defaultRequest"},
			{"min", "default", "min", "default", "default", "min"},
			{"default", "max", "default", "max", "default", "max"},
		} {
			low, high := obj.Get(limit, r.low, name), obj.Get(limit, r.high, name)
			if c, ok := compareQuantities(low, high); ok && c > 0 {
				out = append(out, Invalid(at+"."+r.field+"["+name+"]", obj.Get(limit, r.value, name),
					fmt.Sprintf("%s value %v is greater than %s value %v", r.lowText, low, r.highText, high)))
			}
		}
	}
	return out
}

func quotaRules(next, _ Object) []Cause {
	var out []Cause
	hard := obj.Map(next, "spec", "hard")
	for _, name := range sortedKeys(hard) {
		if c, ok := compareQuantities(hard[name], "0"); ok && c < 0 {
			out = append(out, Invalid("spec.hard["+name+"]", hard[name], "must be greater than or equal to 0"))
		}
	}
	return out
}

func quotaColumns() []Column {
	// shown lists the resources whose names start with limits, or those whose do not.
	shown := func(limits bool) func(Object) any {
		return func(o Object) any {
			var out []string
			for _, name := range sortedKeys(obj.Map(o, "status", "hard")) {
				if strings.HasPrefix(name, "limits.") != limits {
					continue
				}
				used := obj.Get(o, "status", "used", name)
				if used == nil {
					used = "0"
				}
				out = append(out, fmt.Sprintf("%s: %v/%v", name, used, obj.Get(o, "status", "hard", name)))
			}
			return strings.Join(out, ", ")
		}
	}
	return []Column{text("Request", shown(false)), text("Limit", shown(true)), ageColumn}
}

// systemPriorities are the only priority classes whose names may start with system-.
var systemPriorities = map[string]int64{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}

// maxPriority is the highest value of other priority classes.
const maxPriority = 1000000000

func priorityRules(next, cur Object) []Cause {
	var out []Cause
	name := obj.String(next, "metadata", "name")
	value, _ := obj.Int(next, "value")
	switch known, ok := systemPriorities[name]; {
	case strings.HasPrefix(name, "system-") && (!ok || known != value):
		why := name + " is not a known system priority class"
		if ok {
			why = fmt.Sprintf("value of %s PriorityClass must be %d", name, known)
		}
		out = append(out, Forbidden("metadata.name",
			"priority class names with 'system-' prefix are reserved for system use only. error: "+why))
	case !ok && value > maxPriority:
		out = append(out, Forbidden("value", fmt.Sprintf("maximum allowed value of a user defined priority is %d",
			maxPriority)))
	}
	if p, known := obj.String(next, "preemptionPolicy"), []string{"PreemptLowerPriority", "Never"}; p != "" &&
		!slices.Contains(known, p) {
		out = append(out, NotSupported("preemptionPolicy", p, known...))
	}
	if old, _ := obj.Int(cur, "value"); cur != nil && old != value {
		out = append(out, Forbidden("value", "may not be changed in an update."))
	}
	return out
}

func handlerRules(next, _ Object) []Cause {
	handler := obj.String(next, "handler")
	if handler == "" {
		return nil
	}
	if why := selector.Label(handler); why != "" {
		return []Cause{Invalid("handler", handler, why)}
	}
	return nil
}

// legacy are the workloads of the core group that Deployments have replaced.
func legacy() []*Kind {
	return []*Kind{
		{Resource: v1("podtemplates", "PodTemplate"), DeleteReturns: true,
			Generation: func(next, cur Object) bool { return !patch.Equal(next["template"], cur["template"]) },
			Defaults:   func(o Object) { obj.Default(o, Object{}, "template"); podTemplateDefaults(o) },
			Validate: func(next, _ Object) []Cause {
				return podSpecRules(obj.Map(next, "template", "spec"), "template.spec")
			},
			Columns: []Column{text("Containers", joined("name", "template", "spec", "containers")), text("Images",
				joined("image", "template", "spec", "containers")),
				text("Pod Labels", func(o Object) any {
					return pairs(obj.Strings(o, "template", "metadata", "labels"))
				})}},
		{Resource: v1("replicationcontrollers", "ReplicationController"), ShortNames: []string{"rc"},
			Categories: []string{"all"}, Status: true, NewStatus: constant(Object{"replicas": int64(0)}),
			Scale: &Scale{Spec: []string{"spec", "replicas"}, Status: []string{"status", "replicas"},
				Selector: []string{"spec", "selector"}, Plain: true},
			Generation: specChanged, Defaults: controllerDefaults, Validate: controllerRules,
			Fields: map[string]func(Object) string{"status.replicas": numberAt("status", "replicas")},
			Columns: []Column{integer("Desired", "spec", "replicas"), integer("Current", "status", "replicas"),
				integer("Ready", "status", "readyReplicas"), ageColumn, containerNames, containerImages,
				wide(text("Selector", func(o Object) any { return pairs(obj.Strings(o, "spec", "selector")) }))}},
	}
}

func podTemplateDefaults(o Object) { podSpecDefaults(specOf(obj.Map(o, "template"))) }

func controllerDefaults(o Object) {
	spec := specOf(o)
	obj.Default(spec, int64(1), "replicas")
	if labels := obj.Map(spec, "template", "metadata", "labels"); len(labels) > 0 {
		if len(obj.Map(spec, "selector")) == 0 {
			spec["selector"] = obj.Clone(labels)
		}
		if len(obj.Map(o, "metadata", "labels")) == 0 {
			obj.Set(o, obj.Clone(labels), "metadata", "labels")
		}
	}
	if obj.Map(spec, "template") != nil {
		podTemplateDefaults(spec)
	}
}

func controllerRules(next, _ Object) []Cause {
	var out []Cause
	spec := obj.Map(next, "spec")
	sel := obj.Strings(spec, "selector")
	if len(sel) == 0 {
		out = append(out, Required("spec.selector", ""))
	}
	if n, _ := obj.Int(spec, "replicas"); n < 0 {
		out = append(out, Invalid("spec.replicas", n, "must be greater than or equal to 0"))
	}
	template := obj.Map(spec, "template")
	if template == nil {
		return append(out, Required("spec.template", ""))
	}
	labels := obj.Strings(template, "metadata", "labels")
	for name, v := range sel {
		if labels[name] != v {
			out = append(out, Invalid("spec.template.metadata.labels", obj.Map(template, "metadata", "labels"),
				"`selector` does not match template `labels`"))
			break
		}
	}
	out = append(out, podSpecRules(obj.Map(template, "spec"), "spec.template.spec")...)
	if p := obj.String(template, "spec", "restartPolicy"); p != "Always" {
		out = append(out, NotSupported("spec.template.spec.restartPolicy", p, "Always"))
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
