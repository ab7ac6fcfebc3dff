package apiserver

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// The requests of these tests are those that kubectl 1.32 was seen to make (protocol section 16), so that none of them
// needs kubectl.

const (
	tableFirst = "application/json;as=Table;v=v1;g=meta.k8s.io," +
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	protobufFirst = "application/vnd.kubernetes.protobuf,application/json"
)

// Rules: FD-05, FD-06, FD-07
func TestOpenAPIV3IsCompleteAndV2IsThere(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		v2 := w.must(200, "GET", "/openapi/v2", "", "Accept",
			"application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
		if !strings.HasSuffix(v2.raw, "\n\x032.0") ||
			!strings.Contains(v2.raw, "\x15com.example.v1.Widget\x12") {
			t.Errorf("%d bytes: %q", len(v2.raw), v2.raw[:min(len(v2.raw), 100)])
		}
		plain := w.must(200, "GET", "/openapi/v2", "")
		d := obj.Map(plain.body, "definitions")
		if plain.at("swagger") != "2.0" || d["com.example.v1.Widget"] == nil ||
			d["io.k8s.api.apps.v1.DeploymentList"] == nil {
			t.Errorf("%d definitions", len(d))
		}
		index := w.must(200, "GET", "/openapi/v3", "")
		for _, k := range append(kinds.Builtin(features.Set{}), w.s.registry.find("example.com", "v1", "widgets")) {
			object := k.Root() + "/namespaces/{namespace}/" + k.Plural + "/{name}"
			if k.ClusterScoped {
				object = k.Root() + "/" + k.Plural + "/{name}"
			}
			group := strings.TrimPrefix(k.Root(), "/")
			doc := w.must(200, "GET", obj.String(index.body, "paths", group, "serverRelativeURL"), "")
			if k.Review != nil || k.ReadOnly {
				continue // nothing is patched
			}
			// What kubectl's query parameter verifier looks for before it leaves the validation of fields to the
			// server.
			op := obj.Map(doc.body, "paths", object, "patch")
			parameters := fmt.Sprint(op["parameters"])
			want := map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
			if fmt.Sprint(op["x-kubernetes-group-version-kind"]) != fmt.Sprint(want) ||
				!strings.Contains(parameters, "name:fieldValidation") || !strings.Contains(parameters, "name:dryRun") {
				t.Errorf("%s: PATCH %v", k.Kind, op)
			}
			schema := obj.String(op, "responses", "200", "content", "application/json", "schema", "$ref")
			if properties := obj.Map(doc.body, "components", "schemas", path.Base(schema),
				"properties"); properties["metadata"] == nil {
				t.Errorf("%s: fields %v", k.Kind, properties)
			}
			for _, ref := range strings.Split(doc.raw, `"$ref":"#/components/schemas/`)[1:] {
				name, _, _ := strings.Cut(ref, `"`)
				if obj.Map(doc.body, "components", "schemas", name) == nil {
					t.Errorf("%s: the document refers to %s, which it does not have", k.Kind, name)
				}
			}
		}
	})
}

// Rules: FS-40
func TestEachAnswerHasTheUsualHeaders(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		ids := map[string]bool{}
		for _, a := range []response{
			w.must(201, "POST", configMaps, configMap("a")), w.must(200, "GET", configMaps+"/a", ""),
			w.must(200, "GET", configMaps, ""),
			w.must(404, "GET", configMaps+"/b", ""), w.must(200, "DELETE", configMaps+"/a", ""),
		} {
			id := a.header.Get("Audit-Id")
			if id == "" || ids[id] || a.header.Get("Cache-Control") != "no-cache, private" ||
				a.header.Get("Content-Type") != "application/json" {
				t.Errorf("headers %v", a.header)
			}
			ids[id] = true
		}
	})
}
