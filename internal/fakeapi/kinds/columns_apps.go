package kinds

import (
	"cmp"
	"fmt"
	"strings"

	"skiff/internal/fakeapi/obj"
)

var (
	containerNames = wide(text("Containers", "Names of each container in the template.",
		joined("name", "spec", "template", "spec", "containers")))
	containerImages = wide(text("Images", "Images referenced by each container in the template.",
		joined("image", "spec", "template", "spec", "containers")))
	selectorColumn = wide(text("Selector", "Label selector for pods.", selectorCell))

	deploymentColumns = []Column{text("Ready", "Number of the pod with ready state", ready),
		text("Up-to-date",
			"Total number of non-terminating pods targeted by this deployment that have the desired template spec.",
			number("status", "updatedReplicas")),
		text("Available", "Total number of available non-terminating pods targeted by this deployment.",
			number("status", "availableReplicas")),
		ageColumn, containerNames, containerImages, selectorColumn}
	replicaSetColumns = []Column{integer("Desired", "Replicas is the number of desired pods.", "spec", "replicas"),
		integer("Current", "Replicas is the most recently observed number of non-terminating pods.", "status",
			"replicas"),
		integer("Ready", "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
			"status", "readyReplicas"),
		ageColumn, containerNames, containerImages, selectorColumn}
	statefulSetColumns = []Column{text("Ready", "Number of the pod with ready state", ready), ageColumn,
		containerNames, containerImages}
	daemonSetColumns = []Column{integer("Desired", "The total number of nodes that should be running the daemon pod.",
		"status", "desiredNumberScheduled"),
		integer("Current", "The number of nodes that are running at least 1 daemon pod.", "status",
			"currentNumberScheduled"),
		integer("Ready", "numberReady is the number of nodes that should be running the daemon pod and have one or "+
			"more of the daemon pod running with a Ready Condition.", "status", "numberReady"),
		integer("Up-to-date", "The total number of nodes that are running updated daemon pod.", "status",
			"updatedNumberScheduled"),
		integer("Available", "The number of nodes that should be running the daemon pod and have one or more of the "+
			"daemon pod running and available.", "status", "numberAvailable"),
		text("Node Selector", "NodeSelector is a selector which must be true for the pod to fit on a node.",
			func(o Object) any {
				return pairs(obj.Strings(o, "spec", "template", "spec", "nodeSelector"))
			}),
		ageColumn, containerNames, containerImages, selectorColumn}
	revisionColumns = []Column{text("Controller", "Controller of the object", controllerCell),
		text("Revision", "Revision indicates the revision of the state represented by Data.", number("revision")),
		ageColumn}

	leaseColumns = []Column{text("Holder", "holderIdentity contains the identity of the holder of a current lease.",
		field("spec", "holderIdentity")), ageColumn}
	bindingColumns = []Column{text("Role",
		"RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace.",
		func(o Object) any {
			return obj.String(o, "roleRef", "kind") + "/" + obj.String(o, "roleRef", "name")
		}), ageColumn,
		wide(text("Users", "Users in the roleBinding", subjects("User"))),
		wide(text("Groups", "Groups in the roleBinding", subjects("Group"))),
		wide(text("ServiceAccounts", "ServiceAccounts in the roleBinding", subjects("ServiceAccount")))}
	scalerColumns = []Column{text("Reference", "scaleTargetRef points to the target resource to scale.",
		func(o Object) any {
			return obj.String(o, "spec", "scaleTargetRef", "kind") + "/" +
				obj.String(o, "spec", "scaleTargetRef", "name")
		}),
		text("Targets", "metrics contains the specifications for which to use to calculate the desired replica count.",
			targetsCell),
		text("MinPods",
			"minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.",
			func(o Object) any {
				n, ok := obj.Int(o, "spec", "minReplicas")
				if !ok {
					return "<unset>"
				}
				return fmt.Sprint(n)
			}),
		text("MaxPods",
			"maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up.",
			number("spec", "maxReplicas")),
		text("Replicas", "currentReplicas is current number of replicas of pods managed by this autoscaler.",
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
