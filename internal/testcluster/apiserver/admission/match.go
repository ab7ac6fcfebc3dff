package admission

import (
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// Matcher is what a webhook or a policy wants to be asked about: rules, selectors and the matchPolicy.
type Matcher struct {
	rules, exclude      []map[string]any
	exact               bool
	namespaces, objects obj.Labels
}

// NewMatcher reads the rules and excluded rules of spec, which are at the given fields, its namespaceSelector,
// objectSelector and matchPolicy.
func NewMatcher(spec map[string]any, rules, exclude string) (*Matcher, error) {
	m := &Matcher{rules: obj.Maps(spec, rules), exact: obj.String(spec, "matchPolicy") == "Exact",
		exclude: obj.Maps(spec, exclude)}
	var err error
	if m.namespaces, err = obj.ParseLabels(kinds.FormatSelector(obj.Map(spec, "namespaceSelector"))); err == nil {
		m.objects, err = obj.ParseLabels(kinds.FormatSelector(obj.Map(spec, "objectSelector")))
	}
	return m, err
}

// Concerns is what Plugin.Concerns asks: whether a rule could match.
func (m *Matcher) Concerns(a *Attributes) bool {
	_, ok := m.resource(a)
	return ok
}

// Match returns the resource as which a write matches: mostly its own, else an equivalent one. The error is the answer
// where the namespace does not exist.
func (m *Matcher) Match(a *Attributes) (kube.Resource, bool, error) {
	inNamespace, missing := m.matchNamespace(a)
	if !inNamespace && missing == nil || !m.matchObject(a) {
		return kube.Resource{}, false, nil
	}
	r, ok := m.resource(a)
	return r, ok && missing == nil, missing
}

func (m *Matcher) resource(a *Attributes) (kube.Resource, bool) {
	candidates := []kube.Resource{a.Resource}
	if !m.exact {
		candidates = append(candidates, a.Equivalents...)
	}
	for _, r := range candidates {
		if anyRule(m.exclude, a, r) {
			return r, false
		}
	}
	if anyRule(m.rules, a, a.Resource) {
		return a.Resource, true
	}
	for _, rule := range m.rules { // earlier rules first
		for _, r := range candidates[1:] {
			if anyRule([]map[string]any{rule}, a, r) {
				return r, true
			}
		}
	}
	return a.Resource, false
}

func anyRule(rules []map[string]any, a *Attributes, r kube.Resource) bool {
	return slices.ContainsFunc(rules, func(rule map[string]any) bool { return matches(rule, a, r) })
}

// matches reports whether a rule matches a write, were it of resource r.
func matches(rule map[string]any, a *Attributes, r kube.Resource) bool {
	switch scope := obj.String(rule, "scope"); {
	case scope == "Namespaced" && r.ClusterScoped, scope == "Cluster" && !r.ClusterScoped:
		return false
	case !oneOf(rule, "operations", a.Operation), !oneOf(rule, "apiGroups", r.Group),
		!oneOf(rule, "apiVersions", r.Version):
		return false
	}
	if names := obj.Texts(rule, "resourceNames"); len(names) > 0 && !slices.Contains(names, a.Name) {
		return false
	}
	return slices.ContainsFunc(obj.Texts(rule, "resources"), func(text string) bool {
		resource, sub, _ := strings.Cut(text, "/")
		return (resource == "*" || resource == r.Plural) && (sub == "*" || sub == a.Subresource)
	})
}

func oneOf(rule map[string]any, list, value string) bool {
	all := obj.Texts(rule, list)
	return slices.Contains(all, "*") || slices.Contains(all, value)
}

// matchNamespace looks at the labels of the namespace, for a Namespace that is written at its new ones. Objects
// outside of namespaces match always.
func (m *Matcher) matchNamespace(a *Attributes) (bool, error) {
	namespaces := kube.Resource{Version: "v1", Plural: "namespaces"}
	ns := a.NamespaceObject
	switch isNamespace := a.Resource.Group == "" && a.Resource.Plural == namespaces.Plural; {
	case a.Namespace == "" && !isNamespace, len(m.namespaces) == 0:
		return true, nil
	case isNamespace && (a.Operation == Delete || a.Subresource != ""):
		ns = a.OldObject
	case isNamespace:
		ns = a.Object
	}
	if ns == nil {
		return false, httpd.NotFound(namespaces, a.Namespace)
	}
	return m.namespaces.Matches(obj.Strings(ns, "metadata", "labels")), nil
}

// matchObject looks at the labels of the new and of the old object.
func (m *Matcher) matchObject(a *Attributes) bool {
	matches := func(o map[string]any) bool {
		return o != nil && m.objects.Matches(obj.Strings(o, "metadata", "labels"))
	}
	return len(m.objects) == 0 || matches(a.Object) || matches(a.OldObject)
}
