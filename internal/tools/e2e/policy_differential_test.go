package e2e

import (
	"strings"
	"testing"
)

const (
	registrationPath = "/apis/admissionregistration.k8s.io/v1/"
	policiesPath     = registrationPath + "validatingadmissionpolicies"
	bindingsPath     = registrationPath + "validatingadmissionpolicybindings"
	mutatingPath     = registrationPath + "mutatingadmissionpolicies"
	configMapsPath   = "/api/v1/${ns}/configmaps"
)

// rulesFor are match constraints for ConfigMaps, and what else is given, that are labelled with the policy's name.
func rulesFor(name, more string) string {
	return `"matchConstraints":{"objectSelector":{"matchLabels":{"policy":"` + name + `"}},"resourceRules":[{"apiGroups":
	[""],"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}` + more + `]}`
}

func policyStep(name, spec string) Step {
	return Step{Name: "policy " + name, Method: "POST", Path: policiesPath, Body: `{"apiVersion":
	"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"` + name + `"},"spec":{` +
		oneLine(spec) + `}}`}
}

// oneLine is for expressions of several lines.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func bindingStep(name, spec string) Step {
	return Step{Name: "binding " + name, Method: "POST", Path: bindingsPath, Body: `{"apiVersion":
	"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"` + name + `"},
	"spec":{"policyName":"` + name + `"` + spec + `}}`}
}

// labelled writes a ConfigMap that a policy sees; with until only for show, until the answer has that text: a policy
// takes a while to be in force on the real server.
func labelled(policy, name, data, until string) Step {
	path := configMapsPath
	if until != "" {
		path += "?dryRun=All"
	}
	return Step{Name: policy + ": " + name, Method: "POST", Path: path, Until: until, Body: `{"apiVersion":"v1",
	"kind":"ConfigMap","metadata":{"name":"` + policy + "-" + name + `","labels":{"policy":"` + policy + `"}},"data":{` +
		data + `}}`}
}

func modify(policy, name, body string) Step {
	return Step{Name: policy + ": change " + name + " by " + body, Method: "PATCH",
		Type: "application/merge-patch+json", Path: configMapsPath + "/" + policy + "-" + name, Body: body}
}

const denied = "denied request"

// deny is a binding that denies.
const deny = `,"validationActions":["Deny"]`

