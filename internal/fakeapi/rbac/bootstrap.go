package rbac

import (
	_ "embed"
	"slices"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// Bootstrap has the roles and bindings of a new cluster as JSON, one in a line: those of kube-apiserver 1.36.3 for
// people and their programs. Those for the components of a cluster are left out.
//
//go:embed bootstrap.jsonl
var Bootstrap []byte

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
