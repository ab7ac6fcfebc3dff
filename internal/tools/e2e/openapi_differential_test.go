package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubectl/pkg/explain"
	"k8s.io/kubectl/pkg/util/openapi"
	"k8s.io/kubectl/pkg/validation"
)

// openAPIBoxes is a definition with what OpenAPI v2 cannot say.
const openAPIBoxes = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{
"name":"boxes.openapi.example.com"},"spec":{"group":"openapi.example.com","scope":"Namespaced","names":{
"plural":"boxes","kind":"Box"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","description":"A box.","required":["spec"],"properties":{"spec":{
"type":"object","properties":{
"none":{"type":"string","nullable":true,"description":"or null"},
"inner":{"type":"object","required":["none","a"],"properties":{"none":{"type":"string","nullable":true},
"a":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"string"}}}},
"null":{"type":"object","nullable":true,"properties":{"a":{"type":"string"}}},
"nulls":{"type":"object","additionalProperties":{"type":"string","nullable":true}},
"port":{"x-kubernetes-int-or-string":true},
"ports":{"type":"array","items":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"some":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}},
"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
"map":{"type":"object","additionalProperties":{"type":"integer","format":"int32","minimum":1,"maximum":9}},
"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object",
"required":["name"],"properties":{"name":{"type":"string","default":"x","enum":["x","y"],"pattern":"^.$"}}}},
"one":{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"boolean"},
"b":{"type":"number","multipleOf":2}}}}},"status":{"type":"object"}}}}},{"name":"v2","served":true,"storage":false,
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{
"type":"object"}}}}}]}}`

// openAPIOf returns the document of a path in a form.
func openAPIOf(t *testing.T, api *API, path, accept string) []byte {
	t.Helper()
	resp := must(api.send(t.Context(), "GET", path, http.Header{"Accept": {accept}}, nil))(t)
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, resp.Status)
	}
	return body
}

// installBoxes installs the definition and waits until the document has it.
func installBoxes(t *testing.T, api *API) (definitions Object) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must(api.Create(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", openAPIBoxes))(t)
	Eventually(t, limit, "boxes are in OpenAPI v2", func() (bool, string) {
		doc, err := api.Get(ctx, "/openapi/v2")
		definitions = objectAt(doc, "definitions")
		return definitions["com.example.openapi.v1.Box"] != nil, errorText(err)
	})
	return definitions
}

// v2Differs are the differences of OpenAPI v2 that are allowed.
func v2Differs(name, field string) bool {
	switch {
	case strings.HasSuffix(name, ".DeleteOptions"), strings.HasSuffix(name, ".ListMeta"),
		strings.HasSuffix(name, "meta.v1.Status"), strings.HasSuffix(name, ".StatusDetails"):
		return true // of which the table of fields has what this server reads and writes
	}
	return strings.HasSuffix(name, ".APIServiceSpec") && field == "caBundle" // which it calls a list
}

// The definitions of /openapi/v2 are those of a real server, but for their prose, enums and defaults.
func TestOpenAPIV2IsThatOfTheRealServer(t *testing.T) {
	cluster, fake := ownCluster(t), startFake(t)
	want, have := installBoxes(t, cluster.Admin), installBoxes(t, fake)
	if len(have) < 500 {
		t.Errorf("%d definitions", len(have))
	}
	for name, d := range have {
		theirs, ours := objectAt(want, name), Object(d.(map[string]any))
		if theirs == nil {
			t.Errorf("the real server does not define %s", name)
			continue
		}
		custom := strings.HasPrefix(name, "com.example.")
		if got, want := shownV2(ours, custom), shownV2(theirs, custom); got != want && !v2Differs(name, "") {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
		for field, p := range objectAt(theirs, "properties") {
			got := shownV2(objectAt(ours, "properties", field), custom)
			if want := shownV2(Object(p.(map[string]any)), custom); got != want && !v2Differs(name, field) {
				t.Errorf("%s.%s: %s\nwant %s", name, field, got, want)
			}
		}
		for field := range objectAt(ours, "properties") {
			if objectAt(theirs, "properties", field) == nil && !v2Differs(name, field) {
				t.Errorf("the real server has no field %s.%s", name, field)
			}
		}
	}
	for name, d := range want {
		for _, gvk := range Object(d.(map[string]any)).List("x-kubernetes-group-version-kind") {
			if kind := gvk.Str("kind"); have[name] == nil && slices.ContainsFunc(tableKinds(), func(k tableKind) bool {
				return k.apiVersion == strings.TrimPrefix(gvk.Str("group")+"/"+gvk.Str("version"), "/") &&
					(k.kind == kind || k.kind+"List" == kind)
			}) {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

// shownV2 is what is compared of a schema, without the fields of a built-in kind.
func shownV2(o Object, custom bool) string {
	out := map[string]any{}
	for key, v := range o {
		switch key {
		case "description", "x-kubernetes-unions", "x-kubernetes-selectable-fields":
		case "properties":
			if fields := map[string]string{}; custom {
				for name, f := range v.(map[string]any) {
					fields[name] = shownV2(Object(f.(map[string]any)), custom)
				}
				out[key] = fields
			}
		case "enum", "default", "pattern", "minimum", "maximum":
			if custom {
				out[key] = v
			}
		case "x-kubernetes-group-version-kind":
			if list, _ := v.([]any); len(list) == 1 { // DeleteOptions have those of all groups
				out[key] = v
			}
		case "required":
			list := slices.Clone(v.([]any))
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			out[key] = list
		case "items", "additionalProperties":
			if of, ok := v.(map[string]any); ok {
				v = shownV2(Object(of), custom)
			}
			out[key] = v
		default:
			out[key] = v
		}
	}
	text, _ := json.Marshal(out) // of JSON
	return string(text)
}

// readV2 gives kubectl what was read.
type readV2 struct{ openapi.Resources }

func (r readV2) OpenAPISchema() (openapi.Resources, error) { return r.Resources, nil }

// An old kubectl reads OpenAPI v2 in protobuf, and checks by it what it sends; newer ones read v3 in protobuf, too.
func TestOpenAPIInProtobufIsReadByKubectl(t *testing.T) {
	fake := startFake(t)
	installBoxes(t, fake)
	const family = "application/com.github.proto-openapi.spec."
	v2 := &openapi_v2.Document{}
	noError(t, proto.Unmarshal(openAPIOf(t, fake, "/openapi/v2", family+"v2@v1.0+protobuf"), v2))
	resources := must(openapi.NewOpenAPIData(v2))(t)
	check := validation.NewSchemaValidation(readV2{resources})
	const noPort = `missing required field "port"`
	for text, wrong := range map[string]string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}`: "",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"typo":1}`: `unknown field "typo" in ` +
			`io.k8s.api.core.v1.ConfigMap`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":"x","selector":{},"template":{}}}`: "invalid " +
			`type for io.k8s.api.apps.v1.DeploymentSpec.replicas: got "string", expected "integer"`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"targetPort":"http"}]}}`:                      noPort,
		`{"apiVersion":"openapi.example.com/v1","kind":"Box","spec":{"port":1,"ports":["a",1],"none":null}}`: "",
		`{"apiVersion":"openapi.example.com/v1","kind":"Box","spec":{"typo":1}}`: `unknown field "typo" in ` +
			`com.example.openapi.v1.Box.spec`,
	} {
		if err := check.ValidateBytes([]byte(text)); (err == nil) != (wrong == "") || err != nil &&
			!strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
	var said bytes.Buffer
	deployment := resources.LookupResource(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	noError(t, explain.PrintModelDescription([]string{"spec", "strategy"}, &said, deployment,
		schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, false))
	if !strings.Contains(said.String(), "rollingUpdate\t<Object>") {
		t.Errorf("kubectl explain deployment.spec.strategy: %s", said.String())
	}
	for _, path := range []string{"api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1",
		"apis/openapi.example.com/v1"} {
		v3 := &openapi_v3.Document{}
		noError(t, proto.Unmarshal(openAPIOf(t, fake, "/openapi/v3/"+path, family+"v3@v1.0+protobuf"), v3))
		read := must(openapi_v3.ParseDocument(openAPIOf(t, fake, "/openapi/v3/"+path, "application/json")))(t)
		got, want := v3.GetComponents().GetSchemas().GetAdditionalProperties(),
			read.GetComponents().GetSchemas().GetAdditionalProperties()
		if len(got) != len(want) || len(v3.GetPaths().GetPath()) != len(read.GetPaths().GetPath()) {
			t.Errorf("%s: %d schemas, want %d", path, len(got), len(want))
		}
		for i := range min(len(got), len(want)) {
			if a, b := got[i].GetValue().GetSchema(), want[i].GetValue().GetSchema(); a.GetType() != b.GetType() ||
				len(a.GetProperties().GetAdditionalProperties()) != len(b.GetProperties().GetAdditionalProperties()) ||
				len(a.GetSpecificationExtension()) != len(b.GetSpecificationExtension()) {
				t.Errorf("%s: %s differs in JSON", path, got[i].GetName())
			}
		}
	}
}
