package manifests

import (
	"fmt"
	"strings"
)

// maxContainers is how many containers of a sort a template may have. The expressions go through them, so this comes
// first; a pod of 50 containers is larger than any that is in use.
const maxContainers = 50

// maxCharacters bounds the texts of an object: half of the 256 KiB beyond which skiff does not work on it.
const maxCharacters = 128 << 10

// bound is how many items a list or map may have. The bounds leave room for what is in use; all of them together keep
// a policy within the budget of its expressions.
type bound struct {
	field string
	max   int
	count string // an expression: the number of items
	guard bool   // the rules of the template policy go through it
}

// bounds are those of each custom resource with a template.
func bounds() []bound {
	pod := func(path string) string { return "variables.overlay.?spec.?" + path + ".orValue(null)" }
	each := func(path string) string { // in all containers
		return "variables.containers.map(c, " + items("c.?"+path+".orValue(null)") + ").sum()"
	}
	const spec, template = "dyn(object).spec.?", "variables.overlay.?metadata.?"
	all := []bound{
		{"spec.env", 1000, items(spec + "env.orValue(null)"), false},      // skiff merges as many
		{"spec.config", 500, items(spec + "config.orValue(null)"), false}, // Redis has some 250 directives
		{"spec.resources.limits", 50, items(spec + "resources.?limits.orValue(null)"), false},
		{"spec.resources.requests", 50, items(spec + "resources.?requests.orValue(null)"), false},
		{"spec.template.metadata.labels", 200, items(template + "labels.orValue(null)"), false},
		{"spec.template.metadata.annotations", 200, items(template + "annotations.orValue(null)"), true},
	}
	for _, name := range []string{"initContainers", "containers", "ephemeralContainers"} {
		all = append(all, bound{"spec.template.spec." + name, maxContainers, items(pod(name)), true})
	}
	for _, name := range []string{"volumes", "securityContext.sysctls", "imagePullSecrets", "hostAliases",
		"tolerations", "topologySpreadConstraints", "nodeSelector"} {
		path := strings.ReplaceAll(name, ".", ".?")
		all = append(all, bound{"spec.template.spec." + name, 200, items(pod(path)),
			name == "volumes" || name == "securityContext.sysctls"})
	}
	for _, b := range []bound{{"env", 1000, "", false}, {"envFrom", 200, "", false}, {"args", 1000, "", false},
		{"command", 1000, "", false}, {"volumeMounts", 1000, "", false}, {"ports", 200, "", true},
		{"securityContext.capabilities.add", 200, "", true}, {"securityContext.capabilities.drop", 200, "", true}} {
		b.count, b.field = each(strings.ReplaceAll(b.field, ".", ".?")), "spec.template.spec.containers[*]."+b.field
		all = append(all, b)
	}
	return all
}

func guards() []bound {
	var out []bound
	for _, b := range bounds() {
		if b.guard {
			out = append(out, b)
		}
	}
	return out
}

// conjunction says that all bounds are kept.
func conjunction(all []bound) string {
	var parts []string
	for _, b := range all {
		parts = append(parts, b.kept())
	}
	return strings.Join(parts, " && ")
}

func (b bound) kept() string { return fmt.Sprintf("%s <= %d", b.count, b.max) }

func (b bound) text() string {
	in := ""
	if strings.Contains(b.field, "[*]") {
		in = " in all containers together"
	}
	return fmt.Sprintf("%s must have at most %d items%s", b.field, b.max, in)
}

// items is the number of items of a list or map, 0 of anything else.
func items(v string) string {
	return fmt.Sprintf("(type(%s) == list || type(%[1]s) == map ? size(%[1]s) : 0)", v)
}

// containersOf is the variable containers: all of a template, an expression, where they are few enough to be gone
// through.
func containersOf(template string) []any {
	var lists []string
	for _, name := range []string{"initContainers", "containers", "ephemeralContainers"} {
		v := template + ".?spec.?" + name + ".orValue(null)"
		lists = append(lists, fmt.Sprintf("(type(%s) == list && size(%[1]s) <= %d ? %[1]s : [])", v, maxContainers))
	}
	return []any{variable("containers", strings.Join(lists, " + "))}
}

// sizes bounds the lists and maps that CEL can see, and the texts in them: a few large objects would otherwise take
// the memory with which skiff serves all tenants.
func sizes() policy {
	const next = "; remove what is not needed, or keep it in a ConfigMap that the pods mount"
	var validations []any
	for _, b := range bounds() {
		validations = append(validations, validation(b.kept(), b.text()+next))
	}
	variables := append([]any{variable("overlay", "dyn(object).spec.?template.orValue({})")},
		containersOf("variables.overlay")...)
	variables = append(variables,
		variable("small", conjunction(bounds())),
		variable("characters", "!variables.small ? 0 : "+strings.Join([]string{
			texts("dyn(object).spec.?env.orValue(null)", "e.?value.orValue(null)"),
			texts("dyn(object).spec.?config.orValue(null)", "dyn(object).spec.config[e]"),
			texts("variables.overlay.?metadata.?annotations.orValue(null)",
				"variables.overlay.metadata.annotations[e]"),
			"variables.containers.map(c, " + texts("c.?env.orValue(null)", "e.?value.orValue(null)") + " + " +
				texts("c.?args.orValue(null)", "e") + " + " + texts("c.?command.orValue(null)", "e") + ").sum()",
		}, " + ")))
	validations = append(validations, validation(fmt.Sprintf("variables.characters <= %d", maxCharacters),
		fmt.Sprintf("spec: the values of env, config, args, command and template annotations must have at most %d "+
			"characters together%s", maxCharacters, next)))
	return policy{SizesPolicy, map[string]any{"matchConditions": changed("spec"), "variables": variables,
		"validations": validations}}
}

// texts is the number of characters in a list or map: of those items, called e, that are texts.
func texts(v, item string) string {
	return fmt.Sprintf("(type(%s) == list || type(%[1]s) == map ? "+
		"%[1]s.map(e, type(%[2]s) == string ? size(%[2]s) : 0).sum() : 0)", v, item)
}
