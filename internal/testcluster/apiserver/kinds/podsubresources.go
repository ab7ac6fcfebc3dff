package kinds

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// AddContainers reduces a change of a pod through the subresource ephemeralcontainers to these containers, and returns
// what is wrong with them.
func AddContainers(next, cur Object) (out []Cause) {
	added := obj.Get(next, "spec", "ephemeralContainers")
	spec := obj.Clone(obj.Map(cur, "spec"))
	if delete(spec, "ephemeralContainers"); added != nil {
		spec["ephemeralContainers"] = added
	}
	next["spec"] = spec
	const at = "spec.ephemeralContainers"
	for _, was := range obj.Maps(cur, "spec", "ephemeralContainers") {
		name := obj.String(was, "name")
		i := slices.IndexFunc(obj.Maps(spec, "ephemeralContainers"), func(c Object) bool { return c["name"] == name })
		switch {
		case i < 0:
			out = append(out, obj.Forbidden(at,
				fmt.Sprintf("existing ephemeral containers %q may not be removed\n", name)))
		case !patch.Equal(obj.Maps(spec, "ephemeralContainers")[i], was):
			out = append(out, obj.Forbidden(at,
				fmt.Sprintf("existing ephemeral containers %q may not be changed\n", name)))
		}
	}
	return out
}

// Resize reduces a change of a pod through the subresource resize to the resources of its containers, and returns what
// is wrong with them.
func Resize(next, cur Object) []Cause {
	var moved, out []Cause
	spec := obj.Clone(obj.Map(cur, "spec"))
	for _, list := range []string{"containers", "initContainers"} {
		sent, at := obj.Maps(next, "spec", list), "spec."+list
		if len(sent) != len(obj.Maps(spec, list)) {
			moved = append(moved, obj.Forbidden(at, list+" may not be added or removed on resize"))
			continue
		}
		for i, c := range obj.Maps(spec, list) {
			at := fmt.Sprintf("%s[%d]", at, i)
			if c["name"] != sent[i]["name"] {
				moved = append(moved, obj.Forbidden(at+".name", list+" may not be renamed or reordered on resize"))
				continue
			}
			out = append(out, resizeRules(sent[i], c, at+".resources.")...)
			c["resources"] = sent[i]["resources"]
		}
	}
	if len(moved) > 0 {
		out, spec = moved, obj.Map(next, "spec")
	}
	next["spec"] = spec
	if was := qosClass(obj.Map(cur, "spec")); qosClass(spec) != was {
		changed := obj.Invalid("spec", was, "Pod QOS Class may not change as a result of resizing")
		out = append([]Cause{changed}, out...)
	}
	for _, c := range obj.Maps(cur, "status", "containerStatuses") {
		if obj.Map(c, "state", "running") == nil {
			continue
		}
		if c["resources"] == nil {
			out = append(out, obj.Forbidden("spec", "Pod running on node without support for resize"))
		}
		break // the real server looks at the first one that runs
	}
	return out
}

// resizeRules compares a container with what it was.
func resizeRules(next, cur Object, at string) []Cause {
	var out, last []Cause
	other := []Cause{obj.Forbidden("spec", "only cpu and memory resources are mutable")}
	if !patch.Equal(next["resizePolicy"], cur["resizePolicy"]) {
		last = other
	}
	for _, f := range []string{"requests", "limits"} {
		was, is := obj.Map(cur, "resources", f), obj.Map(next, "resources", f)
		for name := range was {
			if is[name] == nil {
				out = append(out, obj.Forbidden(at+f, "resource "+f+" cannot be removed"))
				break
			}
		}
		for name := range is {
			if name != "cpu" && name != "memory" && !patch.Equal(was[name], is[name]) {
				last = other
			}
		}
	}
	return append(out, last...)
}

// Guards reports whether a PodDisruptionBudget selects a pod: one without a selector selects none, an empty one all.
func Guards(budget, pod Object) bool {
	return Selects(obj.Map(budget, "spec", "selector"), pod)
}

// Selects reports whether a LabelSelector selects an object: an empty one selects all, nil none.
func Selects(sel, o Object) bool {
	if sel == nil {
		return false
	}
	parsed, err := obj.ParseLabels(FormatSelector(sel))
	return err == nil && parsed.Matches(obj.Strings(o, "metadata", "labels"))
}

// Unguarded reports whether a pod can be evicted without regard to its budget: it does not run, or not for long.
func Unguarded(pod Object) bool {
	phase := obj.String(pod, "status", "phase")
	return phase == "Succeeded" || phase == "Failed" || phase == "Pending" ||
		obj.String(pod, "metadata", "deletionTimestamp") != ""
}

// maxDisrupted is how many evictions a budget records that its controller has not seen.
const maxDisrupted = 2000

