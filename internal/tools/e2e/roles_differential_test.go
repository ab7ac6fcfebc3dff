package e2e

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver"
)

// With --rbac the embedded server decides as the real one, in its words, and starts with the same roles.
func TestEmbeddedServerAuthorizesAsTheRealOne(t *testing.T) {
	cluster := ownCluster(t)
	server := apiserver.New(apiserver.Options{Token: admin.Token, KeepNamespaces: true, RBAC: true})
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		web.Close()
	})
	fake := must(NewAPI(web.URL, "", admin.Token))(t)
	runDifferential(t, readScript(t, "users/roles.txtar", nil), cluster.Admin, fake, nil)
	_, _, shared := testdata(t, "users/roles.txtar", nil)
	for _, kind := range reviewKinds {
		t.Run(kind.kind, func(t *testing.T) {
			runDifferential(t, kind.script(shared["table"]), cluster.Admin, fake, []*Allowance{
				{Script: "*", Step: "of another *", Path: "Body.message",
					Why: "The real server names a line of its source."},
				{Script: "*", Step: "*", Path: "Body.status.nonResourceRules*", Why: "Bindings have no order."}})
		})
	}

	for _, plural := range []string{"clusterroles", "clusterrolebindings"} {
		const path = "/apis/rbac.authorization.k8s.io/v1/"
		embedded := must(fake.Get(t.Context(), path+plural))(t)
		for _, item := range embedded["items"].([]any) {
			o := Object(item.(map[string]any))
			theirs, err := cluster.Admin.Get(t.Context(), path+plural+"/"+strings.ReplaceAll(o.Str("metadata", "name"),
				":", "%3A"))
			if err != nil {
				t.Errorf("%s %s: %v", plural, o.Str("metadata", "name"), err)
				continue
			}
			for _, field := range []string{"rules", "roleRef", "subjects", "aggregationRule"} {
				if field == "rules" && o["aggregationRule"] != nil {
					continue // this control plane has no controller manager, which fills them in
				}
				got, _ := json.Marshal(o[field])
				want, _ := json.Marshal(theirs[field])
				if string(got) != string(want) {
					t.Errorf("%s %s: %s is\n%s, on the real server\n%s", plural, o.Str("metadata", "name"), field, got,
						want)
				}
			}
		}
	}
}
