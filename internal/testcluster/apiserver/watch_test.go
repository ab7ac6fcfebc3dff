package apiserver

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/obj"
)

func (w *testServer) create(path string, names ...string) (last string) {
	w.t.Helper()
	for _, n := range names {
		last = fmt.Sprint(w.must(201, "POST", path, `{"metadata":{"name":"`+n+`"}}`).at("metadata.resourceVersion"))
	}
	return last
}

// Rules: FS-27, FS-32
func TestAWatchResumesWithinTheHistoryOrGets410(t *testing.T) {
	withServer(t, Options{HistoryEvents: 4}, func(w *testServer) {
		first := w.create(configMaps, "a")
		w.create(configMaps, "b")
		w.must(200, "DELETE", configMaps+"/a", "")
		watch := w.watch(configMaps + "?watch=1&resourceVersion=" + first)
		frames := []frame{watch.next(), watch.next()}
		watch.close()
		if got := eventNames(frames); got != "ADDED b, DELETED a" {
			t.Errorf("after %s: %s", first, got)
		}
		last := fmt.Sprint(frames[1].at("metadata.resourceVersion"))
		w.create(configMaps, "c")
		watch = w.watch(configMaps + "?watch=1&resourceVersion=" + last)
		if got := eventNames([]frame{watch.next()}); got != "ADDED c" {
			t.Errorf("after the DELETED event: %s", got)
		}
		watch.close()
		w.create(configMaps, "d", "e", "f")
		watch = w.watch(configMaps + "?watch=1&resourceVersion=" + first)
		f := watch.next()
		if f.Type != "ERROR" || f.at("code") != float64(410) || f.at("reason") != "Expired" ||
			!strings.HasPrefix(fmt.Sprint(f.at("message")), "too old resource version: "+first+" (") {
			t.Errorf("from before the window: %v", f)
		}
		if err := watch.end(); err != io.EOF {
			t.Errorf("the stream ended with %v", err)
		}
		w.s.Inject(Fault{Verb: "watch", Times: 1, Watch: WatchFault{Gone: GoneAsHTTP}})
		w.must(410, "GET", configMaps+"?watch=1&resourceVersion="+last, "")
	})
}

// Rules: FS-28, FS-29
func TestAWatchWithoutAVersionStartsWithTheExistingObjects(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		last := w.create(configMaps, "b", "c", "a")
		for _, query := range []string{"", "&resourceVersion=0"} {
			watch := w.watch(configMaps + "?watch=1&timeoutSeconds=1" + query)
			if got := eventNames([]frame{watch.next(), watch.next(),
				watch.next()}); got != "ADDED a, ADDED b, ADDED c" {
				t.Errorf("%q: %s", query, got)
			}
			if err := watch.end(); err != io.EOF {
				t.Error(err)
			}
		}
		for _, query := range []string{"", "&resourceVersion=" + last, "&resourceVersion=0"} {
			watch := w.watch(configMaps +
				"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true" + query)
			frames := []frame{watch.next(), watch.next(), watch.next(), watch.next()}
			end := frames[3]
			if eventNames(frames) != "ADDED a, ADDED b, ADDED c, BOOKMARK" || end.at("metadata.annotations") == nil {
				t.Errorf("%q: %s", query, eventNames(frames))
			}
			if end.at("kind") != "ConfigMap" || rv(t, end.at("metadata.resourceVersion")) < rv(t, last) {
				t.Errorf("end bookmark %v", end)
			}
			watch.close()
		}
		watch := w.watch(
			"/api/v1/namespaces/kube-system/configmaps?watch=1&sendInitialEvents=true" +
				"&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		if f := watch.next(); f.Type != "BOOKMARK" {
			t.Errorf("an empty collection begins with %s", f.Type)
		}
		watch.close()
	})
}

// Rules: FS-30
func TestBookmarksAreSentOnRequestEachMinuteAndAtTheEnd(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		last := w.create(configMaps, "a")
		watch := w.watch(configMaps + "?watch=1&timeoutSeconds=130&allowWatchBookmarks=true&resourceVersion=" + last)
		w.create(configMaps, "b")
		start, seen := time.Now(), []string{}
		watch.next()
		for {
			var f frame
			if err := watch.dec.Decode(&f); err != nil {
				break
			}
			seen = append(seen, fmt.Sprint(f.Type, time.Since(start)))
			if len(f.at("metadata").(map[string]any)) != 1 || len(f.Object) != 3 {
				t.Errorf("a bookmark has more than kind, apiVersion and version: %v", f.Object)
			}
		}
		if got := strings.Join(seen, " "); got != "BOOKMARK1m0s BOOKMARK2m0s BOOKMARK2m8s" {
			t.Error(got)
		}
		watch = w.watch(configMaps + "?watch=1&timeoutSeconds=130&resourceVersion=" + last)
		var f frame
		watch.next()
		if err := watch.dec.Decode(&f); err != io.EOF {
			t.Errorf("without asking: %v %v", f, err)
		}
		// Where nothing happened there is nothing to say.
		watch = w.watch(configMaps + "?watch=1&timeoutSeconds=130&allowWatchBookmarks=true&resourceVersion=" +
			fmt.Sprint(w.s.Revision()))
		if err := watch.dec.Decode(&f); err != io.EOF {
			t.Errorf("a bookmark that repeats what the client asked with: %v %v", f, err)
		}
	})
}

