package manifests

import (
	"fmt"
	"maps"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/podpolicy"
)

// Names of the admission policies, and of their bindings.
const (
	TemplatesPolicy = "skiff-templates" // what --template-policy refuses
	SizesPolicy     = "skiff-sizes"     // lists and maps that are too long
	AdoptPolicy     = "skiff-adopt"     // who may set the annotation skiff.dev/adopt
)

// PolicyNames are these names, in the order in which they are printed.
var PolicyNames = []string{TemplatesPolicy, SizesPolicy, AdoptPolicy}

// PolicySelector selects them by their label.
const PolicySelector = "app.kubernetes.io/name=skiff"

// Policies are ValidatingAdmissionPolicies with their bindings: the API server refuses what skiff would refuse.
type Policies struct {
	Templates      []Template // of the custom resources that have a pod template
	TemplatePolicy podpolicy.Policy
	// Suffix of the names: there is one for each installation that has some namespaces only.
	Suffix string
	// Namespaces selects the namespaces in which they count; empty: all.
	Namespaces labels.Requirements
}

// Template is a custom resource with a pod template, spec.template, and the container that skiff itself declares.
type Template struct {
	Resource  kube.Resource
	Container string
}

// policy is one of them. Its spec has no constraints on what it matches: all match the same.
type policy struct {
	name string
	spec map[string]any
}

const admission = "admissionregistration.k8s.io"

// Objects returns the policies, each with its binding behind it.
func (p Policies) Objects() []map[string]any {
	var out []map[string]any
	for _, policy := range p.all() {
		spec := maps.Clone(policy.spec)
		spec["failurePolicy"] = "Fail" // an expression that fails lets nothing pass
		spec["matchConstraints"] = map[string]any{"resourceRules": p.resourceRules()}
		binding := map[string]any{"policyName": policy.name + p.Suffix, "validationActions": []any{"Deny"}}
		if len(p.Namespaces) > 0 {
			binding["matchResources"] = map[string]any{"namespaceSelector": p.namespaceSelector()}
		}
		out = append(out, object("ValidatingAdmissionPolicy", policy.name+p.Suffix, spec),
			object("ValidatingAdmissionPolicyBinding", policy.name+p.Suffix, binding))
	}
	return out
}

// YAML returns them to be applied in their order.
func (p Policies) YAML() (string, error) {
	docs := []string{"# Printed by `skiff manifests --policies`, for Kubernetes 1.30 and later.\n"}
	for _, o := range p.Objects() {
		var doc strings.Builder
		encoder := yaml.NewEncoder(&doc)
		encoder.SetIndent(2)
		if err := encoder.Encode(o); err != nil {
			return "", fmt.Errorf("encode %v: %w", o["kind"], err)
		}
		docs = append(docs, doc.String())
	}
	return docs[0] + strings.Join(docs[1:], "---\n"), nil
}

func (p Policies) all() []policy {
	var out []policy
	if p.TemplatePolicy != podpolicy.Any {
		out = append(out, p.templates())
	}
	return append(out, sizes(), adopt())
}

func object(kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": admission + "/v1", "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/name": "skiff"}}}
}

func (p Policies) resourceRules() []any {
	var rules []any
	for _, t := range p.Templates {
		rules = append(rules, map[string]any{"apiGroups": []any{t.Resource.Group}, "apiVersions": []any{"*"},
			"resources": []any{t.Resource.Plural}, "operations": []any{"CREATE", "UPDATE"}})
	}
	return rules
}

func (p Policies) namespaceSelector() map[string]any {
	var all []any
	for _, r := range p.Namespaces {
		e := map[string]any{"key": r.Key, "operator": r.Operator}
		if len(r.Values) > 0 {
			e["values"] = r.Values
		}
		all = append(all, e)
	}
	return map[string]any{"matchExpressions": all}
}

// changed is the condition that an update changes what a policy is about. Else a finalizer could not be taken off an
// object that was written before the policy.
func changed(field string) []any {
	return []any{map[string]any{"name": "changed", "expression": fmt.Sprintf(
		"request.operation == 'CREATE' || object.%s != oldObject.%[1]s", field)}}
}

func variable(name, expression string) any {
	return map[string]any{"name": name, "expression": expression}
}

func validation(expression, message string) any {
	return map[string]any{"expression": expression, "message": message, "reason": "Forbidden"}
}

