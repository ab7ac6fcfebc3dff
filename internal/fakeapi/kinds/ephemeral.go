package kinds

import (
	"fmt"
	"slices"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// AddContainers reduces a change of a pod through the subresource ephemeralcontainers to these containers, and returns
// what is wrong with them.
func AddContainers(next, cur Object) []Cause {
	added := obj.Get(next, "spec", "ephemeralContainers")
	spec := obj.Clone(obj.Map(cur, "spec"))
	if delete(spec, "ephemeralContainers"); added != nil {
		spec["ephemeralContainers"] = added
	}
	next["spec"] = spec
	const at = "spec.ephemeralContainers"
	var out []Cause
	for _, was := range obj.Maps(cur, "spec", "ephemeralContainers") {
		name := obj.String(was, "name")
		i := slices.IndexFunc(obj.Maps(spec, "ephemeralContainers"), func(c Object) bool { return c["name"] == name })
		switch {
		case i < 0:
			out = append(out, Forbidden(at,
				fmt.Sprintf("existing ephemeral containers %q may not be removed\n", name)))
		case !patch.Equal(obj.Maps(spec, "ephemeralContainers")[i], was):
			out = append(out, Forbidden(at,
				fmt.Sprintf("existing ephemeral containers %q may not be changed\n", name)))
		}
	}
	return out
}

// notEphemeral are the fields of a container that an ephemeral one cannot have.
var notEphemeral = []string{"ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe",
	"lifecycle"}

// ephemeralRules are those of the ephemeral containers of a pod, besides the ones of all containers.
func ephemeralRules(s scope) []Cause {
	var out []Cause
	spec := obj.Map(s.root, "spec")
	if s.stored == nil && len(obj.Slice(spec, "ephemeralContainers")) > 0 {
		out = append(out, Forbidden("spec.ephemeralContainers", "cannot be set on create"))
	}
	for i, c := range obj.Maps(spec, "ephemeralContainers") {
		at := fmt.Sprintf("spec.ephemeralContainers[%d]", i)
		if target := obj.String(c, "targetContainerName"); target != "" {
			named := func(c Object) bool { return c["name"] == target }
			if !slices.ContainsFunc(obj.Maps(spec, "containers"), named) &&
				!slices.ContainsFunc(obj.Maps(spec, "initContainers"), named) {
				out = append(out, NotFound(at+".targetContainerName", target))
			}
		}
		for _, f := range notEphemeral {
			if m, isObject := c[f].(Object); c[f] != nil && !(isObject && len(m) == 0) {
				out = append(out, Forbidden(at+"."+f, "cannot be set for an Ephemeral Container"))
			}
		}
	}
	return out
}