// Rules: FS-31
func TestAnObjectThatStartsOrStopsMatchingASelectorIsAddedOrDeleted(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		last := w.create(configMaps, "a")
		watch := w.watch(configMaps + "?watch=1&labelSelector=app%3Dweb&resourceVersion=" + last)
		defer watch.close()
		label := func(body string) string {
			return fmt.Sprint(w.must(200, "PATCH", configMaps+"/a", body, "Content-Type",
				string(kube.MergePatch)).at("metadata.resourceVersion"))
		}
		label(`{"data":{"x":"1"}}`)
		label(`{"metadata":{"labels":{"app":"web"}}}`)
		label(`{"data":{"x":"2"}}`)
		out := label(`{"metadata":{"labels":{"app":"other"}},"data":{"x":"3"}}`)
		frames := []frame{watch.next(), watch.next(), watch.next()}
		if got := eventNames(frames); got != "ADDED a, MODIFIED a, DELETED a" {
			t.Fatal(got)
		}
		gone := frames[2]
		if gone.at("data.x") != "2" || gone.at("metadata.labels.app") != "web" ||
			gone.at("metadata.resourceVersion") != out {
			t.Errorf("the leaving object: %v, want its last selected content at %s", gone.Object, out)
		}
	})
}

// Rules: FS-34
func TestTheWatchOfASlowReaderIsEnded(t *testing.T) {
	withServer(t, Options{SlowWatcher: 50}, func(w *testServer) {
		last := w.create(configMaps, "a")
		watch := w.watch(configMaps + "?watch=1&resourceVersion=" + last)
		for i := range 500 {
			w.must(200, "PATCH", configMaps+"/a", fmt.Sprintf(`{"data":{"n":"%d"}}`, i),
				"Content-Type", string(kube.MergePatch))
		}
		if err := watch.end(); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
	})
}

// Rules: FS-24
func TestPagesAreFromOneSnapshotAndTokensExpire(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.create(configMaps, "a", "b", "c", "d", "e")
		one := w.must(200, "GET", configMaps+"?limit=2", "")
		token, version := fmt.Sprint(one.at("metadata.continue")), one.at("metadata.resourceVersion")
		if one.at("metadata.remainingItemCount") != int64(3) {
			t.Errorf("remaining %v", one.at("metadata.remainingItemCount"))
		}
		w.must(200, "DELETE", configMaps+"/c", "")
		w.create(configMaps, "bb")
		two := w.must(200, "GET", configMaps+"?limit=10&continue="+token, "")
		if names := itemNames(two); names != "c d e" || two.at("metadata.resourceVersion") != version ||
			two.at("metadata.continue") != nil {
			t.Errorf("page 2: %s at %v, page 1 at %v", names, two.at("metadata.resourceVersion"), version)
		}
		w.must(400, "GET", configMaps+"?limit=10&continue=x"+token, "")
		w.must(400, "GET", configMaps+"?limit=10&labelSelector=a&continue="+token, "")
		w.must(400, "GET", configMaps+"?limit=10&resourceVersion="+fmt.Sprint(version)+"&continue="+token, "")
		if sel := w.must(200, "GET", configMaps+"?limit=1&labelSelector=!x",
			""); sel.at("metadata.remainingItemCount") != nil {
			t.Error("remainingItemCount with a selector")
		}
		time.Sleep(6 * time.Minute) // virtual: past the lifetime of the token
		gone := w.must(410, "GET", configMaps+"?limit=10&continue="+token, "")
		if gone.at("reason") != "Expired" {
			t.Error(gone.raw)
		}
		rest := w.must(200, "GET", configMaps+"?limit=10&continue="+fmt.Sprint(gone.at("metadata.continue")), "")
		if names := itemNames(rest); names != "bb d e" {
			t.Errorf("the inconsistent rest: %s", names)
		}
	})
}

func itemNames(a response) string {
	var out []string
	items, _ := a.body["items"].([]any)
	for _, i := range items {
		out = append(out, fmt.Sprint(i.(map[string]any)["metadata"].(map[string]any)["name"]))
	}
	return strings.Join(out, " ")
}

