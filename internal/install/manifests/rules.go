package manifests

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"skiff/internal/runtime/kube"
)

// Rule is one rule of a Role: resources of one API group that need the same verbs for the same reasons.
type Rule struct {
	Group     string
	Resources []string
	Verbs     []string
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

// YAML writes rules as the list below `rules:` of a Role. Those that write are for the objects of these names only,
// if there are any.
func YAML(rules []Rule, names []string) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "  # %s\n  - apiGroups: [%s]\n    resources: [%s]\n", strings.Join(r.Why, "; "),
			cmp.Or(r.Group, `""`), strings.Join(r.Resources, ", "))
		if len(names) > 0 && slices.Contains(r.Verbs, "patch") {
			fmt.Fprintf(&b, "    resourceNames: [%s] # and no other\n", strings.Join(names, ", "))
		}
		fmt.Fprintf(&b, "    verbs: [%s]\n", strings.Join(r.Verbs, ", "))
	}
	return b.String()
}
