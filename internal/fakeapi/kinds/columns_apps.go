package kinds

import (
	"cmp"
	"fmt"
	"strings"

	"skiff/internal/fakeapi/obj"
)

var (
	containerNames  = wide(text("Containers", joined("name", "spec", "template", "spec", "containers")))
	containerImages = wide(text("Images", joined("image", "spec", "template", "spec", "containers")))
	selectorColumn  = wide(text("Selector", selectorCell))

	deploymentColumns = []Column{text("Ready", ready), text("Up-to-date", number("status", "updatedReplicas")),
		text("Available", number("status", "availableReplicas")),
		ageColumn, containerNames, containerImages, selectorColumn}
	replicaSetColumns = []Column{integer("Desired", "spec", "replicas"), integer("Current", "status", "replicas"),
		integer("Ready", "status", "readyReplicas"), ageColumn, containerNames, containerImages, selectorColumn}
	statefulSetColumns = []Column{text("Ready", ready), ageColumn, containerNames, containerImages}
	daemonSetColumns   = []Column{integer("Desired", "status", "desiredNumberScheduled"),
		integer("Current", "status", "currentNumberScheduled"), integer("Ready", "status", "numberReady"),
		integer("Up-to-date", "status", "updatedNumberScheduled"),
		integer("Available", "status", "numberAvailable"), text("Node Selector", func(o Object) any {
			return pairs(obj.Strings(o, "spec", "template", "spec", "nodeSelector"))
		}),
		ageColumn, containerNames, containerImages, selectorColumn}
	revisionColumns = []Column{text("Controller", controllerCell), text("Revision", number("revision")), ageColumn}

	leaseColumns   = []Column{text("Holder", field("spec", "holderIdentity")), ageColumn}
	bindingColumns = []Column{text("Role", func(o Object) any {
		return obj.String(o, "roleRef", "kind") + "/" + obj.String(o, "roleRef", "name")
	}), ageColumn,
		wide(text("Users", subjects("User"))), wide(text("Groups", subjects("Group"))),
		wide(text("ServiceAccounts", subjects("ServiceAccount")))}
	scalerColumns = []Column{text("Reference", func(o Object) any {
		return obj.String(o, "spec", "scaleTargetRef", "kind") + "/" +
			obj.String(o, "spec", "scaleTargetRef", "name")
	}),
		text("Targets", targetsCell), text("MinPods", func(o Object) any {
			n, ok := obj.Int(o, "spec", "minReplicas")
			if !ok {
				return "<unset>"
			}
			return fmt.Sprint(n)
		}),
		text("MaxPods", number("spec", "maxReplicas")), text("Replicas",
			number("status", "currentReplicas")), ageColumn}
)

func ready(o Object) any {
	have, _ := obj.Int(o, "status", "readyReplicas")
	want, _ := obj.Int(o, "spec", "replicas")
	return fmt.Sprintf("%d/%d", have, want)
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

func subjects(kind string) func(Object) any {
	return func(o Object) any {
		var out []string
		for _, s := range obj.Maps(o, "subjects") {
			if obj.String(s, "kind") != kind {
				continue
			}
			name := obj.String(s, "name")
			if kind == "ServiceAccount" {
				name = obj.String(s, "namespace") + "/" + name
			}
			out = append(out, name)
		}
		return strings.Join(out, ", ")
	}
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
