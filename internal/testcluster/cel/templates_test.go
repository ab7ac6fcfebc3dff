package cel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"skiff/crds"
	"skiff/internal/cli"
	"skiff/internal/testcluster/apiserver"
)

// apply creates objects that are given as YAML.
func (c cluster) apply(text []byte) {
	c.t.Helper()
	paths := map[string]string{"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"ValidatingAdmissionPolicy":        registration + "validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": registration + "validatingadmissionpolicybindings"}
	for docs := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object map[string]any
		err := docs.Decode(&object)
		if errors.Is(err, io.EOF) {
			return
		}
		body, err2 := json.Marshal(object)
		if err = errors.Join(err, err2); err != nil {
			c.t.Fatal(err)
		}
		c.must("POST", paths[fmt.Sprint(object["kind"])], string(body))
	}
}

// withPolicies is a server with skiff's definitions, and the admission policies that skiff prints.
func withPolicies(t *testing.T, o apiserver.Options, flags ...string) cluster {
	t.Helper()
	c := start(t, o)
	c.token = o.Token
	for _, text := range crds.All() {
		c.apply(text)
	}
	var stdout, stderr bytes.Buffer
	args := append([]string{"manifests", "--policies"}, flags...)
	if code := cli.Main(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("skiff %q: exit code %d, %s", args, code, &stderr)
	}
	c.apply(stdout.Bytes())
	return c
}

const skiffAPI = "/apis/skiff.dev/v1alpha1/namespaces/default/"

// webServer is a WebServer in JSON.
func webServer(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":%q},
		"spec":{"image":"i",%s}}`, name, spec)
}

// refused wants that a policy refuses a write, with these words.
func (c cluster) refused(policy, method, path, body string, words ...string) {
	c.t.Helper()
	code, answer, _ := c.do(method, path, body)
	message := fmt.Sprint(answer["message"])
	for _, want := range append(words, "'"+policy+"' with binding '"+policy+"' denied request: ") {
		if code != 403 || !strings.Contains(message, want) {
			c.t.Errorf("%s %s: %d %.1000s; want %q", method, path, code, message, want)
		}
	}
}

// What restricted asks of each container, the one that skiff declares does not have unless the template says so.
func TestTheTemplatePolicyRestrictedSeesTheContainerThatSkiffDeclares(t *testing.T) {
	c := withPolicies(t, apiserver.Options{}, "--", "--template-policy=restricted")
	const pod = `"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`
	const hardened = `"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}`
	template := func(containers string) string {
		return `"template":{"spec":{` + pod + `,"containers":[` + containers + `]}}`
	}
	redis := func(name, spec string) string {
		return strings.Replace(webServer(name, spec+`,"port":6379,"num":1`), "WebServer", "Redis", 1)
	}
	const sidecar, webserver, server = `{"name":"s",` + hardened + `}`, `{"name":"webserver",` + hardened + `}`,
		`{"name":"redis",` + hardened + `}`
	const path = skiffAPI + "webservers"
	c.refused("skiff-templates", "POST", path, webServer("a", `"replicas":1`), "container webserver: "+
		"securityContext.allowPrivilegeEscalation must be false; correct it", "--template-policy=restricted")
	c.refused("skiff-templates", "POST", path, webServer("a", template(sidecar)), "container webserver: ")
	c.refused("skiff-templates", "POST", path, webServer("a", template(server)), "container webserver: ")
	c.refused("skiff-templates", "POST", path, webServer("a", template(webserver+`,{"name":"s"}`)), "container s: ")
	c.refused("skiff-templates", "POST", skiffAPI+"redis", redis("a", template(webserver)), "container redis: ")
	c.must("POST", skiffAPI+"redis", redis("a", template(server)))
	c.must("POST", path, webServer("a", template(webserver+","+sidecar)))
	c.must("POST", path, webServer("b", template(webserver+`,{"name":"s","$patch":"delete"}`)))
	c.must("POST", path, webServer("c", template(sidecar+`,{"$patch":"replace"}`)))
}