// policyScript writes policies, right and wrong ones, and objects that keep to them and do not.
var policyScript = Script{Name: "policies", Steps: slicesOf(
	wrongPolicies(),
	[]Step{
		policyStep("plain", rulesFor("plain", "")+`,"validations":[{"expression":"object.data.?ok.orValue('') == 'yes'"},
			{"expression":"!has(object.data.other)","message":"no other"}]`),
		bindingStep("plain", deny),
		{Name: "as stored", Path: policiesPath},
		{Name: "bindings", Path: bindingsPath},
		labelled("plain", "bad", `"x":"y"`, denied),
		labelled("plain", "other", `"ok":"yes","other":"y"`, ""),
		labelled("plain", "good", `"ok":"yes"`, ""),
		modify("plain", "good", `{"data":{"ok":"no"}}`),
		modify("plain", "good", `{"metadata":{"labels":{"a":"b"}}}`),
		modify("plain", "good", `{"metadata":{"labels":{"policy":null}}}`),
		modify("plain", "good", `{"data":{"ok":"no"}}`),
		{Name: "apply", Method: "PATCH", Path: configMapsPath + "/new?fieldManager=f",
			Type: "application/apply-patch+yaml", Body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","labels":{"policy":"plain"}}}`},

		policyStep("words", rulesFor("words", "")+`,"variables":[{"name":"n","expression":"object.metadata.name"}],
			"validations":[{"expression":"variables.n != 'words-a'","messageExpression":"'not ' + variables.n + ' of ' +
			namespaceObject.metadata.name","reason":"Forbidden"},{"expression":"variables.n != 'words-b'"},{"expression":"variables.n != 'words-c'","reason":"RequestEntityTooLarge","messageExpression":
			"string(object.data.none)","message":"fallback"},{"expression":"request.operation == 'CREATE' ?
			oldObject == null && request.userInfo.username != '' && request.resource.resource == 'configmaps' &&
			request.kind.kind == 'ConfigMap' && request.requestKind.version == 'v1' && request.namespace != '' &&
			!request.dryRun && request.options.kind == 'CreateOptions' : oldObject.data != object.data &&
			request.options.kind == 'UpdateOptions'","message":"request"},
			{"expression":"variables.n != 'words-d' || object.data.none == 'x'","message":"error"}]`),
		bindingStep("words", deny),
		labelled("words", "a", `"x":"y"`, denied),
		labelled("words", "b", `"x":"y"`, ""),
		labelled("words", "c", `"x":"y"`, ""),
		labelled("words", "d", `"x":"y"`, ""),
		labelled("words", "e", `"x":"y"`, ""),
		modify("words", "e", `{"data":{"x":"z"}}`),
		modify("words", "e", `{"metadata":{"labels":{"a":"z"}}}`),

		policyStep("warn", rulesFor("warn", "")+`,"validations":[{"expression":"has(object.data.x)","message":"no x"},
			{"expression":"has(object.data.y)"}],"auditAnnotations":[{"key":"k","valueExpression":"'v'"}]`),
		bindingStep("warn", `,"validationActions":["Warn","Audit"]`),
		labelled("warn", "first", `"y":"y"`, "Validation failed"),
		{Name: "warned", Method: "POST", Path: configMapsPath + "?dryRun=All", Body: `{"apiVersion":"v1","kind":"ConfigMap",
			"metadata":{"name":"warn-b","labels":{"policy":"warn"}}}`},

		policyStep("ignore", rulesFor("ignore", "")+`,"failurePolicy":"Ignore","matchConditions":[{"name":"m","expression":
			"object.metadata.name != 'ignore-skipped'"}],"validations":[{"expression":"object.data.x == 'y'"}]`),
		bindingStep("ignore", deny),
		labelled("ignore", "bad", `"x":"z"`, denied),
		labelled("ignore", "error", `"y":"z"`, ""),
		labelled("ignore", "skipped", `"x":"z"`, ""),

		{Name: "params", Method: "POST", Path: configMapsPath, Body: `{"apiVersion":"v1","kind":"ConfigMap",
			"metadata":{"name":"params","labels":{"for":"params"}},"data":{"max":"1"}}`},
		policyStep("params", rulesFor("params", "")+`,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[
			{"expression":"size(object.data) <= int(params.data.max)","messageExpression":
			"'too many for ' + params.kind + ' ' + params.metadata.name"}]`),
		bindingStep("params", deny+`,"paramRef":{"name":"params","parameterNotFoundAction":"Deny"}`),
		labelled("params", "bad", `"a":"1","b":"2"`, denied),
		labelled("params", "good", `"a":"1"`, ""),
		policyStep("none", rulesFor("none", "")+`,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[
			{"expression":"params == null","message":"there are params"}]`),
		bindingStep("none", deny+`,"paramRef":{"selector":{"matchLabels":{"for":"none"}},"parameterNotFoundAction":"Deny"}`),
		labelled("none", "bad", `"a":"1"`, denied),
		policyStep("unknown", rulesFor("unknown", "")+`,"paramKind":{"apiVersion":"no.such/v1","kind":"Kind"},
			"validations":[{"expression":"params == null"}]`),
		bindingStep("unknown", deny+`,"paramRef":{"name":"x","parameterNotFoundAction":"Allow"}`),
		labelled("unknown", "bad", `"a":"1"`, denied),

		policyStep("excluded", `"matchConstraints":{"objectSelector":{"matchLabels":{"policy":"excluded"}},"resourceRules":[
			{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}],"excludeResourceRules":[
			{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"],"resourceNames":
			["excluded-a"]}]},"validations":[{"expression":"false","message":"never"}]`),
		bindingStep("excluded", deny+`,"matchResources":{"namespaceSelector":{"matchExpressions":[{"key":
			"kubernetes.io/metadata.name","operator":"In","values":["policies"]}]}}`),
		labelled("excluded", "b", `"a":"1"`, denied),
		labelled("excluded", "a", `"a":"1"`, ""),
		{Name: "a Secret", Method: "POST", Path: "/api/v1/${ns}/secrets", Body: `{"apiVersion":"v1","kind":"Secret",
			"metadata":{"name":"s","labels":{"policy":"excluded"}}}`},
		{Name: "delete it", Method: "DELETE", Path: configMapsPath + "/excluded-a"},

		policyStep("exact", rulesFor("exact", `,{"apiGroups":["events.k8s.io"],"apiVersions":["v1"],"operations":["*"],
			"resources":["events"]}`)+`,"validations":[{"expression":"false","messageExpression":
			"request.kind.group + ' ' + request.requestKind.kind + ' ' + object.apiVersion + ' ' + object.note"}]`),
		bindingStep("exact", deny),
		labelled("exact", "a", ``, denied),
		{Name: "an equivalent", Method: "POST", Path: "/api/v1/${ns}/events", Body: `{"apiVersion":"v1","kind":"Event",
			"metadata":{"name":"e","labels":{"policy":"exact"}},"involvedObject":{"kind":"Pod","namespace":"policies"},
			"message":"text"}`},

		policyStep("scales", `"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":
			"policies"}},"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["UPDATE"],
			"resources":["deployments/scale"]}]},"validations":[{"expression":"object.spec.replicas < 5 &&
			oldObject.kind == 'Scale'","messageExpression":"request.subResource + ' ' + object.kind"}]`),
		bindingStep("scales", deny),
		{Name: "deployment", Method: "POST", Path: "/apis/apps/v1/${ns}/deployments", Body: `{"apiVersion":"apps/v1",
			"kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		{Name: "scale", Method: "PATCH", Path: "/apis/apps/v1/${ns}/deployments/d/scale?dryRun=All", Until: denied,
			Type: "application/merge-patch+json", Body: `{"spec":{"replicas":7}}`},
		{Name: "delete the policy", Method: "DELETE", Path: policiesPath + "/scales"},
	},
)}

func wrongPolicies() (out []Step) {
	for _, c := range [][2]string{
		{"empty", ""},
		{"no rules", `"validations":[{"expression":"true"}]`},
		{"no validations", rulesFor("w", "")},
		{"not CEL", rulesFor("w", "") + `,"validations":[{"expression":"object."}]`},
		{"no boolean", rulesFor("w", "") + `,"validations":[{"expression":"1"}]`},
		{"no such variable", rulesFor("w", "") + `,"validations":[{"expression":"variables.x"}]`},
		{"params without kind", rulesFor("w", "") + `,"validations":[{"expression":"params.x"}]`},
		{"bad message", rulesFor("w", "") + `,"validations":[{"expression":"true","messageExpression":"1 +"}]`},
		{"bad reason", rulesFor("w", "") + `,"validations":[{"expression":"true","reason":"Because"}]`},
		{"bad condition", rulesFor("w", "") + `,"validations":[{"expression":"true"}],"matchConditions":[
			{"name":"a b","expression":"1"},{"name":"","expression":""}]`},
		{"bad policy", rulesFor("w", "") + `,"failurePolicy":"Maybe","validations":[{"expression":"true"}]`},
		{"bad operation", `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":[""],"operations":
			["GET"],"resources":["a/b/c","*","x"]}]},"validations":[{"expression":"true"}]`},
		{"bad annotation", rulesFor("w", "") + `,"auditAnnotations":[{"key":"a b","valueExpression":"1"}]`},
	} {
		s := policyStep("wrong", c[1])
		s.Name = "refused: " + c[0]
		out = append(out, s)
	}
	for _, c := range [][2]string{
		{"no action", ``},
		{"bad action", `,"validationActions":["Deny","Deny","Warn","Shout"]`},
		{"bad params", `,"validationActions":["Deny"],"paramRef":{"name":"a","selector":{}}`},
		{"no not found action", `,"validationActions":["Deny"],"paramRef":{"name":"a"}`},
	} {
		s := bindingStep("wrong", c[1])
		s.Name = "refused: " + c[0]
		out = append(out, s)
	}
	return out
}

// mutationScript has policies that mutate.
var mutationScript = Script{Name: "mutations", Steps: []Step{
	mutationStep("wrong", `{"patchType":"JSONPatch"}`),
	mutationStep("bad-type", `{"patchType":"JSONPatch","jsonPatch":{"expression":"1"}}`),
	mutationStep("merge", `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
		"Object{metadata: Object.metadata{labels: Object.metadata.labels{merged: object.metadata.name}}}"}}`),
	mutationBinding("merge"),
	labelled("merge", "first", `"x":"y"`, `merged`),
	labelled("merge", "second", `"x":"y"`, ""),
	mutationStep("patch", `{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'test', path: '/data/x',
		value: 'y'}, JSONPatch{op: 'replace', path: '/data/x', value: 'z'}]"}}`),
	mutationBinding("patch"),
	labelled("patch", "first", `"x":"y"`, "x:z"),
	labelled("patch", "test", `"x":"other"`, ""),
	labelled("patch", "error", `"other":"y"`, ""),
}}

func mutationStep(name, mutation string) Step {
	return Step{Name: "mutation " + name, Method: "POST", Path: mutatingPath, Body: `{"apiVersion":
	"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"` + name + `"},"spec":{` +
		rulesFor(name, "") + `,"reinvocationPolicy":"Never","mutations":[` + oneLine(mutation) + `]}}`}
}

func mutationBinding(name string) Step {
	return Step{Name: "mutation binding " + name, Method: "POST", Path: registrationPath +
		"mutatingadmissionpolicybindings", Body: `{"apiVersion":"admissionregistration.k8s.io/v1","kind":
		"MutatingAdmissionPolicyBinding","metadata":{"name":"` + name + `"},"spec":{"policyName":"` + name + `"}}`}
}

// Admission policies do the same on skiff-dev as on a real server, in the same words.
func TestSkiffDevEvaluatesPoliciesAsTheRealServer(t *testing.T) {
	cluster := ownCluster(t)
	fake := startWithCEL(t)
	runDifferential(t, policyScript, cluster.Admin, fake, nil)
	runDifferential(t, mutationScript, cluster.Admin, fake, nil)
}
