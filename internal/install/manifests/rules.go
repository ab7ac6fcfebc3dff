package manifests

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// Rule is one rule of a Role: resources of one API group that need the same verbs for the same reasons.
type Rule struct {
	Group     string
	Resources []string
	Verbs     []string
	Names     []string // of the objects that it is for; none: all
	Why       []string
}

// verbs are in the order in which a Role lists them.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

// groups are in the order in which a Role lists them.
var groups = []string{"skiff.dev", "apps", "", "events.k8s.io", "coordination.k8s.io"}

// Rules makes the rules of rights, with one rule for a resource that several controllers need.
func Rules(rights []kube.Right) []Rule {
	of := map[string]*Rule{} // by resource
	var order []string
	for _, r := range rights {
		name := r.Resource.Plural
		if r.Subresource != "" {
			name += "/" + r.Subresource
		}
		key := r.Resource.Group + " " + name
		if of[key] == nil {
			of[key] = &Rule{Group: r.Resource.Group, Resources: []string{name}}
			order = append(order, key)
		}
		rule := of[key]
		rule.Verbs = append(rule.Verbs, r.Verbs...)
		if !slices.Contains(rule.Why, r.Why) {
			rule.Why = append(rule.Why, r.Why)
		}
	}
	var out []Rule
	for _, key := range order {
		rule := of[key]
		rule.Verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool {
			return !slices.Contains(rule.Verbs, v)
		})
		i := slices.IndexFunc(out, func(o Rule) bool {
			return o.Group == rule.Group && slices.Equal(o.Verbs, rule.Verbs) && slices.Equal(o.Why, rule.Why)
		})
		if i < 0 {
			out = append(out, *rule)
			continue
		}
		out[i].Resources = append(out[i].Resources, rule.Resources...)
	}
	sort.SliceStable(out, func(i, j int) bool {
		return slices.Index(groups, out[i].Group) < slices.Index(groups, out[j].Group)
	})
	return out
}

// YAML writes rules as the list below `rules:` of a Role.
func YAML(rules []Rule) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "  # %s\n  - apiGroups: [%s]\n    resources: [%s]\n", strings.Join(r.Why, "; "),
			cmp.Or(r.Group, `""`), strings.Join(r.Resources, ", "))
		if len(r.Names) > 0 {
			names := make([]string, len(r.Names))
			for i, name := range r.Names {
				names[i] = word(name)
			}
			fmt.Fprintf(&b, "    resourceNames: [%s] # and no other\n", strings.Join(names, ", "))
		}
		fmt.Fprintf(&b, "    verbs: [%s]\n", strings.Join(r.Verbs, ", "))
	}
	return b.String()
}

// Account is a service account. Objects that are made for it have its name as their label.
type Account struct{ Namespace, Name string }

// Grant is a role with these rules, and the binding of the account to it: a ClusterRole where namespace is "".
func (a Account) Grant(namespace, name string, rules []Rule) string {
	const api = "rbac.authorization.k8s.io"
	kind := "Role"
	if namespace == "" {
		kind = "ClusterRole"
	}
	return a.head(api+"/v1", kind, namespace, name) + "rules:\n" + YAML(rules) + "---\n" +
		a.head(api+"/v1", kind+"Binding", namespace, name) + fmt.Sprintf(`roleRef:
  apiGroup: %s
  kind: %s
  name: %s
subjects:
  - kind: ServiceAccount
    name: %s
    namespace: %s
`, api, kind, word(name), word(a.Name), word(a.Namespace))
}

// notWords are names that YAML reads as something else, in one of its versions.
var notWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// word is a valid name as YAML has it: in quotes if it would be a number or a boolean without them.
func word(name string) string {
	if name[0] >= 'a' && !slices.Contains(notWords, name) {
		return name
	}
	return strconv.Quote(name)
}

// label is the label of all that is made for the account.
func (a Account) label() string { return "app.kubernetes.io/name: " + word(a.Name) }

// head is an object without a spec. namespace is "" for a cluster-scoped one.
func (a Account) head(apiVersion, kind, namespace, name string) string {
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", apiVersion, kind, word(name))
	if namespace != "" {
		text += "  namespace: " + word(namespace) + "\n"
	}
	return text + "  labels:\n    " + a.label() + "\n"
}
