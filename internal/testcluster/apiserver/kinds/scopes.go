package kinds

import (
	"slices"
	"strings"

	"skiff/internal/testcluster/apiserver/obj"
)

var (
	// computed are the plain names of what pods ask for.
	computed = strings.Fields("cpu memory limits.cpu limits.memory requests.cpu requests.memory")
	// quotaNames are the names of resources without a domain that quotas know.
	quotaNames = append(strings.Fields("ephemeral-storage requests.storage requests.ephemeral-storage "+
		"limits.ephemeral-storage pods resourcequotas services replicationcontrollers secrets persistentvolumeclaims "+
		"configmaps services.nodeports services.loadbalancers"), computed...)
	// scopeResources are what quotas with a scope can count of the quotaNames.
	scopeResources = map[string][]string{"Terminating": append(computed, "pods"),
		"NotTerminating": append(computed, "pods"), "NotBestEffort": append(computed, "pods"),
		"PriorityClass": append(computed, "pods"), "CrossNamespacePodAffinity": append(computed, "pods"),
		"BestEffort": {"pods"}, "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"}}
	rival = [][2]string{{"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}}
)

// quotaScopes checks the scopes of a quota, and whether there are objects with them that it can count.
func quotaScopes(s scope) {
	hard, list := obj.Keys(obj.Map(s.o, "hard")), obj.Texts(s.o, "scopes")
	check := func(name, at, under string, value, all any) {
		if scopeResources[name] == nil {
			s.invalid(at, value, "unsupported scope")
			return
		}
		for _, k := range hard {
			if slices.Contains(quotaNames, k) && !slices.Contains(scopeResources[name], k) {
				s.invalid(under, all, "unsupported scope applied to resource")
			}
		}
	}
	conflicts := func(names []string, at string, all any) {
		for _, r := range rival {
			if slices.Contains(names, r[0]) && slices.Contains(names, r[1]) {
				s.invalid(at, all, "conflicting scopes")
			}
		}
	}
	for _, name := range list {
		check(name, "spec.scopes", "spec.scopes", s.o["scopes"], s.o["scopes"])
	}
	conflicts(list, "spec.scopes", s.o["scopes"])
	const at = "spec.scopeSelector.matchExpressions"
	selector, names := obj.Map(s.o, "scopeSelector"), []string{}
	for _, e := range obj.Maps(selector, "matchExpressions") {
		name, operator, values := obj.String(e, "scopeName"), obj.String(e, "operator"), obj.Slice(e, "values")
		check(name, at+".scopeName", at, name, selector)
		valued := name == "PriorityClass" || name == "VolumeAttributesClass"
		if operator != "Exists" && scopeResources[name] != nil && !valued {
			s.invalid(at+".operator", operator, "must be 'Exists' when scope is any of "+
				"ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "+
				"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "+
				"ResourceQuotaScopeCrossNamespacePodAffinity")
		}
		switch {
		case slices.Contains([]string{"In", "NotIn"}, operator) && len(values) == 0:
			s.add(obj.Required(at+".values",
				"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
		case slices.Contains([]string{"Exists", "DoesNotExist"}, operator) && len(values) > 0:
			s.invalid(at+".values", values,
				"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		case !slices.Contains([]string{"In", "NotIn", "Exists", "DoesNotExist"}, operator):
			s.invalid(at+".operator", operator, "not a valid selector operator")
		}
		names = append(names, name)
	}
	conflicts(names, at, selector)
}

// scopesStay refuses other scopes of a quota; their order means nothing.
func scopesStay(s scope) {
	is, was := obj.Texts(s.o, "scopes"), obj.Texts(s.old, "scopes")
	slices.Sort(is)
	slices.Sort(was)
	if !slices.Equal(is, was) {
		s.invalid("spec.scopes", s.o["scopes"], "field is immutable")
	}
}
