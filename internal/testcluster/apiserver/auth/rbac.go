package auth

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// Group is the API group of roles and bindings.
const Group = "rbac.authorization.k8s.io"

// Action is what a user wants to do.
type Action struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
	Path                                                string // of a request that is for no resource
}

// Rule is a rule of a role.
type Rule struct{ Verbs, Groups, Resources, Names, URLs []string }

// Objects finds roles and bindings by their plural. Get returns nil for an object that does not exist.
type Objects struct {
	Get  func(plural, namespace, name string) kinds.Object
	List func(plural, namespace string) []kinds.Object
}

// Allowed says whether a user may do something, and why: which binding allows it, or which roles are missing.
func (s Objects) Allowed(u kinds.User, a Action) (ok bool, why string) {
	if IsMaster(u) {
		return true, ""
	}
	problems := s.visit(u, a.Namespace, func(from func() string, r Rule) bool {
		if ok = r.allows(a); ok {
			why = "RBAC: allowed by " + from()
		}
		return !ok
	})
	if !ok && len(problems) > 0 {
		why = "RBAC: " + obj.Aggregate(problems)
	}
	return ok, why
}

// IsMaster says whether a user may do everything, without a role.
func IsMaster(u kinds.User) bool { return slices.Contains(u.Groups, Masters) }

// Rules returns the rules that apply to a user in a namespace, and what is wrong with bindings: "" if nothing is.
func (s Objects) Rules(u kinds.User, namespace string) (rules []Rule, problems string) {
	if IsMaster(u) {
		rules = slices.Clone(everything)
	}
	found := s.visit(u, namespace, func(_ func() string, r Rule) bool {
		rules = append(rules, r)
		return true
	})
	return rules, obj.Aggregate(found)
}

var all = []string{"*"}

// visit calls do for each rule that applies to a user, until it returns false. from describes the binding. The result
// says which roles of bindings are missing.
func (s Objects) visit(u kinds.User, namespace string, do func(from func() string, r Rule) bool) (problems []string) {
	bindings := s.List("clusterrolebindings", "")
	if namespace != "" {
		bindings = append(bindings, s.List("rolebindings", namespace)...)
	}
	for _, b := range bindings {
		subject := subjectOf(b, u)
		if subject == nil {
			continue
		}
		rules, err := s.Referenced(obj.Map(b, "roleRef"), obj.String(b, "metadata", "namespace"))
		if err != "" {
			problems = append(problems, err)
			continue
		}
		for _, r := range rules {
			if !do(func() string { return describe(b, subject) }, r) {
				return problems
			}
		}
	}
	return problems
}

// Referenced returns the rules of the role that a binding in a namespace refers to. problem is "" if it exists.
func (s Objects) Referenced(ref kinds.Object, namespace string) (rules []Rule, problem string) {
	kind, name := obj.String(ref, "kind"), obj.String(ref, "name")
	switch kind {
	case "Role":
	case "ClusterRole":
		namespace = ""
	default:
		return nil, fmt.Sprintf("unsupported role reference kind: %q", kind)
	}
	kind = strings.ToLower(kind)
	role := s.Get(kind+"s", namespace, name)
	if role == nil {
		return nil, fmt.Sprintf("%s.%s %q not found", kind, Group, name)
	}
	return RulesOf(role), ""
}

// RulesOf returns the rules of a role.
func RulesOf(role kinds.Object) []Rule {
	return obj.Each(obj.Maps(role, "rules"), func(r kinds.Object) Rule {
		return Rule{Verbs: obj.Texts(r, "verbs"), Groups: obj.Texts(r, "apiGroups"),
			Resources: obj.Texts(r, "resources"), Names: obj.Texts(r, "resourceNames"),
			URLs: obj.Texts(r, "nonResourceURLs")}
	})
}

// subjectOf returns the first subject of a binding that is the user, nil if there is none.
func subjectOf(binding kinds.Object, u kinds.User) kinds.Object {
	for _, s := range obj.Maps(binding, "subjects") {
		name, is := obj.String(s, "name"), false
		switch obj.String(s, "kind") {
		case "User":
			is = u.Name == name
		case "Group":
			is = slices.Contains(u.Groups, name)
		case "ServiceAccount":
			ns := accountNamespace(s, binding)
			is = ns != "" && u.Name == "system:serviceaccount:"+ns+":"+name
		}
		if is {
			return s
		}
	}
	return nil
}

// accountNamespace is the namespace of a service account: by default that of the binding.
func accountNamespace(subject, binding kinds.Object) string {
	return cmp.Or(obj.String(subject, "namespace"), obj.String(binding, "metadata", "namespace"))
}

// describe names a binding and why it applies. The real server puts the name before the namespace, too.
func describe(b, subject kinds.Object) string {
	kind, name, who := "ClusterRoleBinding", obj.String(b, "metadata", "name"), obj.String(subject, "name")
	if ns := obj.String(b, "metadata", "namespace"); ns != "" {
		kind, name = "RoleBinding", name+"/"+ns
	}
	if obj.String(subject, "kind") == "ServiceAccount" {
		who += "/" + accountNamespace(subject, b)
	}
	return fmt.Sprintf("%s %q of %s %q to %s %q", kind, name, obj.String(b, "roleRef", "kind"),
		obj.String(b, "roleRef", "name"), obj.String(subject, "kind"), who)
}

// Bootstrap has the roles and bindings of a new cluster as JSON, one in a line: those of kube-apiserver 1.36.3 for
// people and their programs. Those for the components of a cluster are left out.
//
//go:embed bootstrap.jsonl
var Bootstrap []byte

// KeepGranted removes from a role of Bootstrap, in place, what a version does not grant.
func KeepGranted(role kinds.Object, set features.Set) {
	rules := obj.Maps(role, "rules")
	var kept []any
	for _, rule := range rules {
		whole := true
		for name, list := range rule {
			words := slices.DeleteFunc(list.([]any), func(word any) bool { return !set.Grants(word.(string)) })
			rule[name], whole = words, whole && len(words) > 0
		}
		if whole {
			kept = append(kept, rule)
		}
	}
	if len(rules) > 0 {
		role["rules"] = kept
	}
}

// Aggregated returns the rules of a cluster role that aggregates those of others, as JSON, and whether it does so.
func Aggregated(role kinds.Object, roles []kinds.Object) (rules []any, aggregates bool) {
	if obj.Map(role, "aggregationRule") == nil {
		return nil, false
	}
	rules = []any{}
	for _, s := range obj.Maps(role, "aggregationRule", "clusterRoleSelectors") {
		for _, other := range roles {
			if obj.String(other, "metadata", "name") == obj.String(role, "metadata", "name") ||
				!kinds.Selects(s, other) {
				continue
			}
			for _, rule := range obj.Slice(other, "rules") {
				if !slices.ContainsFunc(rules, func(r any) bool { return patch.Equal(r, rule) }) {
					rules = append(rules, patch.Copy(rule))
				}
			}
		}
	}
	return rules, true
}
