package e2e

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver"
)

// roleScript asks for what roles allow and refuse: the texts of 403, escalation, reviews.
var roleScript = Script{Name: "roles", Steps: []Step{
	{Name: "nothing is allowed", Path: "/api/v1/${ns}/configmaps", As: "bob"},
	{Name: "nor an object", Path: "/api/v1/${ns}/configmaps/x", As: "bob"},
	{Name: "nor a subresource", Path: "/apis/apps/v1/${ns}/deployments/x/scale", As: "bob"},
	{Name: "nor a cluster's object", Method: "DELETE", Path: "/api/v1/nodes/x", As: "bob"},
	{Name: "nor a kind that nobody serves", Path: "/apis/example.test/v1/${ns}/things", As: "bob"},
	{Name: "nor a path", Path: "/metrics", As: "bob"},
	{Name: "names are escaped", Path: "/api/v1/${ns}/configmaps/x", As: "<bob&eve>"},
	{Name: "make a role", Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/${ns}/roles", Body: `{"metadata":{
		"name":"reader"},"rules":[{"apiGroups":[""],"resources":["configmaps","pods/log"],"verbs":["list","get"]},{
		"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"],"verbs":["create"]}]}`},
	{Name: "bind it", Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings", Body: `{"metadata":{
		"name":"reader"},"roleRef":{"kind":"Role","name":"reader"},"subjects":[{"kind":"User","name":"bob"}]}`},
	{Name: "what it allows", Path: "/api/v1/${ns}/configmaps", As: "bob", Until: "ConfigMapList"},
	{Name: "what it does not", Method: "POST", Path: "/api/v1/${ns}/configmaps", As: "bob", Body: `{"metadata":{
		"name":"x"}}`},
	{Name: "escalate", Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/${ns}/roles", As: "bob",
		Body: `{"metadata":{"name":"more"},"rules":[{"apiGroups":["","apps"],"resources":["configmaps","secrets"],
		"verbs":["list","get"]},{"apiGroups":[""],"resources":["pods"],"resourceNames":["a","b"],"verbs":["get"]}]}`},
	{Name: "grant what one has", Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/${ns}/roles", As: "bob",
		Body: `{"metadata":{"name":"less"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}`},
	{Name: "bind what one has not", Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings",
		As: "bob", Body: `{"metadata":{"name":"v"},"roleRef":{"kind":"ClusterRole","name":"system:auth-delegator"},
		"subjects":[]}`},
	{Name: "bind a role that does not exist", Method: "POST", As: "bob",
		Path: "/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings",
		Body: `{"metadata":{"name":"v"},"roleRef":{"kind":"Role","name":"none"},"subjects":[]}`},
	{Name: "may I", Method: "POST", Path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", As: "bob",
		Body: `{"spec":{"resourceAttributes":{"namespace":"${NS}","verb":"get","resource":"pods","subresource":"log"}}}`},
	{Name: "may I not", Method: "POST", Path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", As: "bob",
		Body: `{"spec":{"resourceAttributes":{"namespace":"${NS}","verb":"get","resource":"pods"}}}`},
	{Name: "may the administrator", Method: "POST", Path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		Body: `{"spec":{"nonResourceAttributes":{"verb":"get","path":"/x"}}}`},
	{Name: "may they", Method: "POST", Path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
		Body: `{"spec":{"user":"bob","resourceAttributes":{"namespace":"${NS}","verb":"list","resource":"configmaps"}}}`},
	{Name: "a group", Method: "POST", Path: "/apis/authorization.k8s.io/v1/${ns}/localsubjectaccessreviews",
		Body: `{"metadata":{"namespace":"${NS}"},"spec":{"groups":["g"],"resourceAttributes":{"namespace":"${NS}",
		"verb":"list","resource":"configmaps"}}}`},
	{Name: "in no namespace", Method: "POST", Path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", As: "bob",
		Body: `{"spec":{}}`},
	{Name: "a binding of nothing", Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/${ns}/rolebindings",
		Body: `{"metadata":{"name":"lost"},"roleRef":{"kind":"Role","name":"lost"},"subjects":[{"kind":"User",
		"name":"eve"}]}`},
	{Name: "is named", Path: "/api/v1/${ns}/configmaps", As: "eve", Until: "RBAC"},
}}

// With --rbac the embedded server decides as the real one, in its words, and starts with the same roles.
func TestEmbeddedServerAuthorizesAsTheRealOne(t *testing.T) {
	cluster := ownCluster(t)
	server := apiserver.New(apiserver.Options{Token: admin.Token, KeepNamespaces: true, RBAC: true})
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		web.Close()
	})
	fake, err := NewAPI(web.URL, "", admin.Token)
	if err != nil {
		t.Fatal(err)
	}
	runDifferential(t, roleScript, cluster.Admin, fake, nil)
	for _, kind := range reviewKinds {
		t.Run(kind.kind, func(t *testing.T) {
			runDifferential(t, kind.script(), cluster.Admin, fake, []*Allowance{
				{Script: "*", Step: "of another *", Path: "Body.message",
					Why: "The real server names a line of its source."},
				{Script: "*", Step: "*", Path: "Body.status.nonResourceRules*", Why: "Bindings have no order."}})
		})
	}

	for _, plural := range []string{"clusterroles", "clusterrolebindings"} {
		const path = "/apis/rbac.authorization.k8s.io/v1/"
		embedded, err := fake.Get(t.Context(), path+plural)
		if err != nil {
			t.Fatal(err)
		}
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
