package kinds

import (
	"fmt"
	"maps"
	"strings"

	"skiff/internal/fakeapi/obj"
)

// limitRangeDefaults gives containers the maximum as default limit, and the limit, then the minimum, as default
// request.
func limitRangeDefaults(s scope) {
	for _, limit := range obj.Maps(s.o, "spec", "limits") {
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

func limitRangeRules(s scope) []Cause {
	var out []Cause
	seen := map[string]bool{}
	for i, limit := range obj.Maps(s.o, "spec", "limits") {
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
	for _, name := range obj.Keys(names) {
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

// systemPriorities are the only priority classes whose names may start with system-.
var systemPriorities = map[string]int64{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}

// maxPriority is the highest value of other priority classes.
const maxPriority = 1000000000

func priorityRules(s scope) []Cause {
	name := obj.String(s.o, "metadata", "name")
	value, _ := obj.Int(s.o, "value")
	switch known, ok := systemPriorities[name]; {
	case strings.HasPrefix(name, "system-") && (!ok || known != value):
		why := name + " is not a known system priority class"
		if ok {
			why = fmt.Sprintf("value of %s PriorityClass must be %d", name, known)
		}
		return []Cause{Forbidden("metadata.name",
			"priority class names with 'system-' prefix are reserved for system use only. error: "+why)}
	case !ok && value > maxPriority:
		return []Cause{Forbidden("value", fmt.Sprintf("maximum allowed value of a user defined priority is %d",
			maxPriority))}
	}
	return nil
}
