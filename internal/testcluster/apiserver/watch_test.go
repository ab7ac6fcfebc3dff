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
func TestTheTokenOfAPageExpires(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.create(configMaps, "a", "b", "c", "d", "e")
		token := fmt.Sprint(w.must(200, "GET", configMaps+"?limit=2", "").at("metadata.continue"))
		w.must(200, "DELETE", configMaps+"/c", "")
		w.create(configMaps, "bb")
		if names := itemNames(w.must(200, "GET", configMaps+"?continue="+token, "")); names != "c d e" {
			t.Errorf("page 2: %s", names)
		}
		time.Sleep(6 * time.Minute) // virtual: past the lifetime of the token
		gone := w.must(410, "GET", configMaps+"?limit=10&continue="+token, "")
		rest := w.must(200, "GET", configMaps+"?limit=10&continue="+fmt.Sprint(gone.at("metadata.continue")), "")
		if names := itemNames(rest); gone.at("reason") != "Expired" || names != "bb d e" {
			t.Errorf("%s, and the inconsistent rest: %s", gone.raw, names)
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
