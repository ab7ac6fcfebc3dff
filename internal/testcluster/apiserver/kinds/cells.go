package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
)

func endpointsCell(o Object, _ time.Time) any {
	var out []string
	for _, s := range obj.Maps(o, "subsets") {
		for _, a := range obj.Maps(s, "addresses") {
			ports := obj.Maps(s, "ports")
			if len(ports) == 0 {
				out = append(out, obj.String(a, "ip"))
			}
			for _, p := range ports {
				out = append(out, fmt.Sprintf("%s:%d", obj.String(a, "ip"), obj.Number(p, "port")))
			}
		}
	}
	return cmp.Or(firstThree(out), "<none>")
}

func externalIP(o Object, _ time.Time) any {
	var out []string
	for _, in := range obj.Maps(o, "status", "loadBalancer", "ingress") {
		out = append(out, cmp.Or(obj.String(in, "ip"), obj.String(in, "hostname")))
	}
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

func nodeRoles(o Object, _ time.Time) any {
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

func readinessGates(o Object, _ time.Time) any {
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

// targetsCell formats the metrics of an HPA: resource metrics as current/target, others by type.
func targetsCell(o Object, _ time.Time) any {
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
