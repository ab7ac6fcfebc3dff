package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

const (
	// maxRules is how many rules an answer of customize may have: each changed object is compared with all rules of
	// all parents.
	maxRules = 100
	// maxNames is how many names all rules together may have, for the same reason.
	maxNames = 10_000
)

// Rule selects related objects of one kind.
type Rule struct {
	spec.Type
	Labels labels.Requirements // empty: all
	// ByNamespace says that NamespaceLabels were given, which select among namespaced kinds only.
	ByNamespace     bool
	NamespaceLabels labels.Requirements // of their namespace; empty: all
	Namespace       string              // "": all
	Names           []string            // sorted; empty: all
}

// CustomizeOptions are the facts to check an answer of customize against.
type CustomizeOptions struct {
	Version int
	Strict  bool
	Parent  kube.Key
}

// DecodeCustomize reads an answer of customize and checks all of it. An error begins with the path of the fault.
func DecodeCustomize(body []byte, o CustomizeOptions) ([]Rule, error) {
	object, err := decode(body, o.Strict)
	if err != nil {
		return nil, err
	}
	if o.Strict {
		if err := known(object, "", "relatedResources", "id"); err != nil {
			return nil, err
		}
	}
	items, err := listOf(object, "", "relatedResources")
	if err != nil {
		return nil, err
	}
	if _, ok := object["relatedResources"]; !ok {
		return nil, errors.New(`it has no relatedResources: say "relatedResources": [] if there are none`)
	}
	if len(items) > maxRules {
		return nil, fmt.Errorf("relatedResources: has %d items, at most %d are allowed", len(items), maxRules)
	}
	rules, names := make([]Rule, 0, len(items)), 0
	for i, item := range items {
		path := fmt.Sprintf("relatedResources[%d]", i)
		rule, err := o.rule(item, path)
		if err != nil {
			return nil, err
		}
		if names += len(rule.Names); names > maxNames {
			return nil, fmt.Errorf("%s.names: all rules together have more than %d names", path, maxNames)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func (o *CustomizeOptions) rule(item any, path string) (r Rule, err error) {
	fields, ok := item.(map[string]any)
	if !ok {
		return r, typeError(path, "an object", item)
	}
	if o.Strict {
		if err := known(fields, path, "apiVersion", "resource", "labelSelector", "namespaceSelector", "namespace",
			"names"); err != nil {
			return r, err
		}
	}
	if r.APIVersion, err = textOf(fields, path, "apiVersion"); err != nil {
		return r, err
	}
	if r.Resource, err = textOf(fields, path, "resource"); err != nil {
		return r, err
	}
	if r.Namespace, err = textOf(fields, path, "namespace"); err != nil {
		return r, err
	}
	if r.Names, err = textsOf(fields, path, "names"); err != nil {
		return r, err
	}
	slices.Sort(r.Names)
	byLabels := false
	if r.Labels, byLabels, err = selectorOf(fields, path, "labelSelector", o.Strict); err != nil {
		return r, err
	}
	r.NamespaceLabels, r.ByNamespace, err = selectorOf(fields, path, "namespaceSelector", o.Strict)
	if err != nil {
		return r, err
	}
	return r, o.complete(&r, path, byLabels)
}

// complete checks a rule as a whole. Under a namespaced parent, requests of version 1 have objects of its namespace
// only, and so have their rules.
func (o *CustomizeOptions) complete(r *Rule, path string, byLabels bool) error {
	inside := o.Version == V1 && o.Parent.Namespace != ""
	switch {
	case r.APIVersion == "":
		return missing(path + ".apiVersion")
	case r.Resource == "":
		return missing(path + ".resource")
	case r.Resource != strings.ToLower(r.Resource) || strings.ContainsAny(r.Resource, "/. "):
		return fmt.Errorf("%s.resource: must be a lower-case plural such as deployments, is %s", path,
			quote(r.Resource))
	case len(r.Names) > 0 && byLabels:
		return fmt.Errorf("%s.names: cannot be used together with labelSelector", path)
	case len(r.Names) > 0 && r.ByNamespace:
		return fmt.Errorf("%s.names: cannot be used together with namespaceSelector", path)
	case r.Namespace != "" && r.ByNamespace:
		return fmt.Errorf("%s.namespace: cannot be used together with namespaceSelector", path)
	case r.ByNamespace && inside:
		return fmt.Errorf("%s.namespaceSelector: needs version v2 of the hook, or a cluster-scoped parent", path)
	case inside && r.Namespace != "" && r.Namespace != o.Parent.Namespace:
		return fmt.Errorf("%s.namespace: is %s, but the parent is in %s: other namespaces need version v2 of the hook",
			path, quote(r.Namespace), o.Parent.Namespace)
	}
	if inside {
		r.Namespace = o.Parent.Namespace
	}
	return nil
}

// CheckScope refuses a rule which cannot select objects of the discovered kind.
func (r *Rule) CheckScope(found kube.Resource) error {
	if r.ByNamespace && found.ClusterScoped {
		return fmt.Errorf("related resource %s: namespaceSelector is for namespaced kinds, and %s is cluster-scoped",
			found, found.Kind)
	}
	return nil
}

// Matches says whether a rule selects an object of the rule's kind, given the labels of object and namespace.
func (r *Rule) Matches(key kube.Key, object, namespace kube.Labels) bool {
	if key.Namespace != "" && r.Namespace != "" && key.Namespace != r.Namespace {
		return false
	}
	if len(r.Names) > 0 {
		if _, ok := slices.BinarySearch(r.Names, key.Name); !ok {
			return false
		}
	}
	return r.Labels.Match(object) && r.NamespaceLabels.Match(namespace)
}
