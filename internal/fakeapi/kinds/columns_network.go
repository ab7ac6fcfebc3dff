package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/fakeapi/obj"
)

// The columns of networking.k8s.io, policy and PersistentVolumeClaims.
var (
	ingressColumns = []Column{text("Class", orNone("<none>", "spec", "ingressClassName")),
		text("Hosts", ingressHosts), text("Address", ingressAddress), text("Ports", func(o Object) any {
			if len(obj.Slice(o, "spec", "tls")) > 0 {
				return "80, 443"
			}
			return "80"
		}), ageColumn}
	ingressClassColumns = []Column{text("Controller", field("spec", "controller")), text("Parameters",
		classParameters), ageColumn}
	policyColumns = []Column{text("Pod-Selector", func(o Object) any {
		return cmp.Or(FormatSelector(obj.Map(o, "spec", "podSelector")), "<none>")
	}), ageColumn}
	budgetColumns = []Column{text("Min Available", orNA("spec", "minAvailable")),
		text("Max Unavailable", orNA("spec", "maxUnavailable")), integer("Allowed Disruptions",
			"status", "disruptionsAllowed"),
		ageColumn}
	claimColumns = []Column{text("Status", claimStatus), text("Volume", field("spec", "volumeName")),
		text("Capacity", ifBound("status", "capacity", "storage")), text("Access Modes", claimModes),
		text("StorageClass", field("spec", "storageClassName")), text("VolumeAttributesClass",
			orNone("<unset>", "spec", "volumeAttributesClassName")),
		ageColumn,
		wide(text("VolumeMode", orNone("<unset>", "spec", "volumeMode")))}
)

func ingressHosts(o Object) any {
	var hosts []string
	for _, r := range obj.Maps(o, "spec", "rules") {
		if host := obj.String(r, "host"); host != "" {
			hosts = append(hosts, host)
		}
	}
	if more := len(hosts) - 3; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(hosts[:3], ","), more)
	}
	return cmp.Or(strings.Join(hosts, ","), "*")
}

func ingressAddress(o Object) any { return strings.Join(balancers(o), ",") }

func classParameters(o Object) any {
	p := obj.Map(o, "spec", "parameters")
	if p == nil {
		return "<none>"
	}
	kind := obj.String(p, "kind")
	if group := obj.String(p, "apiGroup"); group != "" {
		kind += "." + group
	}
	return kind + "/" + obj.String(p, "name")
}

// orNA formats a number or a percentage.
func orNA(path ...string) func(Object) any {
	return func(o Object) any {
		if v := obj.Get(o, path...); v != nil {
			return fmt.Sprint(v)
		}
		return "N/A"
	}
}

func claimStatus(o Object) any {
	if obj.String(o, "metadata", "deletionTimestamp") != "" {
		return "Terminating"
	}
	return obj.String(o, "status", "phase")
}

// ifBound returns a field of a claim that is bound to a volume.
func ifBound(path ...string) func(Object) any {
	return func(o Object) any {
		if obj.String(o, "spec", "volumeName") == "" {
			return ""
		}
		return obj.String(o, path...)
	}
}

// claimModes returns the access modes of a bound claim in their short form.
func claimModes(o Object) any {
	if obj.String(o, "spec", "volumeName") == "" {
		return ""
	}
	return shortModes(obj.Slice(o, "status", "accessModes"))
}

func shortModes(modes []any) string {
	var out []string
	for _, m := range []struct{ mode, short string }{{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"},
		{"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}} {
		if slices.Contains(modes, any(m.mode)) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}
