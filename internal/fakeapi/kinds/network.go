package kinds

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// network are the kinds of networking.k8s.io.
func network() []*Kind {
	in := func(plural, kind string) kube.Resource {
		return kube.Resource{Group: "networking.k8s.io", Version: "v1", Plural: plural, Kind: kind}
	}
	return []*Kind{
		{Resource: clusterScoped(in("ingressclasses", "IngressClass")), Generation: specChanged,
			Defaults: ingressClassDefaults, Validate: ingressClassRules, Columns: ingressClassColumns},
		{Resource: in("ingresses", "Ingress"), ShortNames: []string{"ing"}, Status: true,
			NewStatus: constant(Object{"loadBalancer": Object{}}), Generation: specChanged, Validate: ingressRules,
			Columns: ingressColumns},
		{Resource: in("networkpolicies", "NetworkPolicy"), ShortNames: []string{"netpol"}, Generation: specChanged,
			Defaults: networkPolicyDefaults, Validate: networkPolicyRules, Columns: policyColumns},
	}
}

func ingressClassDefaults(o Object) {
	if p := obj.Map(o, "spec", "parameters"); p != nil {
		obj.Default(p, "Cluster", "scope")
	}
}

func ingressClassRules(next, cur Object) []Cause {
	controller := obj.String(next, "spec", "controller")
	switch {
	case cur != nil && controller != obj.String(cur, "spec", "controller"):
		return []Cause{Invalid("spec.controller", controller, "field is immutable")}
	case controller == "" && cur == nil:
		return []Cause{Required("spec.controller", "")}
	case !strings.Contains(controller, "/"):
		return []Cause{Invalid("spec.controller", controller,
			"must be a domain-prefixed path (such as \"acme.io/foo\")")}
	}
	return nil
}

func ingressRules(next, _ Object) []Cause {
	var out []Cause
	spec := obj.Map(next, "spec")
	rules := obj.Maps(spec, "rules")
	if backend := obj.Map(spec, "defaultBackend"); backend != nil {
		out = append(out, backendRules(backend, "spec.defaultBackend")...)
	} else if len(rules) == 0 {
		out = append(out, Invalid("spec", nil, "either `defaultBackend` or `rules` must be specified"))
	}
	for i, rule := range rules {
		for j, p := range obj.Maps(rule, "http", "paths") {
			out = append(out, pathRules(p, fmt.Sprintf("spec.rules[%d].http.paths[%d]", i, j))...)
		}
	}
	return out
}

// pathRules are those of a path of an Ingress.
func pathRules(p Object, at string) []Cause {
	var out []Cause
	path, kinds := obj.String(p, "path"), []string{"Exact", "ImplementationSpecific", "Prefix"}
	switch kind := obj.String(p, "pathType"); {
	case kind == "":
		out = append(out, Required(at+".pathType", "pathType must be specified"))
	case !slices.Contains(kinds, kind):
		out = append(out, NotSupported(at+".pathType", kind, kinds...))
	case !strings.HasPrefix(path, "/") && (path != "" || kind != "ImplementationSpecific"):
		out = append(out, Invalid(at+".path", path, "must be an absolute path"))
	}
	return append(out, backendRules(obj.Map(p, "backend"), at+".backend")...)
}

func backendRules(backend Object, at string) []Cause {
	service, resource := obj.Map(backend, "service"), obj.Map(backend, "resource")
	switch {
	case service != nil && resource != nil:
		return []Cause{Invalid(at, "", "cannot set both resource and service backends")}
	case service == nil && resource == nil:
		return []Cause{Required(at, "port name or number is required")}
	case resource != nil:
		return nil
	}
	var out []Cause
	if obj.String(service, "name") == "" {
		out = append(out, Required(at+".service.name", ""))
	}
	port, numbered := obj.Int(service, "port", "number")
	switch name := obj.String(service, "port", "name"); {
	case name != "" && numbered && port != 0:
		out = append(out, Invalid(at, "", "cannot set both port name & port number"))
	case name == "" && port == 0:
		out = append(out, Required(at, "port name or number is required"))
	case name == "" && (port < 1 || port > 65535):
		out = append(out, Invalid(at+".service.port.number", port, portRange))
	}
	return out
}