// Rules: FS-25
func TestAReadWaitsForAFutureRevision(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		last := rv(t, w.create(configMaps, "a"))
		future := fmt.Sprint(last + 50)
		for _, path := range []string{configMaps + "?resourceVersion=", configMaps + "/a?resourceVersion=",
			configMaps + "?resourceVersionMatch=Exact&resourceVersion="} {
			start := time.Now()
			a := w.must(504, "GET", path+future, "")
			if time.Since(start) != maxRevisionWait || a.header.Get("Retry-After") != "1" ||
				!strings.Contains(a.raw, `"reason":"ResourceVersionTooLarge"`) ||
				a.at("message") != fmt.Sprintf("Timeout: Too large resource version: %s, current: %d", future, last) {
				t.Errorf("%s after %v: %s", path, time.Since(start), a.raw)
			}
		}
		var writes sync.WaitGroup
		defer writes.Wait()
		writes.Go(func() {
			time.Sleep(time.Second)
			for i := range 60 {
				w.create(configMaps, fmt.Sprint("x", i))
			}
		})
		w.must(200, "GET", configMaps+"?resourceVersion="+future, "")
		writes.Wait()
		exact := w.must(200, "GET", configMaps+fmt.Sprintf("?resourceVersionMatch=Exact&resourceVersion=%d", last), "")
		if itemNames(exact) != "a" {
			t.Errorf("at exactly %d: %s", last, itemNames(exact))
		}
		w.s.Compact()
		w.must(410, "GET", configMaps+fmt.Sprintf("?resourceVersionMatch=Exact&resourceVersion=%d", last), "")
	})
}

// Rules: FC-01, FC-08
func TestDeletingADefinitionRemovesItsObjectsWatchesAndPath(t *testing.T) {
	withServer(t, Options{CRDDelay: time.Second}, func(w *testServer) {
		const crds, widgets = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			"/apis/example.com/v1/namespaces/default/widgets"
		definitions := w.watch(crds + "?watch=1")
		defer definitions.close()
		w.must(201, "POST", crds, widgetCRD)
		w.must(404, "GET", widgets, "")
		time.Sleep(2 * time.Second)
		crd := w.must(200, "GET", crds+"/widgets.example.com", "")
		if !strings.Contains(crd.raw, `"Established"`) || strings.Contains(crd.raw, finalizerCleanup) {
			t.Fatalf("not established: %s", crd.raw)
		}
		w.must(201, "POST", widgets,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"image":"x"}}`)
		watch := w.watch(widgets + "?watch=1")
		watch.next()
		deleted := w.must(200, "DELETE", crds+"/widgets.example.com", "")
		if !strings.Contains(deleted.raw, "InstanceDeletionPending") ||
			!strings.Contains(deleted.raw, finalizerCleanup) {
			t.Errorf("it does not say that it goes: %s", deleted.raw)
		}
		if f := watch.next(); f.Type != "DELETED" {
			t.Errorf("event %s", f.Type)
		}
		if err := watch.end(); err != io.EOF {
			t.Errorf("the watch ended with %v", err)
		}
		time.Sleep(time.Second)
		w.must(404, "GET", widgets, "")
		w.must(404, "GET", crds+"/widgets.example.com", "")
		var steps []string
		for range 6 {
			f := definitions.next()
			steps = append(steps, f.Type)
			for _, c := range obj.Maps(f.Object, "status", "conditions") {
				if c["type"] != "NamesAccepted" {
					steps = append(steps, obj.String(c, "reason"))
				}
			}
		}
		want := "ADDED MODIFIED Installing MODIFIED InitialNamesAccepted MODIFIED InitialNamesAccepted " +
			"InstanceDeletionPending MODIFIED InitialNamesAccepted InstanceDeletionInProgress DELETED " +
			"InitialNamesAccepted InstanceDeletionInProgress"
		if got := strings.Join(steps, " "); got != want {
			t.Errorf("a watch of definitions saw %s\nwant %s", got, want)
		}
	})
}

const widgetCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"plural":"widgets","kind":"Widget","shortNames":["wd"]},
"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas",
"labelSelectorPath":".status.selector"}},
"additionalPrinterColumns":[{"name":"Image","type":"string","jsonPath":".spec.image"},
{"name":"Num","type":"integer","jsonPath":".spec.replicas","priority":1},
{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["image"],
"properties":{"image":{"type":"string","minLength":1},"replicas":{"type":"integer","minimum":0},
"port":{"type":"integer","default":80}}},
"status":{"type":"object","properties":{"replicas":{"type":"integer"},"selector":{"type":"string"}}}}}}}]}}`