// An object from before the policies can be paused and deleted, and skiff can take its finalizer off.
func TestPoliciesLetPassWhatDoesNotChangeWhatTheyAreAbout(t *testing.T) {
	c := withPolicies(t, apiserver.Options{})
	const path = skiffAPI + "webservers"
	c.must("DELETE", registration+"validatingadmissionpolicybindings/skiff-templates", "")
	c.must("DELETE", registration+"validatingadmissionpolicybindings/skiff-sizes", "")
	const template = `"template":{"metadata":{"labels":{"many":"x"}},"spec":{"hostNetwork":true}}`
	c.must("POST", path, strings.Replace(webServer("old", template+`,"env":[`+repeated(1001, `{"name":"e%d"}`)+`]`),
		`"name":"old"`, `"name":"old","finalizers":["skiff.dev/x"]`, 1))
	for _, name := range []string{"templates", "sizes"} {
		c.must("POST", registration+"validatingadmissionpolicybindings", `{"metadata":{"name":"skiff-`+name+`"},
			"spec":{"policyName":"skiff-`+name+`","validationActions":["Deny"]}}`)
	}
	c.must("PATCH", path+"/old", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
	c.refused("skiff-sizes", "PATCH", path+"/old", `{"spec":{"replicas":2}}`, "spec.env must have at most 1000 items")
	c.refused("skiff-templates", "PATCH", path+"/old", `{"spec":{"env":[],"template":{"metadata":{"labels":{"a":"b"}}}}}`,
		"spec.template.spec.hostNetwork must be false; correct it")
	c.must("PATCH", path+"/old", `{"spec":{"env":[]}}`)
	c.must("DELETE", path+"/old", "")
	c.must("PATCH", path+"/old", `{"metadata":{"finalizers":null}}`)
}

// repeated is a list of n items, each with its number.
func repeated(n int, item string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.ReplaceAll(item, "%d", strconv.Itoa(i))
	}
	return strings.Join(list, ",")
}

// A list is refused with one item too many, in words and not for the cost of an expression. An object that is as large
// as all bounds together allow costs less than a policy may.
func TestPoliciesRefuseWhatIsTooLongWithinTheirBudget(t *testing.T) {
	const path = skiffAPI + "webservers"
	const hardened = `"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"},
		"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}`
	own := func(list string) string {
		return `"template":{"spec":{"containers":[{"name":"webserver",` + list + `,` + hardened + `}]}}`
	}
	pod := func(list string) string {
		return `"template":{"spec":{"containers":[{"name":"webserver",` + hardened + `}],` + list + `}}`
	}
	c := withPolicies(t, apiserver.Options{}, "--", "--template-policy=any")
	for words, spec := range map[string]string{
		"spec.env must have at most 1000 items; remove": `"env":[` + repeated(1001, `{"name":"e%d"}`) + `]`,
		"spec.template.spec.containers[*].env must have at most 1000 items in all containers together": own(`"env":[` +
			repeated(1001, `{"name":"e%d"}`) + `]`),
		"spec.template.spec.tolerations must have at most 200 items": pod(`"tolerations":[` +
			repeated(201, `{"key":"k%d"}`) + `]`),
		"at most 131072 characters together; remove": own(`"env":[` +
			repeated(50, `{"name":"e%d","value":"`+strings.Repeat("v", 3000)+`"}`) + `]`),
		"spec.template.spec.initContainers must have at most 50 items": pod(`"initContainers":[` +
			repeated(10_000, `{"name":"i%d"}`) + `]`),
	} {
		c.refused("skiff-sizes", "POST", path, webServer("w", spec), words)
	}
	for _, policy := range []string{"baseline", "restricted"} {
		c := withPolicies(t, apiserver.Options{}, "--", "--template-policy", policy)
		containers := func(name string) string {
			return repeated(50, `{"name":"`+name+`%d","env":[`+strings.ReplaceAll(repeated(10, `{"name":"e#","value":"v"}`),
				"#", "%d")+`],"ports":[{"containerPort":1%d},{"containerPort":2%d}],"command":["%d"],`+hardened+`}`)
		}
		c.must("POST", path, webServer("largest", `"env":[`+repeated(1000, `{"name":"e%d","value":"v"}`)+`],"template":{
			"metadata":{"annotations":{`+repeated(200, `"a%d":"x"`)+`},"labels":{`+repeated(200, `"a%d":"x"`)+`}},"spec":{
			"securityContext":{"sysctls":[`+repeated(200, `{"name":"net.ipv4.tcp_wmem","value":"%d"}`)+`]},
			"volumes":[`+repeated(200, `{"name":"v%d","emptyDir":{}}`)+`],"tolerations":[`+repeated(200, `{"key":"a%d"}`)+`],
			"initContainers":[`+containers("i")+`],"containers":[`+
			strings.Replace(containers("c"), `"c0"`, `"webserver"`, 1)+`]}}`))
		c.must("DELETE", registration+"validatingadmissionpolicybindings/skiff-sizes", "")
		for _, list := range []string{`"initContainers":[` + repeated(10_000, `{"name":"i%d"}`), `"volumes":[` +
			repeated(10_000, `{"name":"v%d","emptyDir":{}}`)} {
			c.refused("skiff-templates", "POST", path, webServer("w", pod(list+`]`)), "spec.template: has too many "+
				"containers, volumes")
		}
	}
}

