package cel

import (
	"encoding/json"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
)

// policyOf returns a policy about ConfigMaps and its binding, as they are stored.
func policyOf(expression, message, condition, variable string) (policy, binding map[string]any) {
	spec := map[string]any{"validations": []any{map[string]any{"expression": expression}},
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""},
			"apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"}}}}}
	if message != "" {
		spec["validations"].([]any)[0].(map[string]any)["messageExpression"] = message
	}
	if condition != "" {
		spec["matchConditions"] = []any{map[string]any{"name": "c", "expression": condition}}
	}
	if variable != "" {
		spec["variables"] = []any{map[string]any{"name": "v", "expression": variable}}
	}
	meta := map[string]any{"name": "p", "uid": "u", "resourceVersion": "1"}
	return map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
			"metadata": meta, "spec": spec},
		map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
			"metadata": meta, "spec": map[string]any{"policyName": "p", "validationActions": []any{"Deny"}}}
}

// For any expressions of a policy, a write is never admitted both by it and by the policy that demands the
// opposite, the rest of it is evaluated without harm, and all of that ends soon.
func FuzzPolicy(f *testing.F) {
	f.Add("object.data.a == 'x'", "'no ' + object.metadata.name", "request.operation == 'CREATE'", "object.data", `{"a":"x"}`)
	f.Add("variables.v.all(k, k.matches('(a+)+$'))", "string(1/0)", "", "object.data.map(k, k)", `{"aaaaaaaaaaaaaaaaaaaa!":""}`)
	f.Add("authorizer.group('').resource('pods').check('get').allowed()", "", "has(object.spec)", "", `{}`)
	f.Add("[1,2].map(x, [1,2].map(y, x*y)) == []", "", "namespaceObject == null", "", `null`)
	f.Add("quantity(object.data.a).isLessThan(quantity('1e1000000000'))", "", "", "", `{"a":"1E999"}`)
	defaults, validate := registration("ValidatingAdmissionPolicy")
	served := kinds.Builtin(features.Set{})
	f.Fuzz(func(t *testing.T, expression, message, condition, variable, data string) {
		began := time.Now()
		var values any
		if json.Unmarshal([]byte(data), &values) != nil {
			return
		}
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "n"},
			"data": values}
		admitted := map[string]bool{}
		for _, e := range []string{expression, "!(" + expression + "\n)"} {
			policy, binding := policyOf(e, message, condition, variable)
			if defaults(policy); len(validate(policy, nil)) > 0 {
				continue
			}
			stored := func(plural string) []map[string]any {
				return map[string][]map[string]any{"validatingadmissionpolicies": {policy},
					"validatingadmissionpolicybindings": {binding}}[plural]
			}
			for _, p := range new(compiled).policies(stored, apiserver.Params{}) {
				err := p.Validate(t.Context(), about(object))
				admitted[e] = err == nil
			}
			spec, err := json.Marshal(policy["spec"])
			if err != nil {
				t.Fatal(err)
			}
			typeCheckFor(time.Second, spec, served)
		}
		if len(admitted) == 2 && admitted[expression] && admitted["!("+expression+"\n)"] && condition == "" {
			t.Errorf("%q and its opposite admit %v", expression, object)
		}
		if condition != "" {
			met, causes := conditions([]any{map[string]any{"name": "c", "expression": condition}}, "")
			if ok, err := met(about(object)); len(causes) == 0 && ok && err != nil {
				t.Errorf("%q is met, and fails: %v", condition, err)
			}
		}
		if took := time.Since(began); took > slow {
			t.Errorf("took %s", took)
		}
	})
}

// about describes the creation of a ConfigMap.
func about(object map[string]any) *admission.Attributes {
	r := kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	return &admission.Attributes{Operation: admission.Create, Kind: r, Resource: r, Namespace: "default", Name: "n",
		Options: map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}, Object: object,
		NamespaceObject: map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": "default"}},
		Complete: func(o map[string]any) (map[string]any, error) { return o, nil },
		Allowed:  func(kinds.User, auth.Action) (bool, string) { return false, "" }, Warn: func(string) {}}
}
