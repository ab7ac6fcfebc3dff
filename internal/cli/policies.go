package cli

import (
	"slices"

	"skiff/internal/install/manifests"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/podpolicy"
)

// admissionPolicies is what --policies prints.
func (f *manifestsFlags) admissionPolicies(runFlags []string) (string, error) {
	run := newRun()
	if err := run.ParseFlags(runFlags); err != nil {
		return "", Usagef("flags of skiff run after --: %w", err)
	}
	name, err := run.Flags().GetString("template-policy")
	if err != nil {
		return "", err
	}
	if err := checkTemplatePolicy(name); err != nil {
		return "", err
	}
	p := manifests.Policies{Templates: templatesOf(f.controllers), TemplatePolicy: podpolicy.Policy(name)}
	if len(p.Templates) == 0 {
		return "", Usagef("--policies: none of these --controllers has a custom resource with a pod template; name " +
			"webserver or redis")
	}
	switch {
	case len(f.namespaced) > 0:
		p.Suffix = "-" + f.namespace
		p.Namespaces = labels.Requirements{{Key: "kubernetes.io/metadata.name", Operator: "In", Values: f.namespaced}}
	case f.selector != "":
		selector, err := labels.Parse(f.selector)
		if err != nil {
			return "", Usagef("--watch-namespace-selector %q: %w", f.selector, err)
		}
		p.Namespaces = selector.Requirements()
	}
	return p.YAML()
}

// templatesOf are the custom resources of the named controllers that have a pod template.
func templatesOf(controllers []string) (out []manifests.Template) {
	for _, op := range operators {
		if op.container != "" && slices.Contains(controllers, op.name) {
			out = append(out, manifests.Template{Resource: op.rights[0].Resource, Container: op.container})
		}
	}
	return out
}