// dynamic is a validation whose message is an expression too.
func dynamic(expression, message, messageExpression string) any {
	return map[string]any{"expression": expression, "message": message, "messageExpression": messageExpression,
		"reason": "Forbidden"}
}

// templates is what --template-policy refuses. Where lists are too long to be looked at within the budget of an
// expression, it says that and nothing else.
func (p Policies) templates() policy {
	overlay := "dyn(object).spec.?template.orValue({})"
	variables := append(containersOf("variables.overlay"),
		variable("small", conjunction(guards())),
		variable("template", "variables.small ? variables.overlay : {}"),
		variable("pod", podpolicy.PodCEL),
		variable("userNamespace", podpolicy.UserNamespaceCEL),
		variable("windows", podpolicy.WindowsCEL),
		variable("checked", p.checked()))
	validations := []any{validation("variables.small",
		"spec.template: has too many containers, volumes, ports, capabilities, sysctls or annotations to be checked; "+
			"remove what is not needed (the policy "+SizesPolicy+" has the numbers)")}
	for _, c := range p.TemplatePolicy.Conditions() {
		validations = append(validations, p.rule(c))
	}
	return policy{TemplatesPolicy, map[string]any{"matchConditions": changed("spec.?template"),
		"variables": append([]any{variable("overlay", overlay)}, variables...), "validations": validations}}
}

// checked are the containers that are checked: those of the template which it does not delete, and for restricted also
// the one that skiff declares, where the template leaves it as it is: without anything that restricted asks for.
func (p Policies) checked() string {
	const listed = "variables.small ? variables.containers : []"
	const kept = "(" + listed + ").filter(c, !(c[?'$patch'].orValue('') in ['delete', 'replace']))"
	if p.TemplatePolicy != podpolicy.Restricted {
		return kept
	}
	var own []string
	for _, t := range p.Templates {
		own = append(own, fmt.Sprintf("'%s': '%s'", t.Resource.Plural, t.Container))
	}
	name := "{" + strings.Join(own, ", ") + "}[request.resource.resource]"
	return fmt.Sprintf("%s + ((%s).exists(c, c.?name.orValue('') == %s || c[?'$patch'].orValue('') == 'replace') ? "+
		"[] : [dyn({'name': %[3]s})])", kept, listed, name)
}

// rule is one rule of the template policy, with a message that names the field, and of a container its name.
func (p Policies) rule(c podpolicy.Condition) any {
	const in = "spec.template."
	next := fmt.Sprintf("; correct it, or ask the operator of skiff, which runs with --template-policy=%s",
		p.TemplatePolicy)
	if !c.Container {
		return validation(c.Expression, in+c.Field+" "+c.Must+next)
	}
	rest := fmt.Sprintf("%s %s%s", c.Field, c.Must, next)
	names := "variables.checked.filter(c, !(" + c.Expression + ")).map(c, string(c.?name.orValue('')))"
	return dynamic("variables.checked.all(c, "+c.Expression+")", in+"spec.containers[*]."+rest,
		fmt.Sprintf("'%sspec, container ' + %s[0] + ': %s'", in, names, rest))
}

// trueValues are what skiff takes for true in an annotation.
var trueValues = []string{"1", "t", "T", "TRUE", "true", "True"}

// adopt lets the annotation skiff.dev/adopt be set only by a user who could take over the pods as well without skiff.
// Each verb is an expression: one can pay for two questions about rights, and no more.
func adopt() policy {
	const annotation = "skiff.dev/adopt"
	set := func(object string) string {
		return fmt.Sprintf("%s.metadata.?annotations[?'%s'].orValue('') in ['%s']", object, annotation,
			strings.Join(trueValues, "', '"))
	}
	var validations []any
	for _, verb := range []string{"create", "patch", "delete"} {
		const text = "metadata.annotations: " + annotation + " has skiff take over objects that others made; "
		const next = " pods in this namespace; remove it, or have it set by a user who may"
		validations = append(validations, dynamic(
			"authorizer.group('').resource('pods').namespace(request.namespace).check('"+verb+"').allowed()",
			text+"you may not "+verb+next,
			fmt.Sprintf("'%suser ' + request.userInfo.username + ' may not %s%s'", text, verb, next)))
	}
	return policy{AdoptPolicy, map[string]any{"validations": validations, "matchConditions": []any{
		map[string]any{"name": "set", "expression": set("object")},
		map[string]any{"name": "was-not-set",
			"expression": "request.operation == 'CREATE' || !(" + set("oldObject") + ")"}}}}
}
