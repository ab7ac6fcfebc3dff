package auth

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/testcluster/apiserver/kinds"
)

func (r Rule) allows(a Action) bool {
	if !has(r.Verbs, a.Verb) {
		return false
	}
	if a.Path != "" {
		return slices.ContainsFunc(r.URLs, func(url string) bool { return covers(url, a.Path) })
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return has(r.Groups, a.Group) && r.hasResource(resource) &&
		(len(r.Names) == 0 || slices.Contains(r.Names, a.Name))
}

func has(list []string, v string) bool { return slices.Contains(list, "*") || slices.Contains(list, v) }

// hasResource says whether a rule is for a resource, or a subresource in the form pods/log.
func (r Rule) hasResource(resource string) bool {
	_, sub, isSub := strings.Cut(resource, "/")
	return has(r.Resources, resource) || isSub && slices.Contains(r.Resources, "*/"+sub)
}

// covers says whether a path is one that a nonResourceURL of a rule stands for.
func covers(url, path string) bool {
	return url == path || strings.HasSuffix(url, "*") && strings.HasPrefix(path, strings.TrimRight(url, "*"))
}

// everything are the rules of a user who may do everything.
var everything = []Rule{{Verbs: all, Groups: all, Resources: all}, {Verbs: all, URLs: all}}

// Escalation returns what is wrong with a user granting rules: "" if the user has all these rights. grantsAny is for a
// role that aggregates others, which may become anything.
func (s Objects) Escalation(u kinds.User, namespace string, rules []Rule, grantsAny bool) string {
	if size(rules) > maxRights {
		return fmt.Sprintf("the rules grant more than %d rights: use fewer verbs, groups, resources or names",
			maxRights)
	}
	granted, problems := s.Rules(u, namespace)
	lacking := missing(granted, rules)
	if len(lacking) == 0 {
		if grantsAny && len(missing(granted, everything)) > 0 {
			return "must have cluster-admin privileges to use the aggregationRule"
		}
		return ""
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", u.Name,
		u.Groups, strings.Join(lacking, "\n"))
	if problems != "" {
		text += "; resolution errors: [" + problems + "]"
	}
	return text
}

// maxRights limits the work of comparing rules: the rights of a rule are a product of its lists.
const maxRights = 100_000

// size is the number of rights that rules grant, or more than maxRights.
func size(rules []Rule) int {
	n := 0
	for _, r := range rules {
		one := 1
		for _, list := range []int{len(r.Verbs), len(r.Groups), len(r.Resources), max(1, len(r.Names))} {
			one = min(one*list, maxRights+1)
		}
		n = min(n+one+len(r.Verbs)*len(r.URLs), maxRights+1)
	}
	return n
}

// missing describes the rights of rules that granted does not have, sorted. Verbs of one resource are one right.
func missing(granted, rules []Rule) []string {
	var out []string
	verbs := map[string]*Rule{} // by what they are for
	for _, r := range rules {
		r.each(func(part Rule) {
			if slices.ContainsFunc(granted, func(h Rule) bool { return h.includes(part) }) {
				return
			}
			key := fmt.Sprintf("%q", []any{part.Groups, part.Resources, part.Names})
			switch {
			case part.URLs != nil:
				out = append(out, part.String())
			case verbs[key] == nil:
				verbs[key] = &part
			default:
				verbs[key].Verbs = append(verbs[key].Verbs, part.Verbs...)
			}
		})
	}
	for _, r := range verbs {
		out = append(out, r.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// each calls do with the rights of a rule: one verb on one resource, with one name or any, or on one URL.
func (r Rule) each(do func(part Rule)) {
	one := func(s string) []string { return []string{s} }
	for _, verb := range r.Verbs {
		for _, url := range r.URLs {
			do(Rule{Verbs: one(verb), URLs: one(url)})
		}
		for _, group := range r.Groups {
			for _, resource := range r.Resources {
				if len(r.Names) == 0 {
					do(Rule{Verbs: one(verb), Groups: one(group), Resources: one(resource)})
				}
				for _, name := range r.Names {
					do(Rule{Verbs: one(verb), Groups: one(group), Resources: one(resource), Names: one(name)})
				}
			}
		}
	}
}

// includes says whether a rule gives a right, one of each.
func (r Rule) includes(part Rule) bool {
	if !has(r.Verbs, part.Verbs[0]) {
		return false
	}
	if part.URLs != nil {
		return slices.ContainsFunc(r.URLs, func(url string) bool { return covers(url, part.URLs[0]) })
	}
	return has(r.Groups, part.Groups[0]) && r.hasResource(part.Resources[0]) &&
		(len(r.Names) == 0 || part.Names != nil && slices.Contains(r.Names, part.Names[0]))
}

// String is the form of a rule in errors.
func (r Rule) String() string {
	var out []string
	for _, field := range []struct {
		name   string
		values []string
	}{{"APIGroups", r.Groups}, {"Resources", r.Resources}, {"NonResourceURLs", r.URLs}, {"ResourceNames", r.Names},
		{"Verbs", r.Verbs}} {
		if len(field.values) > 0 {
			out = append(out, fmt.Sprintf("%s:%q", field.name, field.values))
		}
	}
	return "{" + strings.Join(out, ", ") + "}"
}
