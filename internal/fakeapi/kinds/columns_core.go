package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/fakeapi/obj"
)

func count(fields ...string) func(Object) any {
	return func(o Object) any {
		n := 0
		for _, f := range fields {
			n += len(obj.Map(o, f))
		}
		return int64(n)
	}
}

var (
	configMapColumns = []Column{text("Data", count("data", "binaryData")), ageColumn}
	secretColumns    = []Column{text("Type", field("type")), text("Data", count("data")), ageColumn}
	namespaceColumns = []Column{text("Status", field("status", "phase")), ageColumn}
	endpointsColumns = []Column{text("Endpoints", endpointsCell), ageColumn}
	serviceColumns   = []Column{text("Type", field("spec", "type")),
		text("Cluster-IP", orNone("<none>", "spec", "clusterIP")), text("External-IP", externalIP),
		text("Port(s)", portsCell), ageColumn, wide(text("Selector", func(o Object) any {
			return pairs(obj.Strings(o, "spec", "selector"))
		}))}
	nodeColumns = []Column{text("Status", nodeStatus), text("Roles", nodeRoles), ageColumn,
		text("Version", field("status", "nodeInfo", "kubeletVersion")),
		wide(text("Internal-IP", nodeAddress("InternalIP"))), wide(text("External-IP", nodeAddress("ExternalIP"))),
		wide(text("OS-Image", orNone("<unknown>", "status", "nodeInfo", "osImage"))), wide(text("Kernel-Version",
			orNone("<unknown>", "status", "nodeInfo", "kernelVersion"))),
		wide(text("Container-Runtime", orNone("<unknown>", "status", "nodeInfo", "containerRuntimeVersion")))}
	podColumns = []Column{text("Ready", func(o Object) any { return summarize(o, time.Time{}).ready }),
		text("Status", func(o Object) any { return summarize(o, time.Time{}).status }),
		{Name: "Restarts", Type: "string",
			Cell: func(o Object, now time.Time) any { return summarize(o, now).restarts }},
		ageColumn,
		wide(text("IP", orNone("<none>", "status", "podIP"))), wide(text("Node",
			orNone("<none>", "spec", "nodeName"))),
		wide(text("Nominated Node", orNone("<none>", "status", "nominatedNodeName"))), wide(text("Readiness Gates",
			readinessGates))}
	eventColumns = []Column{eventTime("Last Seen", lastSeen),
		text("Type", field("type")), text("Reason", field("reason")), text("Object", func(o Object) any {
			ref := obj.Map(o, "involvedObject")
			if name := obj.String(ref, "name"); name != "" {
				return strings.ToLower(obj.String(ref, "kind")) + "/" + name
			}
			return strings.ToLower(obj.String(ref, "kind"))
		}),
		wide(text("Subobject", field("involvedObject", "fieldPath"))), wide(text("Source", eventSource)),
		text("Message", func(o Object) any { return strings.TrimSpace(obj.String(o, "message")) }),
		wide(eventTime("First Seen", firstSeen)),
		wide(text("Count", func(o Object) any {
			n, _ := obj.Int(o, "count")
			m, _ := obj.Int(o, "series", "count")
			return cmp.Or(m, n, 1)
		})),
		wide(text("Name", field("metadata", "name")))}
)

func eventTime(name string, when func(Object) string) Column {
	return Column{Name: name, Type: "string",
		Cell: func(o Object, now time.Time) any { return Since(when(o), now) }}
}

func lastSeen(o Object) string {
	return cmp.Or(obj.String(o, "series", "lastObservedTime"), obj.String(o, "lastTimestamp"), firstSeen(o))
}

func firstSeen(o Object) string {
	return cmp.Or(obj.String(o, "firstTimestamp"), obj.String(o, "eventTime"))
}

func eventSource(o Object) any {
	source := cmp.Or(obj.String(o, "source", "component"), obj.String(o, "reportingComponent"))
	if host := obj.String(o, "source", "host"); host != "" {
		source += ", " + host
	}
	return source
}

func endpointsCell(o Object) any {
	var out []string
	for _, s := range obj.Maps(o, "subsets") {
		for _, a := range obj.Maps(s, "addresses") {
			ports := obj.Maps(s, "ports")
			if len(ports) == 0 {
				out = append(out, obj.String(a, "ip"))
			}
			for _, p := range ports {
				n, _ := obj.Int(p, "port")
				out = append(out, fmt.Sprintf("%s:%d", obj.String(a, "ip"), n))
			}
		}
	}
	if more := len(out) - 3; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(out[:3], ","), more)
	}
	return cmp.Or(strings.Join(out, ","), "<none>")
}

// balancers returns the addresses of a Service's or an Ingress's load balancers.
func balancers(o Object) []string {
	var out []string
	for _, in := range obj.Maps(o, "status", "loadBalancer", "ingress") {
		out = append(out, cmp.Or(obj.String(in, "ip"), obj.String(in, "hostname")))
	}
	return out
}

func externalIP(o Object) any {
	out := balancers(o)
	for _, ip := range obj.Slice(o, "spec", "externalIPs") {
		out = append(out, fmt.Sprint(ip))
	}
	switch kind := obj.String(o, "spec", "type"); {
	case kind == "ExternalName":
		return obj.String(o, "spec", "externalName")
	case kind == "LoadBalancer" && len(out) == 0:
		return "<pending>"
	}
	return cmp.Or(strings.Join(out, ","), "<none>")
}

func portsCell(o Object) any {
	var out []string
	for _, p := range obj.Maps(o, "spec", "ports") {
		port, _ := obj.Int(p, "port")
		if node, _ := obj.Int(p, "nodePort"); node > 0 {
			out = append(out, fmt.Sprintf("%d:%d/%s", port, node, obj.String(p, "protocol")))
		} else {
			out = append(out, fmt.Sprintf("%d/%s", port, obj.String(p, "protocol")))
		}
	}
	return cmp.Or(strings.Join(out, ","), "<none>")
}

func nodeStatus(o Object) any {
	out := "Unknown"
	for _, c := range obj.Maps(o, "status", "conditions") {
		if obj.String(c, "type") == "Ready" {
			out = map[bool]string{true: "Ready", false: "NotReady"}[obj.String(c, "status") == "True"]
		}
	}
	if obj.Bool(o, "spec", "unschedulable") {
		out += ",SchedulingDisabled"
	}
	return out
}

func nodeRoles(o Object) any {
	var out []string
	for k, v := range obj.Strings(o, "metadata", "labels") {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok && role != "" {
			out = append(out, role)
		} else if k == "kubernetes.io/role" && v != "" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return cmp.Or(strings.Join(slices.Compact(out), ","), "<none>")
}

func nodeAddress(kind string) func(Object) any {
	return func(o Object) any {
		for _, a := range obj.Maps(o, "status", "addresses") {
			if obj.String(a, "type") == kind {
				return obj.String(a, "address")
			}
		}
		return "<none>"
	}
}

func readinessGates(o Object) any {
	gates := obj.Maps(o, "spec", "readinessGates")
	if len(gates) == 0 {
		return "<none>"
	}
	ok := 0
	for _, g := range gates {
		for _, c := range obj.Maps(o, "status", "conditions") {
			if obj.String(c, "type") == obj.String(g, "conditionType") && obj.String(c, "status") == "True" {
				ok++
			}
		}
	}
	return fmt.Sprintf("%d/%d", ok, len(gates))
}
