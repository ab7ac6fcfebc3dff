package apiserver

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/forms"
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

func byName(name string) string { return "fieldSelector=" + url.QueryEscape("metadata.name="+name) }

// Rules: FD-09
func TestGetAndWatchShowsOneRowForEachEvent(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		w.must(201, "POST", widgetPath, widget("a", `{"image":"x"}`))
		list := w.must(200, "GET", widgetPath+"?limit=500", "", "Accept", tableFirst)
		if list.at("kind") != "Table" || list.at("metadata.resourceVersion") == nil {
			t.Fatal(list.raw)
		}
		watch := w.watch(widgetPath+"?watch=true&resourceVersion="+fmt.Sprint(list.at("metadata.resourceVersion")),
			"Accept", tableFirst)
		defer watch.close()
		w.must(200, "PATCH", widgetPath+"/a", `{"spec":{"image":"y"}}`, "Content-Type", string(kube.MergePatch))
		w.must(201, "POST", widgetPath, widget("b", `{"image":"z"}`))
		w.must(200, "DELETE", widgetPath+"/a", "")
		for i, want := range []string{"MODIFIED [a y ", "ADDED [b z ", "DELETED [a y "} {
			f := watch.next()
			rows := obj.Maps(f.Object, "rows")
			if len(rows) != 1 || !strings.HasPrefix(fmt.Sprint(f.Type, " ", rows[0]["cells"]), want) ||
				(f.at("columnDefinitions") != nil) != (i == 0) {
				t.Errorf("event %d: %s %v, want one row %s", i, f.Type, f.Object, want)
			}
			if obj.String(rows[0], "object", "metadata", "name") == "" {
				t.Error("the row has no name")
			}
		}
	})
}

// Rules: FD-12
func TestKubectlDeleteWaitsForFinalizers(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		created := w.must(201, "POST", configMaps, `{"metadata":{"name":"a","finalizers":["example.com/hold"]}}`)
		deleted := w.must(200, "DELETE", configMaps+"/a", `{"propagationPolicy":"Background"}`)
		if deleted.at("metadata.uid") != created.at("metadata.uid") ||
			deleted.at("metadata.deletionTimestamp") == nil {
			t.Fatal(deleted.raw)
		}
		w.must(200, "GET", configMaps+"/a", "")
		list := w.must(200, "GET", configMaps+"?"+byName("a")+"&limit=500&resourceVersion=0", "")
		if itemNames(list) != "a" {
			t.Fatal(list.raw)
		}
		watch := w.watch(configMaps + "?watch=true&allowWatchBookmarks=true&timeoutSeconds=386&" + byName("a") +
			"&resourceVersion=" + fmt.Sprint(list.at("metadata.resourceVersion")))
		defer watch.close()
		time.Sleep(time.Minute) // nothing happens but bookmarks
		w.must(200, "PATCH", configMaps+"/a", `{"metadata":{"finalizers":null}}`,
			"Content-Type", string(kube.MergePatch))
		f := watch.next()
		for f.Type == "BOOKMARK" {
			f = watch.next()
		}
		if f.Type != "DELETED" || f.at("metadata.uid") != created.at("metadata.uid") {
			t.Errorf("%s %v", f.Type, f.Object)
		}
		// Foreground and orphan leave the object to the garbage collector; --all is one DELETE for each name.
		w.create(configMaps, "b", "c")
		if b := w.must(200, "DELETE", configMaps+"/b", `{"propagationPolicy":"Foreground"}`); fmt.Sprint(
			b.at("metadata.finalizers")) != "[foregroundDeletion]" {
			t.Error(b.raw)
		}
		if c := w.must(200, "DELETE", configMaps+"/c", `{"propagationPolicy":"Orphan"}`); fmt.Sprint(
			c.at("metadata.finalizers")) != "[orphan]" {
			t.Error(c.raw)
		}
	})
}

