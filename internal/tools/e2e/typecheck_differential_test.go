package e2e

import (
	"context"
	"fmt"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/cel"
	"skiff/internal/testcluster/simulate"
)

// typed is a definition with fields of many types.
const typed = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"typeds.cel.skiff.dev"},"spec":{"group":"cel.skiff.dev","scope":"Namespaced",
"names":{"plural":"typeds","singular":"typed","kind":"Typed","listKind":"TypedList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"d":{"type":"number"},
"when":{"type":"string","format":"date-time"},"b":{"type":"string","format":"byte"},
"any":{"x-kubernetes-int-or-string":true},"map":{"type":"object","additionalProperties":{"type":"boolean"}},
"list":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"not-an-identifier":{"type":"string"},
"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}}}]}}`

// rule is what a policy is about: one version of some resources of a group.
func rule(group, version, resources string) string {
	return `{"apiGroups":["` + group + `"],"apiVersions":["` + version + `"],"operations":["CREATE"],"resources":[` +
		resources + `]}`
}

// checked writes a policy with some expressions, waits until they are checked, and looks at all of it.
func checked(name, rules, more string, expressions ...string) []Step {
	spec := `"matchConstraints":{"resourceRules":[` + rules + `]}` + more + `,"validations":[`
	for i, e := range expressions {
		spec += map[bool]string{false: ","}[i == 0] + e
	}
	return []Step{policyStep(name, spec+"]"), observed(name, 1)}
}

func observed(name string, generation int) Step {
	return Step{Name: fmt.Sprintf("%s, checked for the %d. time", name, generation), Path: policiesPath + "/" + name,
		Until: fmt.Sprintf("observedGeneration:%d", generation)}
}

// is is a validation with an expression, which is JSON text without quotes.
func is(expression string) string { return `{"expression":"` + expression + `"}` }

// typeScript has policies whose expressions do with fields what these allow, and what they do not.
var typeScript = Script{Name: "types", Steps: slicesOf(
	[]Step{
		{Name: "define", Method: "POST", Path: definitionsPath, Body: typed},
		{Name: "is served", Path: "/apis/cel.skiff.dev/v1/${ns}/typeds", Until: "TypedList"},
	},
	checked("right", rule("apps", "v1", `"deployments"`), "", is("object.spec.replicas > 1"),
		is("object.metadata.labels['a'] == 'b'"),
		is("object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')")),
	checked("no-field", rule("apps", "v1", `"deployments"`), "", is("object.spec.nope == 1"), is("true"),
		`{"expression":"object.spec.replicas == 'a'","messageExpression":"'x' + object.none"}`,
		is("oldObject.spec.template.spec.containers.all(c, c.image.size() > 1 && c.other)"),
		is("object.spec == 1 || object.metadata.managedFields[0].fieldsV1.x || object.metadata.none")),
	checked("odd-types", rule("", "v1", `"pods"`), "",
		is("object.spec.containers[0].resources.limits.cpu > 1"),
		is("object.spec.containers[0].livenessProbe.httpGet.port == 1"),
		is("object.spec.activeDeadlineSeconds == 1.0"), is("object.status.startTime == 'x'")),
	checked("bytes", rule("", "v1", `"secrets"`), "", is("object.data['a'] == 'b'"), is("object.stringData.a == 'b'")),
	checked("kinds", rule("apps", "v1", `"deployments","daemonsets","none","deployments/scale"`)+","+
		rule("", "v1", `"events","Pods"`)+","+rule("batch", "v1", `"job"`), "", is("object.spec.replicas == 1")),
	checked("stars", rule("*", "v1", `"deployments"`)+","+rule("apps", "*", `"deployments"`)+","+
		rule("apps", "v1", `"*"`), "", is("object.spec.nope == 1")),
	checked("unknown", rule("no.such", "v1", `"kinds"`), "", is("object.spec.nope == 1")),
	checked("many", rule("", "v1", `"pods","services","secrets","configmaps","nodes","namespaces","endpoints",
		"serviceaccounts","limitranges","resourcequotas","podtemplates","replicationcontrollers"`), "", is("object.nope == 1")),
	checked("params", rule("", "v1", `"configmaps"`), `,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}`,
		is("object.data == params.data && params.spec.x == 1"), is("params.data['x'] == 1")),
	checked("params-of-no-kind", rule("", "v1", `"configmaps"`), `,"paramKind":{"apiVersion":"no.such/v1","kind":"K"}`,
		is("params.spec.x == 1")),
	checked("custom", rule("cel.skiff.dev", "v1", `"typeds"`),
		`,"paramKind":{"apiVersion":"cel.skiff.dev/v1","kind":"Typed"}`,
		is("object.spec.n == params.spec.n && object.spec.any == 1 && object.spec.map['a']"),
		is("object.spec.s == 1"), is("object.spec.d == 1"), is("object.spec.when == 's'"), is("object.spec.b == 's'"),
		is("object.spec.map['a'] == 1"), is("object.spec.list[0].name == 1"), is("object.spec.list[0].other == 1"),
		is("object.spec.free.x == 1"), is("object.spec.not__dash__an__dash__identifier == 1"),
		is("object.spec.pod.metadata.name == 1"), is("object.spec.pod.spec.x == 1"), is("object.status == 1"),
		is("object.metadata.labels == 1"), is("object.metadata.none == 1"), is("object.kind == 1")),
	checked("rest", rule("", "v1", `"pods"`), `,"variables":[{"name":"v","expression":"object.spec.none"},
		{"name":"w","expression":"object.spec.nodeName"}],"matchConditions":[{"name":"m","expression":"object.no == 1"}]`,
		is("variables.v == 1"), is("variables.w == 1"), is("request.namespace == object.spec"),
		is("namespaceObject.metadata.name == object.spec.nodeName"),
		is("authorizer.group('').resource('pods').check('get').allowed()"),
		is("quantity(object.spec.nodeName).isGreaterThan(object.spec.priority)")),
	[]Step{
		{Name: "mend", Method: "PATCH", Path: policiesPath + "/no-field", Type: "application/merge-patch+json",
			Body: `{"spec":{"validations":[{"expression":"object.spec.replicas > 1"}]}}`},
		observed("no-field", 2),
		{Name: "label", Method: "PATCH", Path: policiesPath + "/no-field", Type: "application/merge-patch+json",
			Body: `{"metadata":{"labels":{"a":"b"}}}`},
		{Name: "break", Method: "PATCH", Path: policiesPath + "/no-field", Type: "application/json-patch+json",
			Body: `[{"op":"replace","path":"/spec/validations/0/expression","value":"object.spec.replicas > ''"}]`},
		observed("no-field", 3),
		{Name: "all", Path: policiesPath},
	},
)}

// skiff-dev says about the types in the expressions of policies what the controller of a real cluster does.
func TestSkiffDevChecksTheTypesOfPoliciesAsTheRealController(t *testing.T) {
	c := ownCluster(t)
	path, err := c.Kubeconfig(controllerManager)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Start("kube-controller-manager", nil, c.bins.controllerManager, "--kubeconfig", path,
		"--leader-elect=false", "--secure-port=0", "--controllers", "validatingadmissionpolicy-status-controller")
	if err != nil {
		t.Fatal(err)
	}
	server, fake := serveFake(t, cel.New())
	simulatePolicies(t, server, fake)
	runDifferential(t, typeScript, c.Admin, fake, nil)
}

// simulatePolicies runs the simulated controller of policies until the test is over.
func simulatePolicies(t *testing.T, server *apiserver.Server, api *API) {
	t.Helper()
	cfg, _, err := kubeconfig.Load(kubeconfig.Flags{Server: api.base, Token: kubeconfig.NewSecret(api.token),
		InsecureLoopbackHTTP: true}, kubeconfig.OSEnv(func(string) {}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := simulate.Options{TypeCheck: server.TypeCheck}
	for _, part := range simulate.Parts() {
		if part != simulate.Policies {
			o.Without = append(o.Without, part)
		}
	}
	ctx, cancel := context.WithCancel(noContext)
	ended := make(chan error, 1)
	go func() { ended <- simulate.New(client, o).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		client.Close()
	})
}
