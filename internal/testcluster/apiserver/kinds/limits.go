package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// limitDefaults gives a limit of containers the maximum as default limit, and the limit, then the minimum, as default
// request.
func limitDefaults(s scope) {
	for _, from := range [][2]string{{"max", "default"}, {"default", "defaultRequest"}, {"min", "defaultRequest"}} {
		for name, v := range obj.Map(s.o, from[0]) {
			obj.Default(s.o, v, from[1], name)
		}
	}
}

// limitOrder requires that the minimum, the defaults and the maximum of each resource are in that order.
func limitOrder(s scope) {
	limit := s.o
	names := Object{}
	for _, f := range []string{"min", "max", "default", "defaultRequest"} {
		maps.Copy(names, obj.Map(limit, f))
	}
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
			if c, ok := compare(low, high); ok && high != nil && c > 0 {
				s.invalid(s.at+"."+r.field+"["+name+"]", obj.Get(limit, r.value, name),
					fmt.Sprintf("%s value %v is greater than %s value %v", r.lowText, low, r.highText, high))
			}
		}
	}
}

// FillLimits gives the containers of a new pod the defaults of a LimitRange, and writes the annotation that says so.
func FillLimits(limitRange, pod Object) {
	var set []string
	for _, list := range [][2]string{{"containers", "container"}, {"initContainers", "init container"}} {
		for _, c := range obj.Maps(pod, "spec", list[0]) {
			for _, f := range [][3]string{{"defaultRequest", "requests", "request"}, {"default", "limits", "limit"}} {
				var names []string
				for _, limit := range obj.Maps(limitRange, "spec", "limits") {
					for name, v := range obj.Map(limit, f[0]) {
						if limit["type"] == "Container" && obj.Get(c, "resources", f[1], name) == nil {
							obj.Set(c, v, "resources", f[1], name)
							names = append(names, name)
						}
					}
				}
				if slices.Sort(names); len(names) > 0 {
					set = append(set,
						fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), f[2], list[1], c["name"]))
				}
			}
		}
	}
	if len(set) > 0 {
		obj.Set(pod, "LimitRanger plugin set: "+strings.Join(set, "; "), "metadata", "annotations",
			"kubernetes.io/limit-ranger")
	}
}

// OutOfLimits says in which ways a pod or a claim is not within a LimitRange, "" for none.
func OutOfLimits(limitRange Object, r kube.Resource, o Object) string {
	var out []string
	for _, limit := range obj.Maps(limitRange, "spec", "limits") {
		kind, held := obj.String(limit, "type"), [][2]Usage(nil) // requests and limits
		switch {
		case kind == "PersistentVolumeClaim" && r.Plural == "persistentvolumeclaims":
			held = append(held, [2]Usage{usageOf(o, "spec", "resources", "requests")})
		case kind == "Pod" && r.Plural == "pods":
			held = append(held, [2]Usage{podTotal(o, "requests"), podTotal(o, "limits")})
		case kind == "Container" && r.Plural == "pods":
			for _, c := range slices.Concat(obj.Maps(o, "spec", "containers"), obj.Maps(o, "spec", "initContainers")) {
				held = append(held, [2]Usage{usageOf(c, "resources", "requests"), usageOf(c, "resources", "limits")})
			}
		}
		for _, has := range held {
			for _, f := range []string{"min", "max", "maxLimitRequestRatio"} {
				for _, name := range obj.Keys(obj.Map(limit, f)) {
					if text := outOfLimit(f, kind, name, usageOf(limit, f)[name], has[0], has[1]); text != "" {
						out = append(out, text)
					}
				}
			}
		}
	}
	return obj.Aggregate(out)
}

// outOfLimit compares a resource with one limit, in the words of the admission plugin LimitRanger.
func outOfLimit(f, kind, name string, enforced patch.Quantity, requests, limits Usage) string {
	const milli = 1000
	req, requested := requests[name]
	lim, limited := limits[name]
	claim := kind == "PersistentVolumeClaim"
	if f == "maxLimitRequestRatio" {
		head := fmt.Sprintf("%s max limit to request ratio per %s is %s, but ", name, kind, enforced)
		ratio := float64(lim.Times(milli)) / float64(req.Times(milli))
		switch {
		case claim:
		case req.Times(milli) == 0:
			return head + "no request is specified or request is 0"
		case lim.Times(milli) == 0:
			return head + "no limit is specified or limit is 0"
		case ratio*milli > float64(enforced.Times(milli)):
			return head + fmt.Sprintf("provided ratio is %f", ratio)
		}
		return ""
	}
	head := fmt.Sprintf("%simum %s usage per %s is %s", f, name, kind, enforced)
	switch minimum := f == "min"; {
	case (minimum || claim) && !requested:
		return head + ".  No request is specified"
	case !minimum && !claim && !limited:
		return head + ".  No limit is specified"
	case !minimum && limited && lim.Cmp(enforced) > 0, minimum && req.Cmp(enforced) >= 0 && limited &&
		lim.Cmp(enforced) < 0:
		return head + ", but limit is " + lim.String()
	case minimum && req.Cmp(enforced) < 0, !minimum && requested && req.Cmp(enforced) > 0:
		return head + ", but request is " + req.String()
	}
	return ""
}
