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
	configMapColumns = []Column{text("Data", "Data contains the configuration data.", count("data", "binaryData")),
		ageColumn}
	secretColumns = []Column{text("Type", "Used to facilitate programmatic handling of secret data.", field("type")),
		text("Data", "Data contains the secret data.", count("data")), ageColumn}
	namespaceColumns = []Column{text("Status", "The status of the namespace", field("status", "phase")), ageColumn}
	endpointsColumns = []Column{text("Endpoints", "The set of all endpoints is the union of all subsets.",
		endpointsCell), ageColumn}
	serviceColumns = []Column{text("Type", "type determines how the Service is exposed.", field("spec", "type")),
		text("Cluster-IP", "clusterIP is the IP address of the service.", orNone("<none>", "spec", "clusterIP")),
		text("External-IP", "externalIPs is a list of IP addresses for which nodes in the cluster will also accept "+
			"traffic for this service.", externalIP),
		text("Port(s)", "The list of ports that are exposed by this service.", portsCell), ageColumn,
		wide(text("Selector", "Route service traffic to pods with label keys and values matching this selector.",
			func(o Object) any {
				return pairs(obj.Strings(o, "spec", "selector"))
			}))}
	nodeColumns = []Column{text("Status", "The status of the node", nodeStatus),
		text("Roles", "The roles of the node", nodeRoles), ageColumn,
		text("Version", "Kubelet Version reported by the node.", field("status", "nodeInfo", "kubeletVersion")),
		wide(text("Internal-IP", "List of addresses reachable to the node.", nodeAddress("InternalIP"))),
		wide(text("External-IP", "List of addresses reachable to the node.", nodeAddress("ExternalIP"))),
		wide(text("OS-Image", "OS Image reported by the node from /etc/os-release.",
			orNone("<unknown>", "status", "nodeInfo", "osImage"))),
		wide(text("Kernel-Version", "Kernel Version reported by the node from 'uname -r'.",
			orNone("<unknown>", "status", "nodeInfo", "kernelVersion"))),
		wide(text("Container-Runtime", "ContainerRuntime Version reported by the node.",
			orNone("<unknown>", "status", "nodeInfo", "containerRuntimeVersion")))}
	podColumns = []Column{text("Ready", "The aggregate readiness state of this pod for accepting traffic.",
		func(o Object) any { return summarize(o, time.Time{}).ready }),
		text("Status", "The aggregate status of the containers in this pod.",
			func(o Object) any { return summarize(o, time.Time{}).status }),
		{Name: "Restarts", Type: "string", Description: "The number of times the containers in this pod have been " +
			"restarted and when the last container in this pod has restarted.",
			Cell: func(o Object, now time.Time) any { return summarize(o, now).restarts }},
		ageColumn,
		wide(text("IP", "podIP address allocated to the pod.", orNone("<none>", "status", "podIP"))),
		wide(text("Node", "NodeName indicates in which node this pod is scheduled.",
			orNone("<none>", "spec", "nodeName"))),
		wide(text("Nominated Node", "nominatedNodeName is set only when this pod preempts other pods on the node.",
			orNone("<none>", "status", "nominatedNodeName"))),
		wide(text("Readiness Gates", "If specified, all readiness gates will be evaluated for pod readiness.",
			readinessGates))}
	eventColumns = []Column{eventTime("Last Seen", lastSeen),
		text("Type", "Type of this event (Normal, Warning), new types could be added in the future", field("type")),
		text("Reason", "This should be a short, machine understandable string that gives the reason for the "+
			"transition into the object's current status.", field("reason")),
		text("Object", "The object that this event is about.", func(o Object) any {
			ref := obj.Map(o, "involvedObject")
			if name := obj.String(ref, "name"); name != "" {
				return strings.ToLower(obj.String(ref, "kind")) + "/" + name
			}
			return strings.ToLower(obj.String(ref, "kind"))
		}),
		wide(text("Subobject", "If referring to a piece of an object instead of an entire object, this is the piece.",
			field("involvedObject", "fieldPath"))),
		wide(text("Source", "The component reporting this event.", eventSource)),
		text("Message", "A human-readable description of the status of this operation.",
			func(o Object) any { return strings.TrimSpace(obj.String(o, "message")) }),
		wide(eventTime("First Seen", firstSeen)),
		wide(text("Count", "The number of times this event has occurred.", func(o Object) any {
			n, _ := obj.Int(o, "count")
			m, _ := obj.Int(o, "series", "count")
			return cmp.Or(m, n, 1)
		})),
		wide(text("Name", "Name must be unique within a namespace.", field("metadata", "name")))}
)

func eventTime(name string, when func(Object) string) Column {
	return Column{Name: name, Type: "string", Description: "The time of the event.",
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