// Eviction is what a budget says about the eviction of a pod.
type Eviction struct {
	Refused   string // why it is refused; "" is allowed
	Forbidden bool   // it is refused for good: the budget itself is broken
	Later     int64  // seconds after which the client may try again
	Counts    bool   // the eviction uses up one of the disruptions that are allowed
}

// Evict decides as kube-apiserver does, from the status that the controller of the budget wrote.
func Evict(budget, pod Object) Eviction {
	status := func(name string) int64 { return obj.Number(budget, "status", name) }
	name := obj.String(budget, "metadata", "name")
	healthy, desired := status("currentHealthy"), status("desiredHealthy")
	if !Holds(pod, "Ready") && (obj.String(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow" ||
		healthy >= desired && desired > 0) {
		return Eviction{} // it does not count among the healthy ones
	}
	switch left := status("disruptionsAllowed"); {
	case status("observedGeneration") < obj.Number(budget, "metadata", "generation"):
		return Eviction{Later: 10,
			Refused: "The disruption budget " + name + " is still being processed by the server."}
	case left < 0:
		return Eviction{Forbidden: true, Refused: "pdb disruptions allowed is negative"}
	case len(obj.Map(budget, "status", "disruptedPods")) > maxDisrupted:
		return Eviction{Forbidden: true,
			Refused: "DisruptedPods map too big - too many evictions not confirmed by PDB controller"}
	case left > 0:
		return Eviction{Counts: true}
	}
	allowed := Condition(budget, "DisruptionAllowed")
	if allowed["status"] != "False" {
		allowed = nil
	}
	why, message := obj.String(allowed, "reason"), obj.String(allowed, "message")
	switch {
	case message != "" && why == "SyncFailed":
		return Eviction{Refused: fmt.Sprintf("The disruption budget %s does not allow evicting pods currently "+
			"because it failed sync: %s", name, message)}
	case healthy <= desired:
		return Eviction{Refused: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			name, desired, healthy)}
	case message != "":
		return Eviction{Refused: fmt.Sprintf("The disruption budget %s does not allow evicting pods currently "+
			"(%s): %s", name, why, message)}
	}
	return Eviction{Refused: "The disruption budget " + name + " does not allow evicting pods currently"}
}

// LogAnnotation is the annotation of a pod with the log that the server answers with. With a dot and the name of a
// container behind it, it is the log of that container alone.
const LogAnnotation = "skiff.dev/log"

// Log returns the log of a container of a pod, "" for the only one. ok is false if no annotation has one; why says
// what is wrong with the name.
func Log(pod Object, container string) (text string, ok bool, why string) {
	var names []string
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for _, c := range obj.Maps(pod, "spec", list) {
			if name := obj.String(c, "name"); list == "containers" || container == name {
				names = append(names, name)
			}
		}
	}
	name := obj.String(pod, "metadata", "name")
	switch {
	case container == "" && len(names) > 1:
		return "", false, fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", name, names)
	case container != "" && !slices.Contains(names, container):
		return "", false, fmt.Sprintf("container %s is not valid for pod %s", container, name)
	case container == "" && len(names) == 1:
		container = names[0]
	}
	annotations := obj.Strings(pod, "metadata", "annotations")
	if text, ok = annotations[LogAnnotation+"."+container]; !ok {
		text, ok = annotations[LogAnnotation]
	}
	if ok && text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text, ok, ""
}

// User is the user of a request.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// reviews answer the kinds by which kubectl asks about its user; package apiserver answers about another user, and by
// roles if they decide.
var reviews = map[string]func(User) Object{
	"SelfSubjectReview": whoAmI, "TokenReview": whoAmI,
	"LocalSubjectAccessReview": allowed, "SubjectAccessReview": allowed, "SelfSubjectAccessReview": allowed,
	"SelfSubjectRulesReview": func(User) Object {
		all := []any{"*"}
		return Object{"incomplete": false,
			"resourceRules":    []any{Object{"verbs": all, "apiGroups": all, "resources": all}},
			"nonResourceRules": []any{Object{"verbs": all, "nonResourceURLs": all}}}
	},
	"Binding": func(User) Object { return nil },
}

func whoAmI(u User) Object { return Object{"userInfo": UserInfo(u)} }

func allowed(User) Object {
	return Object{"allowed": true, "reason": "skiff's embedded API server checks no roles"}
}

// UserInfo is a user as reviews name it.
func UserInfo(u User) Object {
	extra := Object{}
	for name, values := range u.Extra {
		extra[name] = obj.Anys(values)
	}
	return obj.OmitEmpty(Object{"username": u.Name, "groups": obj.Anys(u.Groups), "uid": u.UID, "extra": extra})
}
