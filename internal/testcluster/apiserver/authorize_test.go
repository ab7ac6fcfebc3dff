package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

const rbacPath = "/apis/rbac.authorization.k8s.io/v1"

// as impersonates a user in groups.
func as(user string, groups ...string) []string {
	out := []string{"Authorization", "Bearer t", "Impersonate-User", user}
	for _, g := range groups {
		out = append(out, "Impersonate-Group", g)
	}
	return out
}

// inRBAC runs a test on a server with RBAC and the token t.
func inRBAC(t *testing.T, test func(w *testServer)) {
	t.Helper()
	withServer(t, Options{RBAC: true, Token: "t"}, test)
}

var asAdmin = []string{"Authorization", "Bearer t"}

// grant creates a role and binds it to subjects.
func (w *testServer) grant(namespace, name, rules, subjects string) {
	w.t.Helper()
	kind, path := "ClusterRole", rbacPath+"/clusterrole"
	if namespace != "" {
		kind, path = "Role", rbacPath+"/namespaces/"+namespace+"/role"
	}
	w.must(201, "POST", path+"s", `{"metadata":{"name":"`+name+`"},"rules":[`+rules+`]}`, asAdmin...)
	w.must(201, "POST", path+"bindings", `{"metadata":{"name":"`+name+`"},"roleRef":{"kind":"`+kind+`","name":"`+name+
		`"},"subjects":[`+subjects+`]}`, asAdmin...)
}

const bob = `{"kind":"User","name":"bob"}`

// Rules: FS-41
func TestRolesDecideWhatAUserMayDo(t *testing.T) {
	inRBAC(t, func(w *testServer) {
		w.must(201, "POST", configMaps, configMap("a"), asAdmin...)
		a := w.must(403, "GET", configMaps, "", as("bob")...)
		if want := `configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" in the ` +
			`namespace "default"`; a.at("message") != want || a.at("reason") != "Forbidden" ||
			a.at("details.kind") != "configmaps" {
			t.Error(a.raw)
		}
		w.grant("default", "reader", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["list","get"]}`, bob)
		w.must(200, "GET", configMaps, "", as("bob")...)
		w.must(200, "GET", configMaps+"/a", "", as("bob")...)
		w.must(403, "GET", configMaps+"?watch=1", "", as("bob")...)
		w.must(403, "GET", "/api/v1/configmaps", "", as("bob")...)
		w.must(403, "DELETE", configMaps, "", as("bob")...)
		w.must(403, "GET", configMaps, "", as("eve")...)
		w.must(403, "GET", deployments, "", as("bob")...)

		w.grant("", "named", `{"apiGroups":["*"],"resources":["*/status","secrets"],"resourceNames":["x"],"verbs":["*"]}`,
			`{"kind":"Group","name":"g"}`)
		w.must(404, "GET", deployments+"/x/status", "", as("eve", "g")...)
		w.must(403, "GET", deployments+"/x", "", as("eve", "g")...)
		w.must(403, "GET", deployments+"/y/status", "", as("eve", "g")...)
		w.must(404, "GET", "/api/v1/namespaces/default/secrets/x", "", as("eve", "g")...)
		w.must(200, "GET", "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dx", "", as("eve", "g")...)
		w.must(403, "GET", "/api/v1/namespaces/default/secrets", "", as("eve", "g")...)

		if a := w.must(403, "GET", "/metrics", "", as("bob")...); a.at("message") !=
			`forbidden: User "bob" cannot get path "/metrics"` {
			t.Error(a.raw)
		}
		w.must(200, "GET", "/api/v1", "", as("bob")...) // system:discovery
		w.must(201, "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", `{"metadata":{"name":"l"}}`,
			asAdmin...)
		w.grant("default", "leases", `{"apiGroups":["*"],"resources":["leases"],"verbs":["update"]}`, bob)
		a = w.must(403, "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/m",
			`{"metadata":{"name":"m"}}`, as("bob")...)
		if !strings.Contains(a.raw, `cannot create resource \"leases\"`) { // an update that creates needs both rights
			t.Error(a.raw)
		}
	})
}

func TestUsersAreWhoTheirCredentialsSay(t *testing.T) {
	inRBAC(t, func(w *testServer) {
		a := w.must(403, "GET", configMaps, "")
		if !strings.Contains(a.raw, `User \"system:anonymous\" cannot list`) {
			t.Error(a.raw)
		}
		w.must(200, "GET", "/version", "")
		w.must(403, "GET", "/api/v1", "")
		w.must(401, "GET", configMaps, "", "Authorization", "Bearer wrong")
		w.must(401, "GET", "/version", "", "Authorization", "Bearer wrong")
		const account = "system:serviceaccount:default:robot"
		who := w.must(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, as(account)...)
		if got := fmt.Sprint(who.at("status.userInfo.groups")); got != "[system:serviceaccounts "+
			"system:serviceaccounts:default system:authenticated]" {
			t.Error(got)
		}
		w.grant("default", "robot", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"]}`,
			`{"kind":"ServiceAccount","name":"robot"}`)
		w.must(200, "GET", configMaps, "", as(account)...)
		w.grant("", "accounts", `{"apiGroups":[""],"resources":["secrets"],"verbs":["list"]}`,
			`{"kind":"Group","name":"system:serviceaccounts:default"}`)
		w.must(200, "GET", "/api/v1/secrets", "", as(account)...)
		w.must(403, "GET", "/api/v1/secrets", "", as("system:serviceaccount:other:robot")...)
		if a := w.must(403, "GET", configMaps, "", "Impersonate-User", "bob"); a.at("message") !=
			`users "bob" is forbidden: User "system:anonymous" cannot impersonate resource "users" in API group "" `+
				`at the cluster scope` {
			t.Error(a.raw)
		}
	})
}

func TestAggregatedRolesHaveTheRulesOfThoseThatTheySelect(t *testing.T) {
	inRBAC(t, func(w *testServer) {
		synctest.Wait()
		w.must(201, "POST", rbacPath+"/namespaces/default/rolebindings", `{"metadata":{"name":"v"},"roleRef":{
			"kind":"ClusterRole","name":"view"},"subjects":[`+bob+`]}`, asAdmin...)
		w.must(200, "GET", configMaps, "", as("bob")...)
		w.must(403, "GET", "/api/v1/namespaces/default/secrets", "", as("bob")...)
		w.must(201, "POST", rbacPath+"/clusterroles", `{"metadata":{"name":"more","labels":{
			"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"apiGroups":[""],"resources":["secrets"],
			"verbs":["list"]}]}`, asAdmin...)
		synctest.Wait()
		w.must(200, "GET", "/api/v1/namespaces/default/secrets", "", as("bob")...)
		if edit := w.must(200, "GET", rbacPath+"/clusterroles/admin", "", asAdmin...); !strings.Contains(edit.raw,
			"impersonate") {
			t.Error("admin does not have the rules of edit, which aggregates others itself")
		}
		w.must(200, "DELETE", rbacPath+"/clusterroles/more", "", asAdmin...)
		synctest.Wait()
		w.must(403, "GET", "/api/v1/namespaces/default/secrets", "", as("bob")...)
	})
}
