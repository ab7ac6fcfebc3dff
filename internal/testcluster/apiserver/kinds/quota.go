package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Usage is what objects take of quotas, by the names of resources.
type Usage map[string]patch.Quantity

// Add adds a quantity; a text that is none, which the rules of kinds refuse, adds nothing.
func (u Usage) Add(name, text string) {
	if q, err := patch.ParseQuantity(text); err == nil {
		u[name] = u[name].Add(q)
	}
}

// Format writes the named resources as the messages about quotas do.
func (u Usage) Format(names []string) string {
	return strings.Join(obj.Each(names, func(name string) string { return name + "=" + u[name].String() }), ",")
}

// quotaCounts are the resources whose objects quotas count by their plain names.
var quotaCounts = []string{"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas",
	"secrets", "services"}

// ofStorageClass is between the name of a class and what claims of that class take.
const ofStorageClass = ".storageclass.storage.k8s.io/"

// ofDeviceClass is behind the name of a class of devices in the name of what claims take of them.
const ofDeviceClass = ".deviceclass.resource.k8s.io/devices"

// claimsOfDevices have no plain name: quotas count their devices, by classes.
const claimsOfDevices = "resourceclaims.resource.k8s.io"

// Counted reports whether a quota with such limits has to do with a resource.
func Counted(hard Object, r kube.Resource) bool {
	if r.GroupResource() == claimsOfDevices && slices.ContainsFunc(obj.Keys(hard),
		func(name string) bool { return strings.HasSuffix(name, ofDeviceClass) }) {
		return true
	}
	return hard["count/"+r.GroupResource()] != nil || slices.Contains(quotaCounts, r.GroupResource())
}

// AddObject adds what an object takes.
func (u Usage) AddObject(r kube.Resource, o Object) {
	name := r.GroupResource()
	if name == claimsOfDevices {
		u.addDevices(o)
	}
	if u.Add("count/"+name, "1"); !slices.Contains(quotaCounts, name) {
		return
	}
	if phase := obj.String(o, "status", "phase"); name == "pods" && (phase == "Succeeded" || phase == "Failed") {
		return
	}
	u.Add(name, "1")
	switch name {
	case "services":
		kind := obj.String(o, "spec", "type")
		if kind == "NodePort" || kind == "LoadBalancer" {
			u.Add("services.nodeports", fmt.Sprint(len(obj.Maps(o, "spec", "ports"))))
		}
		if kind == "LoadBalancer" {
			u.Add("services.loadbalancers", "1")
		}
	case "persistentvolumeclaims":
		storage := obj.String(o, "spec", "resources", "requests", "storage")
		u.Add("requests.storage", storage)
		if class := obj.String(o, "spec", "storageClassName"); class != "" {
			u.Add(class+ofStorageClass+"persistentvolumeclaims", "1")
			u.Add(class+ofStorageClass+"requests.storage", storage)
		}
	case "pods":
		u.addPod(o)
	}
}

// mostDevices is how many devices a request for all of a class may get.
const mostDevices = 32

// addDevices adds the devices that a claim may get: of alternatives the most of each class.
func (u Usage) addDevices(claim Object) {
	for _, r := range obj.Maps(claim, "spec", "devices", "requests") {
		most := map[string]int64{}
		for _, one := range append(obj.Maps(r, "firstAvailable"), obj.Map(r, "exactly")) {
			class, n := obj.String(one, "deviceClassName"), int64(0)
			switch obj.String(one, "allocationMode") {
			case "ExactCount":
				n = obj.Number(one, "count")
			case "All":
				n = mostDevices
			}
			if class != "" {
				most[class] = max(most[class], n)
			}
		}
		for class, n := range most {
			u.Add(class+ofDeviceClass, fmt.Sprint(n))
		}
	}
}

func (u Usage) addPod(pod Object) {
	for _, f := range []string{"requests", "limits"} {
		for name, q := range podTotal(pod, f) {
			u[f+"."+name] = u[f+"."+name].Add(q)
			if f == "requests" {
				u[name] = u[name].Add(q)
			}
		}
	}
}

// usageOf returns the quantities at a path of an object.
func usageOf(o Object, path ...string) Usage {
	u := Usage{}
	for name, text := range obj.Strings(o, path...) {
		u.Add(name, text)
	}
	return u
}

// with returns what combine makes of the quantities of both.
func (u Usage) with(other Usage, combine func(a, b patch.Quantity) patch.Quantity) Usage {
	out := maps.Clone(u)
	for name, q := range other {
		out[name] = combine(out[name], q)
	}
	return out
}

// podTotal returns the requests or limits of a pod: what its containers and sidecars have together, or an init
// container beside the sidecars that were started before if that is more; of cpu and memory what the pod itself has.
func podTotal(pod Object, f string) Usage {
	add := func(a, b patch.Quantity) patch.Quantity { return a.Add(b) }
	more := func(a, b patch.Quantity) patch.Quantity {
		if b.Cmp(a) > 0 {
			return b
		}
		return a
	}
	sum, sidecars, most := Usage{}, Usage{}, Usage{}
	for _, c := range obj.Maps(pod, "spec", "containers") {
		sum = sum.with(usageOf(c, "resources", f), add)
	}
	for _, c := range obj.Maps(pod, "spec", "initContainers") {
		own := usageOf(c, "resources", f)
		if beside := sidecars.with(own, add); c["restartPolicy"] == "Always" {
			sum, sidecars = sum.with(own, add), beside
		} else {
			most = most.with(beside, more)
		}
	}
	sum = sum.with(most, more)
	for name, q := range usageOf(pod, "spec", "resources", f) {
		if name == "cpu" || name == "memory" {
			sum[name] = q
		}
	}
	return sum
}

