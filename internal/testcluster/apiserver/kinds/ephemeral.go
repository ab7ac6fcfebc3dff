package kinds

import (
	"fmt"
	"slices"

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