// Only a user who could write the pods alone may have skiff take objects over.
func TestTheAdoptAnnotationIsForWhoMayWritePods(t *testing.T) {
	c := withPolicies(t, apiserver.Options{RBAC: true, Token: "admin",
		Users: map[string]apiserver.User{"user": {Name: "u"}}})
	role := func(verbs string) string {
		return `{"metadata":{"name":"r"},"rules":[{"apiGroups":["skiff.dev"],"resources":["*"],"verbs":["*"]},
			{"apiGroups":[""],"resources":["pods"],"verbs":[` + verbs + `]}]}`
	}
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	c.must("POST", roles, role(`"get"`))
	c.must("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `{"metadata":{"name":"r"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User",
		"name":"u","apiGroup":"rbac.authorization.k8s.io"}]}`)
	const path = skiffAPI + "webservers"
	adopting := func(name, value string) string {
		return strings.Replace(webServer(name, `"replicas":1`), `"metadata":{`,
			`"metadata":{"annotations":{"skiff.dev/adopt":"`+value+`"},`, 1)
	}
	c.must("POST", path, adopting("by-admin", "true"))
	c.token = "user"
	for _, value := range []string{"1", "t", "T", "TRUE", "true", "True"} {
		c.refused("skiff-adopt", "POST", path, adopting("a", value), "metadata.annotations: skiff.dev/adopt ",
			"user u may not create pods in this namespace")
	}
	c.must("POST", path, adopting("a", "false"))
	c.refused("skiff-adopt", "PATCH", path+"/a", `{"metadata":{"annotations":{"skiff.dev/adopt":"true"}}}`, "user u")
	c.must("PATCH", path+"/by-admin", `{"spec":{"replicas":2}}`)
	for _, missing := range []string{"create", "patch", "delete"} {
		c.token = "admin"
		verbs := strings.Replace(`"create","patch","delete"`, `"`+missing+`"`, `"get"`, 1)
		c.must("PUT", roles+"/r", role(verbs))
		c.token = "user"
		c.refused("skiff-adopt", "PATCH", path+"/a", `{"metadata":{"annotations":{"skiff.dev/adopt":"true"}}}`,
			"may not "+missing+" pods")
	}
	c.token = "admin"
	c.must("PUT", roles+"/r", role(`"create","patch","delete"`))
	c.token = "user"
	c.must("PATCH", path+"/a", `{"metadata":{"annotations":{"skiff.dev/adopt":"true"}}}`)
}

// stored are the policies.
func (c cluster) stored() []v1.ValidatingAdmissionPolicy {
	c.t.Helper()
	text, err := json.Marshal(c.must("GET", registration+"validatingadmissionpolicies", ""))
	var list v1.ValidatingAdmissionPolicyList
	if err = errors.Join(err, json.Unmarshal(text, &list)); err != nil || len(list.Items) != 3 {
		c.t.Fatalf("%v: %d policies", err, len(list.Items))
	}
	return list.Items
}

// A cluster's controller would warn in the status of a policy of what does not fit the definitions.
func TestThePoliciesFitTheDefinitions(t *testing.T) {
	c := withPolicies(t, apiserver.Options{}, "--", "--template-policy=restricted")
	for _, p := range c.stored() {
		text, err := json.Marshal(p.Spec)
		if warnings := c.server.TypeCheck(text); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, %v", p.Name, warnings, err)
		}
	}
}

// A server of 1.30 takes in new policies what 1.29 knew, so that it could be taken back to that.
func TestThePoliciesAreWhatKubernetes130Compiles(t *testing.T) {
	c := withPolicies(t, apiserver.Options{}, "--", "--template-policy=restricted")
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, p := range c.stored() {
		compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 29)))
		if err != nil {
			t.Fatal(err)
		}
		compile := func(e plugincel.ExpressionAccessor, o plugincel.OptionalVariableDeclarations) {
			if r := compiler.CompileCELExpression(e, o, environment.NewExpressions); r.Error != nil {
				t.Errorf("%s: %s: %v", p.Name, e.GetExpression(), r.Error)
			}
		}
		for _, v := range p.Spec.Variables {
			r := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression},
				options, environment.NewExpressions)
			if r.Error != nil {
				t.Errorf("%s: %s: %v", p.Name, v.Expression, r.Error)
			}
		}
		for _, m := range p.Spec.MatchConditions {
			compile((*matchconditions.MatchCondition)(&m), options)
		}
		for _, v := range p.Spec.Validations {
			compile(&validating.ValidationCondition{Expression: v.Expression}, options)
			if v.MessageExpression != "" {
				compile(&validating.MessageExpressionCondition{MessageExpression: v.MessageExpression},
					plugincel.OptionalVariableDeclarations{})
			}
		}
	}
}
