package e2e

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/operators/redis"
	"skiff/internal/operators/restart"
	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/kube"
)

// operatorRights are what each controller declares that it needs, by its name.
var operatorRights = map[string][]kube.Right{
	"webserver": webserver.Rights,
	"redis":     redis.Rights,
	"restart":   restart.Rights,
}

// allRights are those of all controllers.
func allRights() []kube.Right {
	return slices.Concat(webserver.Rights, redis.Rights, restart.Rights)
}

// without returns rights without a verb on a resource, "pods" or "deployments.apps".
func without(rights []kube.Right, verb, resource string) []kube.Right {
	out := slices.Clone(rights)
	for i, r := range out {
		if r.String() == resource {
			out[i].Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return v == verb })
		}
	}
	return slices.DeleteFunc(out, func(r kube.Right) bool { return len(r.Verbs) == 0 })
}

// grant is a manifest that gives a user rights and not a verb more: a ClusterRole, or a Role of the namespace that it
// is applied to, and its binding.
func grant(kind, name, user string, rights []kube.Right) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\nrules:\n", kind, name)
	for _, r := range rights {
		resource := r.Resource.Plural
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		fmt.Fprintf(&b, "- {apiGroups: [%q], resources: [%s], verbs: [%s]}\n", r.Resource.Group, resource,
			strings.Join(r.Verbs, ", "))
	}
	fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %[1]sBinding\nmetadata: {name: %[2]s}\n"+
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[2]s}\n"+
		"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[3]s}]\n", kind, name, user)
	return b.String()
}
