package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/fakeapi/obj"
)

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
	if Condition(o, "Ready") != nil {
		out = map[bool]string{true: "Ready", false: "NotReady"}[Holds(o, "Ready")]
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

func readinessGates(o Object) any {
	gates := obj.Maps(o, "spec", "readinessGates")
	if len(gates) == 0 {
		return "<none>"
	}
	ok := 0
	for _, g := range gates {
		if Holds(o, obj.String(g, "conditionType")) {
			ok++
		}
	}
	return fmt.Sprintf("%d/%d", ok, len(gates))
}

func controllerCell(o Object) any {
	for _, ref := range obj.Maps(o, "metadata", "ownerReferences") {
		if obj.Bool(ref, "controller") {
			group, _, _ := strings.Cut(obj.String(ref, "apiVersion"), "/")
			return strings.ToLower(obj.String(ref, "kind")) + "." + group + "/" + obj.String(ref, "name")
		}
	}
	return "<none>"
}

// targetsCell formats the metrics of an HPA: resource metrics as current/target, others by type.
func targetsCell(o Object) any {
	var out []string
	for i, m := range obj.Maps(o, "spec", "metrics") {
		var current Object
		if c := obj.Maps(o, "status", "currentMetrics"); i < len(c) {
			current = c[i]
		}
		if obj.String(m, "type") != "Resource" {
			out = append(out, "<unknown>/<"+strings.ToLower(obj.String(m, "type"))+">")
			continue
		}
		name := obj.String(m, "resource", "name")
		if want, ok := obj.Int(m, "resource", "target", "averageUtilization"); ok {
			have := "<unknown>"
			if n, ok := obj.Int(current, "resource", "current", "averageUtilization"); ok {
				have = fmt.Sprintf("%d%%", n)
			}
			out = append(out, fmt.Sprintf("%s: %s/%d%%", name, have, want))
			continue
		}
		have := cmp.Or(obj.String(current, "resource", "current", "averageValue"), "<unknown>")
		out = append(out, fmt.Sprintf("%s: %s/%s", name, have, obj.String(m, "resource", "target", "averageValue")))
	}
	return cmp.Or(strings.Join(out, ", "), "<none>")
}

func jobStatus(o Object) any {
	for _, kind := range []string{"Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"} {
		if Holds(o, kind) {
			return kind
		}
	}
	if obj.String(o, "metadata", "deletionTimestamp") != "" {
		return "Terminating"
	}
	return "Running"
}

func completions(o Object) any {
	have, _ := obj.Int(o, "status", "succeeded")
	if want, ok := obj.Int(o, "spec", "completions"); ok {
		return fmt.Sprintf("%d/%d", have, want)
	}
	if n, _ := obj.Int(o, "spec", "parallelism"); n > 1 {
		return fmt.Sprintf("%d/1 of %d", have, n)
	}
	return fmt.Sprintf("%d/1", have)
}

// duration returns how long a Job has run so far, or ran.
func duration(o Object, now time.Time) any {
	start, err := time.Parse(time.RFC3339, obj.String(o, "status", "startTime"))
	if err != nil {
		return ""
	}
	if end, err := time.Parse(time.RFC3339, obj.String(o, "status", "completionTime")); err == nil {
		now = end
	}
	return HumanDuration(now.Sub(start))
}

func claimState(o Object) any {
	var out []string
	deleted := obj.String(o, "metadata", "deletionTimestamp") != ""
	if deleted {
		out = append(out, "deleted")
	}
	switch {
	case obj.Get(o, "status", "allocation") != nil:
		out = append(out, "allocated")
		if len(obj.Slice(o, "status", "reservedFor")) > 0 {
			out = append(out, "reserved")
		}
	case !deleted:
		out = append(out, "pending")
	}
	return strings.Join(out, ",")
}

func parentCell(o Object) any {
	ref := obj.Map(o, "spec", "parentRef")
	if ref == nil {
		return "<none>"
	}
	out := obj.String(ref, "resource")
	if group := obj.String(ref, "group"); group != "" {
		out += "." + group
	}
	if ns := obj.String(ref, "namespace"); ns != "" {
		out += "/" + ns
	}
	return strings.ToLower(out) + "/" + obj.String(ref, "name")
}

func slicePorts(o Object) any {
	var out []string
	for _, p := range obj.Maps(o, "ports") {
		port := "*"
		if n, ok := obj.Int(p, "port"); ok {
			port = strconv.FormatInt(n, 10)
		} else if name, ok := p["name"].(string); ok {
			port = name
		}
		out = append(out, port)
	}
	return cmp.Or(firstThree(out), "<unset>")
}

func serviceAccounts(o Object) any {
	var out []string
	for _, s := range obj.Maps(o, "subjects") {
		if obj.String(s, "kind") == "ServiceAccount" {
			out = append(out, obj.String(s, "namespace")+"/"+obj.String(s, "name"))
		}
	}
	return strings.Join(out, ", ")
}

// quota lists the resources whose names start with limits, or those whose do not.
func quota(o Object, limits bool) any {
	var out []string
	for _, name := range obj.Keys(obj.Map(o, "status", "hard")) {
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
