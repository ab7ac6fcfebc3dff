package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/obj"
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

func TestTheEndOfANamespaceTakesPodsFirstAndSaysWhatIsLeft(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
		const in = "/api/v1/namespaces/team/"
		w.must(201, "POST", in+"configmaps", `{"metadata":{"name":"held","finalizers":["skiff.dev/x"]}}`)
		w.must(201, "POST", in+"pods", `{"metadata":{"name":"held","finalizers":["skiff.dev/y"]},"spec":{"containers":[{
			"name":"c","image":"i"}]}}`)
		w.must(200, "DELETE", "/api/v1/namespaces/team", "")
		said := func() (out []string) {
			synctest.Wait()
			ns := w.must(200, "GET", "/api/v1/namespaces/team", "")
			for _, c := range obj.Maps(ns.body, "status", "conditions") {
				if c["status"] == "True" {
					out = append(out, obj.String(c, "message"))
				}
			}
			return out
		}
		held := w.must(200, "GET", in+"configmaps/held", "")
		if left := said(); left != nil || held.at("metadata.deletionTimestamp") != nil {
			t.Errorf("while a pod is there, its namespace says %q", left)
		}
		w.must(200, "PATCH", in+"pods/held", `{"metadata":{"finalizers":null}}`, "Content-Type", string(kube.MergePatch))
		if left := said(); !slices.Equal(left, []string{
			"Some resources are remaining: configmaps. has 1 resource instances",
			"Some content in the namespace has finalizers remaining: skiff.dev/x in 1 resource instances"}) {
			t.Errorf("the namespace says %q", left)
		}
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
