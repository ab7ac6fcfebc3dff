package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/kube"
)

const (
	crdPath    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgetPath = "/apis/example.com/v1/namespaces/default/widgets"
)

func widget(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

// withWidgets runs a test on a server that serves widgets.
func withWidgets(t *testing.T, test func(w *testServer)) {
	t.Helper()
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", crdPath, widgetCRD)
		synctest.Wait()
		test(w)
	})
}

// Rules: FC-03, FS-17
func TestCustomResourcesAreValidatedByTheirSchema(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		a := w.must(422, "POST", widgetPath, widget("a", `{}`))
		if a.at("message") != `Widget.example.com "a" is invalid: spec.image: Required value` ||
			a.at("details.kind") != "Widget" ||
			!strings.Contains(a.raw,
				`"causes":[{"field":"spec.image","message":"Required value","reason":"FieldValueRequired"}]`) {
			t.Error(a.raw)
		}
		a = w.must(422, "POST", widgetPath, widget("a", `{"image":"x","replicas":"three"}`))
		if want := `Widget.example.com "a" is invalid: [spec.replicas: Invalid value: "string": spec.replicas in ` +
			`body must be of type integer: "string", ` +
			`.spec.replicas: Invalid value: 0: .spec.replicas accessor error: three is of the type string, expected ` +
			`int64]`; a.at("message") != want {
			t.Errorf("%s\nwant %s", a.at("message"), want)
		}
		a = w.must(201, "POST", widgetPath, widget("a", `{"image":"x","foo":1}`))
		if a.at("spec.port") != int64(80) || a.at("spec.foo") != nil ||
			a.header.Get("Warning") != `299 - "unknown field \"spec.foo\""` {
			t.Errorf("%s, warning %q", a.raw, a.header.Get("Warning"))
		}
		a = w.must(400, "POST", widgetPath+"?fieldValidation=Strict", widget("b", `{"image":"x","foo":1,"image":"y"}`))
		if a.at("message") != `Widget in version "v1" cannot be handled as a Widget: strict decoding error: `+
			`duplicate field "spec.image", unknown field "spec.foo"` {
			t.Error(a.raw)
		}
		if a = w.must(201, "POST", widgetPath+"?fieldValidation=Ignore",
			widget("c", `{"image":"x","foo":1}`)); a.header.Get("Warning") != "" {
			t.Error("a warning although they are to be ignored")
		}
		before := w.must(200, "GET", widgetPath+"/a", "")
		w.must(200, "PATCH", crdPath+"/widgets.example.com",
			`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color",`+
				`"value":{"type":"string","default":"red"}}]`,
			"Content-Type", string(kube.JSONPatch))
		synctest.Wait()
		after := w.must(200, "GET", widgetPath+"/a", "")
		if after.at("spec.color") != "red" || after.at("metadata.resourceVersion") != before.at(
			"metadata.resourceVersion") {
			t.Errorf("a default that came later: %s", after.raw)
		}
		if list := w.must(200, "GET", widgetPath, ""); !strings.Contains(list.raw, `"color":"red"`) {
			t.Errorf("a list without the default: %s", list.raw)
		}
	})
}

// Rules: FS-20
func TestADryRunShowsTheResultAndStoresNothing(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		w.must(201, "POST", widgetPath, widget("a", `{"image":"x"}`))
		before := w.s.Revision()
		if a := w.must(201, "POST", widgetPath+"?dryRun=All",
			widget("b", `{"image":"x"}`)); a.at("spec.port") != int64(80) {
			t.Error(a.raw)
		}
		w.must(422, "POST", widgetPath+"?dryRun=All", widget("b", `{}`))
		if a := w.must(200, "PATCH", widgetPath+"/a?dryRun=All", `{"spec":{"image":"y"}}`, "Content-Type",
			string(kube.MergePatch)); a.at("spec.image") != "y" {
			t.Error(a.raw)
		}
		if a := w.must(201, "PATCH", widgetPath+"/n?dryRun=All&fieldManager=m", widget("n", `{"image":"x"}`),
			"Content-Type", string(kube.ApplyPatch)); a.at("metadata.name") != "n" {
			t.Error(a.raw)
		}
		w.must(200, "DELETE", widgetPath+"/a?dryRun=All", "")
		w.must(200, "DELETE", widgetPath+"?dryRun=All", "")
		w.must(422, "POST", widgetPath+"?dryRun=Some", widget("b", `{"image":"x"}`))
		if after := w.s.Revision(); after != before {
			t.Errorf("the revision went from %d to %d", before, after)
		}
		w.must(200, "GET", widgetPath+"/a", "")
	})
}

// Rules: FS-14
func TestTheContentOfADeletedNamespaceIsDeletedFirst(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
		const in = "/api/v1/namespaces/team/configmaps"
		w.must(201, "POST", in, configMap("a"))
		w.must(201, "POST", in, `{"metadata":{"name":"held","finalizers":["skiff.dev/x"]}}`)
		gone := w.must(200, "DELETE", "/api/v1/namespaces/team", "")
		if gone.at("status.phase") != "Terminating" {
			t.Error(gone.raw)
		}
		synctest.Wait()
		if got := itemNames(w.must(200, "GET", in, "")); got != "held" {
			t.Errorf("left in the namespace: %q", got)
		}
		if a := w.must(403, "POST", in, configMap("b")); !strings.Contains(a.raw, "NamespaceTerminating") ||
			a.at("message") !=
				`configmaps "b" is forbidden: unable to create new content in namespace team because it is being `+
					`terminated` {
			t.Error(a.raw)
		}
		w.must(200, "PATCH", in+"/held", `{"metadata":{"finalizers":null}}`, "Content-Type", string(kube.MergePatch))
		synctest.Wait()
		w.must(404, "GET", "/api/v1/namespaces/team", "")
		w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
		w.must(200, "PUT", "/api/v1/namespaces/team/finalize", `{"metadata":{"name":"team"},"spec":{}}`)
		w.must(200, "DELETE", "/api/v1/namespaces/team", "")
		w.must(404, "GET", "/api/v1/namespaces/team", "")
		w.must(403, "DELETE", "/api/v1/namespaces/default", "")
		var names []string
		for _, ns := range w.s.List(namespaces, "") {
			names = append(names, fmt.Sprint(ns["metadata"].(map[string]any)["name"]))
		}
		if got := strings.Join(names, " "); got != "default kube-node-lease kube-public kube-system" {
			t.Errorf("namespaces %s", got)
		}
	})
}
