package auth

import (
	"testing"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// holding are the objects of a cluster in which the user bob has one role.
func holding(role kinds.Object) Objects {
	return Objects{
		Get: func(plural, _, _ string) kinds.Object { return role },
		List: func(plural, _ string) []kinds.Object {
			if plural != "clusterrolebindings" {
				return nil
			}
			return []kinds.Object{{"metadata": kinds.Object{"name": "b"},
				"roleRef":  kinds.Object{"kind": "ClusterRole", "name": "r"},
				"subjects": []any{kinds.Object{"kind": "User", "name": "bob"}}}}
		},
	}
}

func TestTheRolesOfANewClusterCanBeRead(t *testing.T) {
	all := obj.DecodeLines(Bootstrap)
	if len(all) != 19 {
		t.Errorf("%d roles and bindings", len(all))
	}
	for _, o := range all {
		if obj.String(o, "kind") == "ClusterRole" && obj.Map(o, "aggregationRule") == nil && len(RulesOf(o)) == 0 {
			t.Errorf("%v has no rules", o["metadata"])
		}
	}
}

// A user with a role may grant what the role has, and nothing that an empty role lacks.
func FuzzRules(f *testing.F) {
	f.Add(`{"rules":[{"apiGroups":[""],"resources":["pods/log","*/status"],"verbs":["get"],"resourceNames":["a"]}]}`,
		"get", "pods")
	f.Add(`{"rules":[{"nonResourceURLs":["/a*","*"],"verbs":["*"]},3,{"verbs":[null,{}]}],"aggregationRule":
		{"clusterRoleSelectors":[{"matchLabels":{"a":"b,c"}}]}}`, "", "/x")
	bob := kinds.User{Name: "bob"}
	f.Fuzz(func(t *testing.T, text, verb, resource string) {
		v, err := patch.Decode([]byte(text))
		role, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		rules, granted := RulesOf(role), holding(role)
		may, _ := granted.Allowed(bob, Action{Verb: verb, Resource: resource, Path: resource})
		if nobody, _ := holding(nil).Allowed(kinds.User{Name: "eve"}, Action{Verb: verb, Path: resource}); nobody {
			t.Error("eve has no binding")
		}
		if missing := granted.Escalation(bob, "", rules, false); missing != "" && size(rules) <= maxRights {
			t.Errorf("bob may not grant what he has: %s", missing)
		}
		if lacks := granted.Escalation(kinds.User{Name: "eve"}, "", rules, false); may && lacks == "" {
			t.Error("eve may grant what only bob has")
		}
		Aggregated(role, []kinds.Object{role, {"metadata": kinds.Object{"name": "x"}}})
	})
}
