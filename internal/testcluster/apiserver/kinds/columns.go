package kinds

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
)

// The printer columns are those of the real server (pkg/printers/internalversion).

//go:embed descriptions.txt
var descriptions string

// describe adds their descriptions to the columns of the kinds. They are shortened, and kubectl does not print them.
func describe(all []*Kind) {
	texts := map[string]string{}
	for line := range strings.Lines(descriptions) {
		column, description, _ := strings.Cut(strings.TrimSpace(line), ": ")
		texts[column] = description
	}
	for _, k := range all {
		for i, c := range k.Columns {
			k.Columns[i].Description = cmp.Or(texts[k.Kind+"/"+c.Name], texts[c.Name])
		}
	}
}

// Since formats the time since a timestamp as kubectl's AGE.
func Since(timestamp string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return "<unknown>"
	}
	return HumanDuration(now.Sub(t))
}

// durationForm is how durations are written that are shorter than below: in one unit, and if rest is set what is left
// in a smaller one.
type durationForm struct {
	below, unit, rest time.Duration
	name, restName    string
}

var durations = []durationForm{
	{120 * time.Second, time.Second, 0, "s", ""},
	{10 * time.Minute, time.Minute, time.Second, "m", "s"},
	{3 * time.Hour, time.Minute, 0, "m", ""},
	{8 * time.Hour, time.Hour, time.Minute, "h", "m"},
	{48 * time.Hour, time.Hour, 0, "h", ""},
	{8 * day, day, time.Hour, "d", "h"},
	{2 * year, day, 0, "d", ""},
	{8 * year, year, day, "y", "d"},
	{math.MaxInt64, year, 0, "y", ""},
}

const day, year = 24 * time.Hour, 365 * day

// HumanDuration formats a duration in at most two units, as apimachinery's duration package does.
func HumanDuration(d time.Duration) string {
	switch d = d.Truncate(time.Second); {
	case d < -time.Second:
		return "<invalid>"
	case d < 0:
		return "0s"
	}
	form := durations[slices.IndexFunc(durations, func(f durationForm) bool { return d < f.below })]
	text := fmt.Sprintf("%d%s", d/form.unit, form.name)
	if form.rest > 0 && d%form.unit >= form.rest {
		text += fmt.Sprintf("%d%s", d%form.unit/form.rest, form.restName)
	}
	return text
}

// FormatSelector formats a LabelSelector in the syntax of kubectl -l.
func FormatSelector(sel Object) string {
	var out []string
	for _, k := range obj.Keys(obj.Map(sel, "matchLabels")) {
		out = append(out, k+"="+obj.String(sel, "matchLabels", k))
	}
	for _, e := range obj.Maps(sel, "matchExpressions") {
		key, values := obj.String(e, "key"), obj.Texts(e, "values")
		switch op := obj.String(e, "operator"); op {
		case "Exists":
			out = append(out, key)
		case "DoesNotExist":
			out = append(out, "!"+key)
		default:
			out = append(out, key+" "+strings.ToLower(op)+" ("+strings.Join(values, ",")+")")
		}
	}
	return strings.Join(out, ",")
}

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
	out := obj.Each(obj.Maps(o, "status", "loadBalancer", "ingress"),
		func(in Object) string { return cmp.Or(obj.String(in, "ip"), obj.String(in, "hostname")) })
	out = append(out, obj.Texts(o, "spec", "externalIPs")...)
	switch kind := obj.String(o, "spec", "type"); {
	case kind == "ExternalName":
		return obj.String(o, "spec", "externalName")
	case kind == "LoadBalancer" && len(out) == 0:
		return "<pending>"
	case kind == "": // the object of a bookmark
		return "<unknown>"
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