// Rules: FD-13
func TestKubectlWaitSeesCreationChangeDeletionAndRecreation(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		list := w.must(200, "GET", widgetPath+"?"+byName("a"), "")
		if itemNames(list) != "" || list.at("metadata.resourceVersion") == nil {
			t.Fatal(list.raw)
		}
		watch := w.watch(widgetPath + "?watch=true&allowWatchBookmarks=true&" + byName("a") + "&resourceVersion=" +
			fmt.Sprint(list.at("metadata.resourceVersion")))
		defer watch.close()
		w.must(201, "POST", widgetPath, widget("other", `{"image":"x"}`))
		first := w.must(201, "POST", widgetPath, widget("a", `{"image":"x"}`))
		w.must(200, "PATCH", widgetPath+"/a/status", `{"status":{"replicas":1}}`,
			"Content-Type", string(kube.MergePatch))
		w.must(200, "DELETE", widgetPath+"/a", "")
		second := w.must(201, "POST", widgetPath, widget("a", `{"image":"x"}`))
		for _, want := range []struct {
			event    string
			uid      any
			replicas any
		}{
			{"ADDED", first.at("metadata.uid"), nil}, {"MODIFIED", first.at("metadata.uid"), float64(1)},
			{"DELETED", first.at("metadata.uid"), float64(1)}, {"ADDED", second.at("metadata.uid"), nil},
		} {
			if f := watch.next(); f.Type != want.event || f.at("metadata.uid") != want.uid ||
				f.at("status.replicas") != want.replicas {
				t.Errorf("%s %v, want %v", f.Type, f.Object, want)
			}
		}
		// The streaming list that newer versions use.
		stream := w.watch(widgetPath +
			"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" +
			byName("a"))
		defer stream.close()
		if one, end := stream.next(), stream.next(); one.at("metadata.uid") != second.at("metadata.uid") ||
			obj.String(end.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
			t.Errorf("%v, %v", one.Object, end.Object)
		}
	})
}

// Rules: FD-14
func TestDescribeReadsTheObjectTwiceAndItsEvents(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		created := w.must(201, "POST", deployments, deployment("d", `"1"`))
		uid := fmt.Sprint(created.at("metadata.uid"))
		for name, about := range map[string]string{"ours": uid, "others": "another"} {
			w.must(201, "POST", "/api/v1/namespaces/default/events",
				fmt.Sprintf(`{"metadata":{"name":%q},"reason":"Scaled","message":"m","type":"Normal",
				"involvedObject":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"default","name":"d",
				"uid":%q}}`, name, about))
		}
		dynamic := w.must(200, "GET", deployments+"/d", "", "Accept", "application/json")
		typed := w.must(200, "GET", deployments+"/d", "", "Accept", protobufFirst)
		if typed.raw != dynamic.raw || typed.header.Get("Content-Type") != "application/json" {
			t.Errorf("a client that would like protobuf better gets %s: %s",
				typed.header.Get("Content-Type"), typed.raw)
		}
		selector := url.QueryEscape(
			"involvedObject.name=d,involvedObject.namespace=default,involvedObject.kind=Deployment," +
				"involvedObject.uid=" + uid)
		if events := w.must(200, "GET", "/api/v1/namespaces/default/events?limit=500&fieldSelector="+selector, "",
			"Accept", protobufFirst); events.header.Get("Content-Type") != forms.ProtobufType ||
			!strings.Contains(events.raw, "ours") || strings.Contains(events.raw, "others") {
			t.Errorf("events: %q", events.raw)
		}
	})
}

// Rules: FD-05, FD-06, FD-07
func TestOpenAPIV3IsCompleteAndV2IsThere(t *testing.T) {
	withWidgets(t, func(w *testServer) {
		v2 := w.must(200, "GET", "/openapi/v2", "", "Accept",
			"application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
		if !strings.HasPrefix(v2.raw, "\n\x032.0\x12") {
			t.Errorf("%q", v2.raw)
		}
		if v2 := w.must(200, "GET", "/openapi/v2", ""); v2.at("swagger") != "2.0" {
			t.Error(v2.raw)
		}
		index := w.must(200, "GET", "/openapi/v3", "")
		for _, k := range append(kinds.Builtin(), w.s.registry.find("example.com", "v1", "widgets")) {
			object := k.Root() + "/namespaces/{namespace}/" + k.Plural + "/{name}"
			if k.ClusterScoped {
				object = k.Root() + "/" + k.Plural + "/{name}"
			}
			group := strings.TrimPrefix(k.Root(), "/")
			doc := w.must(200, "GET", obj.String(index.body, "paths", group, "serverRelativeURL"), "")
			if k.Review != nil {
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
