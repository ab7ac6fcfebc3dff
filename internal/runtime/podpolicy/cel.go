package podpolicy

import (
	"slices"
	"strings"
)

// Condition is a rule as an expression in CEL, for an admission policy.
type Condition struct {
	Field     string // that the rule is about, such as "spec.hostNetwork"; of a container, without its place
	Must      string // what it must be
	Container bool   // Expression is about each container, which it calls c

	Expression string // true where the rule holds
}

// Names that the expressions use, beside c.
const (
	TemplateVariable = "variables.template" // the pod, or the pod template
	PodVariable      = "variables.pod"      // its spec
	// UserNamespaceVariable says that the pod has a user namespace of its own, WindowsVariable that it is for Windows.
	UserNamespaceVariable = "variables.userNamespace"
	WindowsVariable       = "variables.windows"
)

// Expressions of these variables.
const (
	PodCEL           = TemplateVariable + ".?spec.orValue({})"
	UserNamespaceCEL = PodVariable + ".?hostUsers.orValue(true) == false"
	WindowsCEL       = PodVariable + ".?os.?name.orValue('') == 'windows'"
)

// Conditions are the rules of the policy as expressions in CEL. They see the same as Check, with one exception: where
// a text or a number is in place of an object, they take the fields below it as not set, and leave it to Check.
func (p Policy) Conditions() []Condition {
	if p == Any {
		return nil
	}
	var all []Condition
	add := func(rules []rule, container bool, root string) {
		for i := range rules {
			if r := &rules[i]; p == Restricted || !r.restricted {
				all = append(all, Condition{Field: strings.ReplaceAll(strings.Join(r.path, "."), ".*", "[*]"),
					Must: r.must, Container: container, Expression: r.exempt(r.expression(root, r.path))})
			}
		}
	}
	add(podRules, false, TemplateVariable)
	add(containerRules, true, "c")
	for i := range inherited {
		if r := &inherited[i]; p == Restricted {
			all = append(all, Condition{Field: strings.Join(r.path, "."), Must: r.must, Container: true,
				Expression: r.exempt(r.expression("c", r.path) + " || " +
					r.expression(PodVariable, r.path))})
		}
	}
	return all
}

// expression says that all values at a path below root, an expression, are allowed.
func (r *rule) expression(root string, path []string) string {
	each := slices.Index(path, "*")
	if each < 0 {
		return strings.ReplaceAll(r.cel, "{v}", value(root, path))
	}
	list, item, rest := value(root, path[:each]), "i", path[each+1:]
	return list + " == null || type(" + list + ") == list && " + list + ".all(" + item + ", " +
		r.expression(item, rest) + ")"
}

// value is the value at a path below root, null where there is none.
func value(root string, path []string) string {
	switch {
	case len(path) == 0:
		return root
	case root == TemplateVariable && path[0] == "spec":
		root, path = PodVariable, path[1:]
	}
	return root + ".?" + strings.Join(path, ".?") + ".orValue(null)"
}

// exempt has an expression hold for the pods that the rule does not apply to.
func (r *rule) exempt(expression string) string {
	if r.notInUserNamespace {
		expression = UserNamespaceVariable + " || " + expression
	}
	if r.notOnWindows {
		expression = WindowsVariable + " || " + expression
	}
	return expression
}
