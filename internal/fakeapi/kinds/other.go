package kinds

import (
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/kube"
)

func rbacV1(plural, kind string) kube.Resource {
	return kube.Resource{Group: rbacGroup, Version: "v1", Plural: plural, Kind: kind}
}

const rbacGroup = "rbac.authorization.k8s.io"

func rbac() []*Kind {
	binding := func(r kube.Resource) *Kind {
		return &Kind{Resource: r, Name: selector.PathSegment, CreateOnUpdate: true, Defaults: bindingDefaults,
			Validate: bindingRules, Columns: bindingColumns}
	}
	role := func(r kube.Resource) *Kind {
		policies := checked(must("rules[]", policyTest(!r.ClusterScoped)))
		return &Kind{Resource: r, Name: selector.PathSegment, CreateOnUpdate: true, Defaults: func(o Object) {
			if o["rules"] == nil {
				o["rules"] = nil // the Go type encodes missing rules as null
			}
		}, Validate: policies, Columns: createdAtOnly}
	}
	return []*Kind{
		binding(clusterScoped(rbacV1("clusterrolebindings", "ClusterRoleBinding"))),
		role(clusterScoped(rbacV1("clusterroles", "ClusterRole"))),
		binding(rbacV1("rolebindings", "RoleBinding")),
		role(rbacV1("roles", "Role")),
	}
}

// policyTest validates a rule of a role; namespaced ones cannot name URLs.
func policyTest(namespaced bool) test {
	return func(at string, v any) []Cause {
		p, _ := v.(Object)
		out := runChecks(p, at, []check{must("verbs", present("verbs must contain at least one value"))})
		urls := obj.Slice(p, "nonResourceURLs")
		if len(urls) == 0 {
			return append(out, runChecks(p, at, []check{
				must("apiGroups", present("resource rules must supply at least one api group")),
				must("resources", present("resource rules must supply at least one resource"))})...)
		}
		if namespaced {
			out = append(out, Invalid(at+".nonResourceURLs", urls,
				"namespaced rules cannot apply to non-resource URLs"))
		}
		if len(obj.Slice(p, "apiGroups"))+len(obj.Slice(p, "resources"))+len(obj.Slice(p, "resourceNames")) > 0 {
			out = append(out, Invalid(at+".nonResourceURLs", urls,
				"rules cannot apply to both regular resources and non-resource URLs"))
		}
		return out
	}
}

func bindingDefaults(o Object) {
	obj.Default(o, rbacGroup, "roleRef", "apiGroup")
	for _, s := range obj.Maps(o, "subjects") {
		if kind := obj.String(s, "kind"); kind == "User" || kind == "Group" {
			obj.Default(s, rbacGroup, "apiGroup")
		}
	}
}

func bindingRules(next, cur Object) []Cause {
	out := runChecks(next, "", []check{must("roleRef.apiGroup", among(rbacGroup)),
		must("subjects[].name", present("")), must("subjects[].kind", among("ServiceAccount", "User", "Group"))})
	kind := obj.String(next, "roleRef", "kind")
	if kind != "Role" && kind != "ClusterRole" {
		out = append(out, NotSupported("roleRef.kind", kind, "Role", "ClusterRole"))
	}
	if obj.String(next, "roleRef", "name") == "" {
		out = append(out, Required("roleRef.name", ""))
	}
	if cur != nil && !obj.EqualExcept(obj.Map(next, "roleRef"), obj.Map(cur, "roleRef")) {
		out = append(out, Invalid("roleRef", obj.Map(next, "roleRef"), "cannot change roleRef"))
	}
	return out
}

func other() []*Kind {
	return []*Kind{
		{Resource: kube.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"},
			CreateOnUpdate: true, NeedsVersion: true, Columns: leaseColumns, Prepare: prepareLease, Validate: checked(
				must("spec.leaseDurationSeconds", positive), must("spec.leaseTransitions", notNegative))},
		{Resource: kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"},
			Table: "events", ShortNames: []string{"ev"},
			CreateOnUpdate: true, Fields: newEventFields(), Prepare: prepareEvent, Validate: newEventRules,
			Columns: eventColumns, StoredAs: "v1", View: newEvent, Store: oldEvent},
		{Resource: CRDs, ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Status: true,
			NewStatus: newCRDStatus, NeedsVersion: true, Generation: specChanged, Defaults: crdDefaults,
			Validate: crdRules, Columns: createdAtOnly},
	}
}

// prepareLease drops the fields of coordinated leader election, a feature that is off by default.
func prepareLease(next, _ Object) {
	obj.Remove(next, "spec", "strategy")
	obj.Remove(next, "spec", "preferredHolder")
}

// CRDs is the resource of custom resource definitions.
var CRDs = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

// eventNames has the name of each field in v1 and in events.k8s.io/v1.
var eventNames = [][2]string{{"involvedObject", "regarding"}, {"message", "note"}, {"source", "deprecatedSource"},
	{"firstTimestamp", "deprecatedFirstTimestamp"}, {"lastTimestamp", "deprecatedLastTimestamp"},
	{"count", "deprecatedCount"},
	{"reportingComponent", "reportingController"}}

// newEvent converts a stored Event (v1) to events.k8s.io/v1.
func newEvent(o Object) Object {
	out := obj.Shallow(o)
	for _, n := range eventNames {
		if v, ok := out[n[0]]; ok {
			delete(out, n[0])
			out[n[1]] = v
		}
	}
	for _, f := range []string{"reportingController", "reportingInstance"} {
		if out[f] == "" {
			delete(out, f)
		}
	}
	return out
}

// newEventFields are the selectable fields of events.k8s.io/v1.
func newEventFields() map[string]func(Object) string {
	out := map[string]func(Object) string{}
	for name, get := range eventFields {
		first, rest, _ := strings.Cut(name, ".")
		for _, n := range eventNames {
			if n[0] == first && first != "source" {
				first = n[1]
			}
		}
		out[strings.TrimSuffix(first+"."+rest, ".")] = get
	}
	return out
}

// newEventRules is stricter for new Events than v1's rules.
func newEventRules(next, cur Object) []Cause {
	out := eventRules(next, cur)
	if cur != nil {
		return out
	}
	if next["eventTime"] == nil {
		out = append(out, Required("eventTime", ""))
	}
	if t := obj.String(next, "type"); t != "Normal" && t != "Warning" {
		out = append(out, Invalid("type", t, "has invalid value: "+t))
	}
	return out
}

func oldEvent(o Object) Object {
	for _, n := range eventNames {
		if v, ok := o[n[1]]; ok {
			delete(o, n[1])
			o[n[0]] = v
		}
	}
	return o
}

func newCRDStatus(o Object) any {
	var stored []any
	for _, v := range obj.Maps(o, "spec", "versions") {
		if obj.Bool(v, "storage") {
			stored = append(stored, obj.String(v, "name"))
		}
	}
	return Object{"conditions": nil, "acceptedNames": Object{"plural": "", "kind": ""}, "storedVersions": stored}
}
