// Package admission decides whether a write to the embedded API server is admitted, and changes it on the way: it
// describes writes (Attributes) and calls admission webhooks, as a v1.36 kube-apiserver does. It calls the webhooks
// of conversion, too. It knows nothing of the server: objects are JSON values, and what it has to look up is in the
// Attributes.
//
// It keeps no lock while it calls a webhook. Its goroutines are those of one call of the validating webhooks, which
// waits for them, and those of net/http, whose idle connections Close ends.
package admission

import (
	"context"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// The operations of a write, as rules name them.
const (
	Create = "CREATE"
	Update = "UPDATE"
	Delete = "DELETE"
)

// Attributes are what is known of a write when it is admitted.
type Attributes struct {
	Operation   string        // Create, Update or Delete
	Kind        kube.Resource // the group, version and kind of Object: for some subresources that of a Scale, say
	Resource    kube.Resource // the group, version and plural of the request
	Subresource string
	Namespace   string // of a Namespace: its own name
	Name        string // "" while a name is to be generated
	User        kinds.User
	DryRun      bool
	Options     map[string]any // CreateOptions, UpdateOptions, PatchOptions or DeleteOptions

	// Object is what is written, OldObject what is stored: nil where there is none. Both have apiVersion and kind.
	// A plugin may replace Object while it mutates, but changes neither of them in place.
	Object, OldObject map[string]any
	// NamespaceObject is the namespace of a namespaced object; nil if there is none.
	NamespaceObject map[string]any

	// Equivalents are the resources under which the same object is served, besides Resource itself.
	Equivalents []kube.Resource
	// Convert returns an object in the form of one of them, or back in that of Kind.
	Convert func(ctx context.Context, o map[string]any, to kube.Resource) (map[string]any, error)
	// Complete makes an object complete after a change: it drops unknown fields and sets defaults. The error is about
	// a field of the wrong type.
	Complete func(o map[string]any) (map[string]any, error)
	// Allowed says whether a user may do something, and why.
	Allowed func(u kinds.User, a auth.Action) (ok bool, why string)
	// Warn adds a warning to the answer. It can be called by several goroutines.
	Warn func(text string)
}

// Plugin is a part of the chain that admits writes. An error of Mutate and Validate is the answer to the request: a
// *kube.Status, or a 500.
type Plugin struct {
	// Concerns reports whether the plugin may have a say in a write of this operation and resource, of whose other
	// attributes only the kind, the subresource and the equivalents are known yet. It is called with the store locked.
	Concerns func(a *Attributes) bool
	// Mutate may replace a.Object. Plugins mutate one after the other, before the object is validated. nil: this one
	// does not.
	Mutate func(ctx context.Context, a *Attributes) error
	// Validate sees the object as it would be stored. nil: this one admits everything.
	Validate func(ctx context.Context, a *Attributes) error
}

// Chain is the plugins that admit a write, in their order.
type Chain []Plugin

// Concerning returns the plugins that may have a say in a write.
func (c Chain) Concerning(a *Attributes) Chain {
	return slices.DeleteFunc(slices.Clone(c), func(p Plugin) bool { return !p.Concerns(a) })
}

// Mutate has the plugins change the object of a write, one after the other.
func (c Chain) Mutate(ctx context.Context, a *Attributes) (err error) {
	for i := 0; err == nil && i < len(c); i++ {
		if c[i].Mutate != nil {
			err = c[i].Mutate(ctx, a)
		}
	}
	return err
}

// Validate asks the plugins whether a write is admitted, until one refuses it.
func (c Chain) Validate(ctx context.Context, a *Attributes) (err error) {
	for i := 0; err == nil && i < len(c); i++ {
		if c[i].Validate != nil {
			err = c[i].Validate(ctx, a)
		}
	}
	return err
}

// Admit has the plugins change what is not written in steps of its own, and then validate it.
func (c Chain) Admit(ctx context.Context, a *Attributes) error {
	if err := c.Mutate(ctx, a); err != nil {
		return err
	}
	return c.Validate(ctx, a)
}

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
