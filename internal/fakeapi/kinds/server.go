package kinds

import (
	"cmp"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
)

// server are the kinds by which a real server is extended and throttled. This one stores those that only describe
// (APIServices, flow schemas), and refuses those that would have to be evaluated with each write.
func server() []*Kind {
	in := func(group, plural, kind string) kube.Resource {
		return clusterScoped(kube.Resource{Group: group + ".k8s.io", Version: "v1", Plural: plural, Kind: kind})
	}
	flow := func(plural, kind string) kube.Resource { return in("flowcontrol.apiserver", plural, kind) }
	out := []*Kind{
		{Resource: in("apiregistration", "apiservices", "APIService"), Categories: []string{"api-extensions"},
			Status: true, NewStatus: constant(Object{}), NeedsVersion: true,
			Refused:  "aggregated API servers",
			Validate: required("spec.group", "spec.version"),
			Columns: []Column{text("Service", func(o Object) any {
				s := obj.Map(o, "spec", "service")
				if s == nil {
					return "Local"
				}
				return obj.String(s, "namespace") + "/" + obj.String(s, "name")
			}), text("Available", func(o Object) any {
				for _, c := range obj.Maps(o, "status", "conditions") {
					if c["type"] == "Available" {
						return obj.String(c, "status")
					}
				}
				return "Unknown"
			}), ageColumn}},
		{Resource: flow("flowschemas", "FlowSchema"), Status: true, NewStatus: constant(Object{}),
			Generation: specChanged, Defaults: func(o Object) {
				if n, _ := obj.Int(o, "spec", "matchingPrecedence"); n == 0 {
					obj.Set(o, int64(1000), "spec", "matchingPrecedence")
				}
			}, Validate: func(next, _ Object) []Cause {
				if obj.String(next, "spec", "priorityLevelConfiguration", "name") == "" {
					return []Cause{Required("spec.priorityLevelConfiguration.name", "must reference a priority level")}
				}
				return nil
			}, Columns: flowSchemaColumns()},
		{Resource: flow("prioritylevelconfigurations", "PriorityLevelConfiguration"), Status: true,
			NewStatus: constant(Object{}), Generation: specChanged, Defaults: levelDefaults,
			Validate: rules(required("spec.type"), oneOf("spec.type", "Exempt", "Limited")), Columns: levelColumns()},
	}
	for _, prefix := range []string{"Mutating", "Validating"} {
		out = append(out, &Kind{Resource: in("admissionregistration", strings.ToLower(prefix)+"webhookconfigurations",
			prefix+"WebhookConfiguration"), Categories: []string{"api-extensions"}, NeedsVersion: true,
			Generation: webhooksChanged, Defaults: webhookDefaults(prefix == "Mutating"), Validate: webhookRules,
			Columns: []Column{length("Webhooks", "webhooks"), ageColumn}})
	}
	policies := func(list, name string) []Column {
		return []Column{length(name, name+" indicates the number of rules of this configuration", "spec", list),
			text("ParamKind", paramKind), ageColumn}
	}
	bindings := []Column{text("PolicyName", field("spec", "policyName")), text("ParamRef", paramRef), ageColumn}
	for _, k := range []struct {
		plural, kind, refused string
		status                bool
		columns               []Column
	}{
		{"mutatingadmissionpolicies", "MutatingAdmissionPolicy", "admission policies", false,
			policies("mutations", "Mutations")},
		{"mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "admission policies", false, bindings},
		{"validatingadmissionpolicies", "ValidatingAdmissionPolicy", "admission policies", true,
			policies("validations", "Validations")},
		{"validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "admission policies", false,
			bindings},
	} {
		out = append(out, &Kind{Resource: in("admissionregistration", k.plural, k.kind), Status: k.status,
			Categories: []string{"api-extensions"}, NeedsVersion: true, Refused: k.refused, Columns: k.columns})
	}
	return out
}

func flowSchemaColumns() []Column {
	return []Column{text("PriorityLevel", field("spec", "priorityLevelConfiguration", "name")),
		text("MatchingPrecedence", number("spec", "matchingPrecedence")),
		text("DistinguisherMethod", orNone("<none>", "spec", "distinguisherMethod", "type")), ageColumn,
		text("MissingPL", func(o Object) any {
			for _, c := range obj.Maps(o, "status", "conditions") {
				if c["type"] == "Dangling" {
					return obj.String(c, "status")
				}
			}
			return "?"
		})}
}

func levelDefaults(o Object) {
	for kind, shares := range map[string]int64{"limited": 30, "exempt": 0} {
		if level := obj.Map(o, "spec", kind); level != nil {
			obj.Default(level, shares, "nominalConcurrencyShares")
			obj.Default(level, int64(0), "lendablePercent")
		}
	}
	for name, v := range map[string]int64{"handSize": 8, "queues": 64, "queueLengthLimit": 50} {
		if q := obj.Map(o, "spec", "limited", "limitResponse", "queuing"); q != nil {
			if n, _ := obj.Int(q, name); n == 0 {
				q[name] = v
			}
		}
	}
}

func levelColumns() []Column {
	or := func(name string, path ...string) Column {
		return text(name, func(o Object) any {
			if n, ok := obj.Int(o, path...); ok {
				return n
			}
			return "<none>"
		})
	}
	queuing := []string{"spec", "limited", "limitResponse", "queuing"}
	in := func(name string) []string { return append(queuing[:len(queuing):len(queuing)], name) }
	return []Column{text("Type", field("spec", "type")),
		or("NominalConcurrencyShares", "spec", "limited", "nominalConcurrencyShares"),
		or("Queues", in("queues")...),
		or("HandSize", in("handSize")...),
		or("QueueLengthLimit", in("queueLengthLimit")...), ageColumn}
}

func paramKind(o Object) any {
	p := obj.Map(o, "spec", "paramKind")
	if p == nil {
		return "<unset>"
	}
	return obj.String(p, "apiVersion") + "/" + obj.String(p, "kind")
}

func paramRef(o Object) any {
	name := obj.String(o, "spec", "paramRef", "name")
	if name == "" {
		return "<unset>"
	}
	return cmp.Or(obj.String(o, "spec", "paramRef", "namespace"), "*") + "/" + name
}