func networkPolicyDefaults(o Object) {
	spec := specOf(o)
	for _, list := range []string{"ingress", "egress"} {
		for _, rule := range obj.Maps(spec, list) {
			for _, p := range obj.Maps(rule, "ports") {
				obj.Default(p, "TCP", "protocol")
			}
		}
	}
	if len(obj.Slice(spec, "policyTypes")) > 0 {
		return
	}
	types := []any{"Ingress"}
	if len(obj.Slice(spec, "egress")) > 0 {
		types = append(types, "Egress")
	}
	spec["policyTypes"] = types
}

func networkPolicyRules(next, _ Object) []Cause {
	var out []Cause
	types := obj.Slice(next, "spec", "policyTypes")
	if len(types) > 2 {
		return []Cause{Invalid("spec.policyTypes", types, "may not specify more than two policyTypes")}
	}
	for i, t := range types {
		if t != "Ingress" && t != "Egress" {
			out = append(out, NotSupported(fmt.Sprintf("spec.policyTypes[%d]", i), t, "Ingress", "Egress"))
		}
	}
	return out
}

// policies are the kinds of the group policy.
func policies() []*Kind {
	return []*Kind{{Resource: kube.Resource{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets",
		Kind: "PodDisruptionBudget"}, ShortNames: []string{"pdb"}, Name: selector.PathSegment, Status: true,
		NewStatus: constant(Object{"currentHealthy": int64(0), "desiredHealthy": int64(0),
			"disruptionsAllowed": int64(0), "expectedPods": int64(0)}),
		NeedsVersion: true, Generation: specChanged, Validate: budgetRules, Columns: budgetColumns}}
}

func budgetRules(next, _ Object) []Cause {
	spec := obj.Map(next, "spec")
	var out []Cause
	if spec["minAvailable"] != nil && spec["maxUnavailable"] != nil {
		out = append(out, Invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	for _, f := range []string{"minAvailable", "maxUnavailable"} {
		if n, ok := spec[f].(int64); ok && n < 0 {
			out = append(out, Invalid("spec."+f, n, "must be greater than or equal to 0"))
		}
		if s, ok := spec[f].(string); ok && !isPercentage(s) {
			out = append(out, Invalid("spec."+f, s, "a valid percent string must be a numeric string followed by an "+
				"ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"))
		}
	}
	return out
}

func isPercentage(s string) bool {
	digits, ok := strings.CutSuffix(s, "%")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

func claimDefaults(o Object) { obj.Default(specOf(o), "Filesystem", "volumeMode") }

func claimRules(next, cur Object) []Cause {
	var out []Cause
	spec := obj.Map(next, "spec")
	modes, known := obj.Slice(spec, "accessModes"), []string{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
		"ReadWriteOncePod"}
	if len(modes) == 0 {
		out = append(out, Required("spec.accessModes", "at least 1 access mode is required"))
	}
	for _, m := range modes {
		if s, _ := m.(string); !slices.Contains(known, s) {
			out = append(out, NotSupported("spec.accessModes", m, known...))
		}
	}
	if obj.Get(spec, "resources", "requests", "storage") == nil {
		out = append(out, Required("spec.resources[storage]", ""))
	}
	if cur == nil {
		return out
	}
	was := obj.Map(cur, "spec")
	for _, f := range []string{"accessModes", "selector", "volumeName", "storageClassName", "volumeMode", "dataSource",
		"dataSourceRef"} {
		if !patch.Equal(spec[f], was[f]) && !(f == "volumeName" && was[f] == nil) {
			return append(out, Forbidden("spec", "spec is immutable after creation except resources.requests and "+
				"volumeAttributesClassName for bound claims"))
		}
	}
	return out
}
