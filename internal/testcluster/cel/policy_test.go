package cel_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/cel"
)

// cluster is a server with CEL.
type cluster struct {
	t      *testing.T
	server *apiserver.Server
	url    string
	token  string
}

func start(t *testing.T, o apiserver.Options) cluster {
	o.CEL = cel.New()
	server := apiserver.New(o)
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.Close()
		server.Close()
	})
	return cluster{t: t, server: server, url: web.URL}
}

// do sends a request and returns the code and body of the answer, and its warnings.
func (c cluster) do(method, path, body string) (code int, answer map[string]any, warnings string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json",
		false: "application/json"}[method == "PATCH"])
	req.Header.Set("Authorization", "Bearer "+c.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(text, &answer) != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	return res.StatusCode, answer, strings.Join(res.Header.Values("Warning"), "\n")
}

// must sends a request that is to succeed, and returns the object.
func (c cluster) must(method, path, body string) map[string]any {
	c.t.Helper()
	code, answer, _ := c.do(method, path, body)
	if code > 299 {
		c.t.Fatalf("%s %s: %d %v", method, path, code, answer["message"])
	}
	return answer
}

const registration = "/apis/admissionregistration.k8s.io/v1/"

// policy creates a policy about ConfigMaps, with more in its spec, and a binding with more in its.
func (c cluster) policy(name, spec, binding string) {
	c.t.Helper()
	c.must("POST", registration+"validatingadmissionpolicies", `{"metadata":{"name":"`+name+`"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],
		"resources":["configmaps"]}]},`+spec+`}}`)
	c.must("POST", registration+"validatingadmissionpolicybindings", `{"metadata":{"name":"`+name+`-b"},"spec":{
		"policyName":"`+name+`",`+binding+`}}`)
}

func configMap(name, data string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"data":{%s}}`, name, data)
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// What policies do is held against a real server by testdata/cel of internal/tools/e2e. Here is what it has not.
func TestAPolicyDeniesInTheWordsOfTheRealServer(t *testing.T) {
	c := start(t, apiserver.Options{})
	c.policy("x", `"validations":[{"expression":"object == null || !has(object.data.bad)","messageExpression":
		"'no ' + object.metadata.name","reason":"Forbidden"}]`, `"validationActions":["Deny"]`)
	c.must("POST", configMaps, configMap("good", `"a":"b"`))
	code, answer, _ := c.do("POST", configMaps, configMap("wrong", `"bad":"b"`))
	want := `configmaps "wrong" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x-b' denied request: no wrong`
	if code != 403 || answer["message"] != want || answer["reason"] != "Forbidden" {
		t.Errorf("%d %v: %v", code, answer["reason"], answer["message"])
	}
	if code, _, _ = c.do("PATCH", configMaps+"/good", `{"data":{"bad":"x"}}`); code != 403 {
		t.Errorf("a patch: %d", code)
	}
	if code, _, _ = c.do("GET", configMaps+"/wrong", ""); code != 404 {
		t.Errorf("what was denied is stored: %d", code)
	}
	c.must("DELETE", configMaps+"/good", "")
	c.must("DELETE", registration+"validatingadmissionpolicybindings/x-b", "")
	c.must("POST", configMaps, configMap("wrong", `"bad":"b"`))
}

func TestAPolicyAsksWhatAUserMayDo(t *testing.T) {
	c := start(t, apiserver.Options{RBAC: true, Token: "admin", Users: map[string]apiserver.User{"user": {Name: "u"}}})
	c.token = "admin"
	c.policy("x", `"validations":[{"expression":"authorizer.group('').resource('secrets').namespace('default').check('get').allowed() && authorizer.requestResource.check('create').allowed()","message":"no rights"}]`,
		`"validationActions":["Deny"]`)
	c.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"r"},"rules":[
		{"apiGroups":[""],"resources":["configmaps"],"verbs":["*"]}]}`)
	c.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"r"},"roleRef":{
		"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u",
		"apiGroup":"rbac.authorization.k8s.io"}]}`)
	c.must("POST", configMaps, configMap("a", ""))
	c.token = "user"
	_, answer, _ := c.do("POST", configMaps, configMap("b", ""))
	if got := fmt.Sprint(answer["message"]); !strings.HasSuffix(got, "denied request: no rights") {
		t.Error(got)
	}
}

// A webhook is called only about writes that meet its conditions. This one refuses each write that it is called about.
func TestMatchConditionsKeepAWebhookFromBeingCalled(t *testing.T) {
	c := start(t, apiserver.Options{})
	webhook := func(name, conditions string) string {
		return `{"metadata":{"name":"` + name + `"},"webhooks":[{"name":"w.x.test","admissionReviewVersions":["v1"],
			"sideEffects":"None","clientConfig":{"url":"https://127.0.0.1:1"},"timeoutSeconds":1,"rules":[{
			"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],"matchConditions":[` +
			conditions + `]}]}`
	}
	c.must("POST", registration+"validatingwebhookconfigurations", webhook("w", `{"name":"a","expression":
		"object.metadata.name != 'free'"},{"name":"b","expression":"authorizer.group('').resource('pods').check('get')`+
		`.allowed() && object.data.x == 'y'"}`))
	for data, want := range map[string]string{`"x":"y"`: "failed calling webhook", `"x":"z"`: "",
		`"z":"y"`: "no such key: x"} {
		code, answer, _ := c.do("POST", configMaps+"?dryRun=All", configMap("called", data))
		if (code == 201) != (want == "") || !strings.Contains(fmt.Sprint(answer["message"]), want) && want != "" {
			t.Errorf("%s: %d %v, want %q", data, code, answer["message"], want)
		}
	}
	c.must("POST", configMaps, configMap("free", `"x":"y"`))
	code, answer, _ := c.do("POST", registration+"mutatingwebhookconfigurations", webhook("v",
		`{"name":"a","expression":"object."}`))
	if code != 422 || !strings.Contains(fmt.Sprint(answer["message"]), "webhooks[0].matchConditions[0].expression") {
		t.Errorf("%d %v", code, answer["message"])
	}
}