// podRequests are the requests of a pod that has limits of its own: those of its containers, or its limits.
func podRequests(s scope) {
	limits := obj.Map(s.o, "spec", "resources", "limits")
	for _, name := range []string{"cpu", "memory"} {
		if sum, requested := podTotal(s.o, "requests")[name]; requested && len(limits) > 0 {
			obj.Default(s.o, sum.String(), "spec", "resources", "requests", name)
		} else if v := limits[name]; v != nil {
			obj.Default(s.o, v, "spec", "resources", "requests", name)
		}
	}
}

// Grows reports whether a claim asks for more than before.
func Grows(next, cur Object) bool {
	const name = "requests.storage"
	is, was := Usage{}, Usage{}
	is.AddObject(kube.Resource{Plural: "persistentvolumeclaims"}, next)
	was.AddObject(kube.Resource{Plural: "persistentvolumeclaims"}, cur)
	return is[name].Cmp(was[name]) > 0
}

// Less returns what u has more than before, without what is nothing.
func (u Usage) Less(before Usage) Usage {
	out := Usage{}
	for name, q := range u {
		if q.Cmp(before[name]) > 0 {
			out[name] = q.Sub(before[name])
		}
	}
	return out
}

// InScope reports whether a quota counts an object: each scope has objects of one kind, and an unknown one has none.
func InScope(quota Object, r kube.Resource, o Object) bool {
	scopes := obj.Each(obj.Slice(quota, "spec", "scopes"),
		func(name any) Object { return Object{"scopeName": name, "operator": "Exists"} })
	for _, s := range append(scopes, obj.Maps(quota, "spec", "scopeSelector", "matchExpressions")...) {
		in := false
		switch r.GroupResource() {
		case "pods":
			in = podInScope(s, o)
		case "persistentvolumeclaims":
			in = s["scopeName"] == "VolumeAttributesClass" && selects(s, attributesClasses(o))
		}
		if !in {
			return false
		}
	}
	return true
}

func podInScope(s, pod Object) bool {
	_, deadline := obj.Int(pod, "spec", "activeDeadlineSeconds")
	best := qosClass(obj.Map(pod, "spec")) == "BestEffort"
	switch s["scopeName"] {
	case "Terminating":
		return deadline
	case "NotTerminating":
		return !deadline
	case "BestEffort":
		return best
	case "NotBestEffort":
		return !best
	case "CrossNamespacePodAffinity":
		return crossesNamespaces(pod)
	case "PriorityClass":
		return selects(s, []string{obj.String(pod, "spec", "priorityClassName")})
	}
	return false
}

// selects reports whether a scope selects one of the names of a class; "" is none.
func selects(s Object, names []string) bool {
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	listed := func(name string) bool { return slices.Contains(obj.Texts(s, "values"), name) }
	switch s["operator"] {
	case "Exists":
		return len(names) > 0
	case "DoesNotExist":
		return len(names) == 0
	case "In":
		return slices.ContainsFunc(names, listed)
	case "NotIn":
		return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return !listed(name) })
	}
	return false
}

// attributesClasses returns the VolumeAttributesClasses of a claim: the one that it wants, has, or is about to get.
func attributesClasses(claim Object) []string {
	return []string{obj.String(claim, "spec", "volumeAttributesClassName"),
		obj.String(claim, "status", "currentVolumeAttributesClassName"),
		obj.String(claim, "status", "modifyVolumeStatus", "targetVolumeAttributesClassName")}
}

// crossesNamespaces reports whether the affinity of a pod is about pods of other namespaces.
func crossesNamespaces(pod Object) bool {
	for _, kind := range []string{"podAffinity", "podAntiAffinity"} {
		terms := obj.Maps(pod, "spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution")
		for _, w := range obj.Maps(pod, "spec", "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution") {
			terms = append(terms, obj.Map(w, "podAffinityTerm"))
		}
		if slices.ContainsFunc(terms, func(term Object) bool {
			return len(obj.Slice(term, "namespaces")) > 0 || term["namespaceSelector"] != nil
		}) {
			return true
		}
	}
	return false
}

// Unspecified returns what containers must ask for under such limits and do not, as the message about that, "" for
// nothing.
func Unspecified(hard, pod Object) string {
	var out []string
	for _, name := range []string{"cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"} {
		list, resource, found := strings.Cut(name, ".")
		if !found {
			list, resource = "requests", name
		}
		var lacking []string
		for _, c := range slices.Concat(obj.Maps(pod, "spec", "containers"), obj.Maps(pod, "spec", "initContainers")) {
			if hard[name] != nil && obj.Get(c, "resources", list, resource) == nil {
				lacking = append(lacking, obj.String(c, "name"))
			}
		}
		if slices.Sort(lacking); len(lacking) > 0 {
			out = append(out, name+" for: "+strings.Join(lacking, ","))
		}
	}
	return strings.Join(out, "; ")
}

// IsDefaultClass reports whether a StorageClass is that of claims that name none.
func IsDefaultClass(class Object) bool {
	annotations := obj.Strings(class, "metadata", "annotations")
	return annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}
