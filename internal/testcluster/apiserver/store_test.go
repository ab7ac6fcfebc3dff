package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func rv(t *testing.T, v any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	if err != nil || n <= 1 {
		t.Fatalf("resourceVersion %v: not a number above 1 (%v)", v, err)
	}
	return n
}

// Rules: FS-01, FS-02, FS-03
func TestAllResourcesShareOneRevisionCounterAndTheServerSetsUIDs(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		a := w.must(201, "POST", configMaps,
			`{"metadata":{"name":"a","uid":"mine","creationTimestamp":"2001-01-01T00:00:00Z"}}`)
		if a.at("metadata.uid") == "mine" || a.at("metadata.creationTimestamp") == "2001-01-01T00:00:00Z" {
			t.Fatalf("the client's uid or creation time was kept: %s", a.raw)
		}
		gap := false
		last := rv(t, a.at("metadata.resourceVersion"))
		for i := range 20 {
			n := rv(t, w.must(201, "POST", configMaps, configMap(fmt.Sprint("b", i))).at("metadata.resourceVersion"))
			if n <= last {
				t.Fatalf("resourceVersion %d after %d", n, last)
			}
			gap = gap || n > last+1
			last = n
		}
		if !gap {
			t.Error("20 revisions without a gap")
		}
		if n := rv(t, w.must(200, "GET", "/api/v1/pods", "").at("metadata.resourceVersion")); n < last {
			t.Errorf("list of another resource at %d, the last write was %d", n, last)
		}
		w.must(409, "PUT", configMaps+"/a", `{"metadata":{"name":"a","uid":"other"}}`)
	})
}

// Rules: FS-04
func TestAWriteThatChangesNothingKeepsTheVersionAndEmitsNothing(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		a := w.must(201, "POST", configMaps, configMap("a"))
		watch := w.watch(configMaps + "?watch=1&resourceVersion=" + fmt.Sprint(a.at("metadata.resourceVersion")))
		defer watch.close()
		same := func(b response) {
			t.Helper()
			if b.at("metadata.resourceVersion") != a.at("metadata.resourceVersion") {
				t.Errorf("resourceVersion %v became %v", a.at("metadata.resourceVersion"),
					b.at("metadata.resourceVersion"))
			}
		}
		same(w.must(200, "PUT", configMaps+"/a", a.raw))
		same(w.must(200, "PATCH", configMaps+"/a", `{"data":{"a":"b"}}`, "Content-Type", string(kube.MergePatch)))
		apply := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"c":"d"}}`
		b := w.must(200, "PATCH", configMaps+"/a?fieldManager=x", apply, "Content-Type", string(kube.ApplyPatch))
		c := w.must(200, "PATCH", configMaps+"/a?fieldManager=x", apply, "Content-Type", string(kube.ApplyPatch))
		if b.at("metadata.resourceVersion") != c.at("metadata.resourceVersion") {
			t.Error("an apply that changes nothing made a new version")
		}
		if f := watch.next(); f.Type != "MODIFIED" || f.at("metadata.resourceVersion") != b.at(
			"metadata.resourceVersion") {
			t.Errorf("first event %s at %v, want that of the first apply", f.Type, f.at("metadata.resourceVersion"))
		}
	})
}

// Rules: FS-05, FS-06, FS-07
func TestWritesWithAnOutdatedVersionConflict(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", configMaps, configMap("a"))
		for _, tc := range []struct {
			name, method, path, body string
			code                     int
			message                  string
		}{
			{"old version", "PUT", configMaps + "/a", `{"metadata":{"name":"a","resourceVersion":"1"}}`, 409,
				`Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your ` +
					`changes to the latest version and try again`},
			{"no version", "PUT", configMaps + "/a", `{"metadata":{"name":"a"},"data":{"x":"y"}}`, 200, ""},
			{"missing", "PUT", configMaps + "/b", `{"metadata":{"name":"b"}}`, 404, `configmaps "b" not found`},
			{"missing lease", "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
				`{"metadata":{"name":"l"}}`, 201, ""},
			{"exists", "POST", configMaps, configMap("a"), 409, `configmaps "a" already exists`},
			{"version on create", "POST", configMaps, `{"metadata":{"name":"c","resourceVersion":"1"}}`, 500,
				"resourceVersion should not be set on objects to be created"},
			{"other namespace", "POST", configMaps, `{"metadata":{"name":"c","namespace":"x"}}`, 400,
				"the namespace of the provided object does not match the namespace sent on the request"},
			{"other name", "PUT", configMaps + "/a", `{"metadata":{"name":"c"}}`, 400,
				"the name of the object (c) does not match the name on the URL (a)"},
			{"missing namespace", "POST", "/api/v1/namespaces/nope/configmaps", configMap("a"), 404,
				`namespaces "nope" not found`},
		} {
			a := w.do(tc.method, tc.path, tc.body)
			if a.code != tc.code || tc.message != "" && a.at("message") != tc.message {
				t.Errorf("%s: %d %s", tc.name, a.code, a.raw)
			}
		}
	})
}

// Rules: FS-09, FS-10, FS-11, FS-12, FS-32
func TestFinalizersDelayTheRemovalOfADeletedObject(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		a := w.must(201, "POST", configMaps, `{"metadata":{"name":"a","finalizers":["skiff.dev/x"]}}`)
		watch := w.watch(configMaps + "?watch=1&resourceVersion=" + fmt.Sprint(a.at("metadata.resourceVersion")))
		defer watch.close()
		uid := fmt.Sprint(a.at("metadata.uid"))
		if b := w.must(409, "DELETE", configMaps+"/a", `{"preconditions":{"uid":"abc"}}`); !strings.Contains(
			fmt.Sprint(b.at("message")), "the UID in the precondition (abc) does not match the UID in record ("+uid+
				")") {
			t.Error(b.raw)
		}
		w.must(409, "DELETE", configMaps+"/a", `{"preconditions":{"resourceVersion":"1"}}`)
		b := w.must(200, "DELETE", configMaps+"/a", `{"preconditions":{"uid":"`+uid+`"}}`)
		if b.at("metadata.deletionTimestamp") == nil || b.at("metadata.deletionGracePeriodSeconds") != int64(0) {
			t.Errorf("not marked: %s", b.raw)
		}
		if c := w.must(200, "DELETE", configMaps+"/a", ""); c.at("metadata.resourceVersion") != b.at(
			"metadata.resourceVersion") {
			t.Error("the second DELETE changed the object")
		}
		added := w.must(422, "PATCH", configMaps+"/a", `{"metadata":{"finalizers":["skiff.dev/x","skiff.dev/y"]}}`,
			"Content-Type", string(kube.MergePatch))
		if !strings.Contains(added.raw, "no new finalizers can be added if the object is being deleted") {
			t.Error(added.raw)
		}
		w.must(200, "PATCH", configMaps+"/a", `{"metadata":{"deletionTimestamp":null},"data":{"still":"here"}}`,
			"Content-Type", string(kube.MergePatch))
		last := w.must(200, "PATCH", configMaps+"/a", `{"metadata":{"finalizers":null}}`,
			"Content-Type", string(kube.MergePatch))
		w.must(404, "GET", configMaps+"/a", "")
		frames := []frame{watch.next(), watch.next(), watch.next()}
		if got := eventNames(frames); got != "MODIFIED a, MODIFIED a, DELETED a" {
			t.Errorf("events %s", got)
		}
		// The last write and the removal are one step: its answer has the version before, the event what was stored.
		before, after := frames[1].at("metadata.resourceVersion"), frames[2].at("metadata.resourceVersion")
		if last.at("metadata.resourceVersion") != before || last.at("metadata.finalizers") != nil {
			t.Errorf("the write that removed it is answered with %s, want version %v", last.raw, before)
		}
		if rv(t, after) <= rv(t, before) || fmt.Sprint(frames[2].at("metadata.finalizers")) != "[skiff.dev/x]" {
			t.Errorf("the removal shows %v", frames[2].Object)
		}
		w.must(201, "POST", configMaps, configMap("b"))
		if d := w.must(200, "DELETE", configMaps+"/b", ""); d.at("status") != "Success" ||
			d.at("details.uid") == nil || d.at("details.kind") != "configmaps" {
			t.Errorf("DELETE answered %s", d.raw)
		}
	})
}

// Rules: FS-15
func TestEightGeneratedNamesAreTried(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		a := w.must(201, "POST", configMaps, `{"metadata":{"generateName":"`+strings.Repeat("x", 63)+`"}}`)
		if name := fmt.Sprint(a.at("metadata.name")); len(name) != 63 ||
			!strings.HasPrefix(name, strings.Repeat("x", 58)) {
			t.Errorf("generated %q", name)
		}
		tries := 0
		if _, ok := w.s.generateName("a-", func(string) bool { tries++; return true }); ok || tries != 8 {
			t.Errorf("%d tries, ok %v", tries, ok)
		}
	})
}

// Rules: FS-18
func TestPatchesWithoutAVersionNeverConflict(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", configMaps, configMap("a"))
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if a := w.do("PATCH", configMaps+"/a", fmt.Sprintf(`{"data":{"k%d":"v"}}`, i), "Content-Type",
					string(kube.MergePatch)); a.code != 200 {
					t.Errorf("patch %d: %s", i, a.raw)
				}
			})
		}
		wg.Wait()
		o := w.s.Get(kube.Resource{Version: "v1", Plural: "configmaps"}, kube.Key{Namespace: "default", Name: "a"})
		if n := len(o["data"].(map[string]any)); n != 51 {
			t.Errorf("%d keys, want 51", n)
		}
		w.must(415, "PATCH", configMaps+"/a", `{}`, "Content-Type", "application/x")
		w.must(422, "PATCH", configMaps+"/a", `[{"op":"test","path":"/data/a","value":"no"}]`,
			"Content-Type", string(kube.JSONPatch))
		w.must(400, "PATCH", configMaps+"/a", `{`, "Content-Type", string(kube.MergePatch))
	})
}

// Rules: FS-33
func TestAWatchEndsCleanlyAfterItsTimeout(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		start := time.Now()
		watch := w.watch(configMaps + "?watch=1&timeoutSeconds=2")
		if err := watch.end(); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("after %v", d)
		}
		start = time.Now()
		watch = w.watch(configMaps + "?watch=1")
		if err := watch.end(); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(start); d < minWatch || d > maxWatch {
			t.Errorf("without a timeout it ended after %v", d)
		}
	})
}

// Rules: FS-26
func TestContradictoryListOptionsAreRefused(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const match = "resourceVersionMatch: "
		for query, want := range map[string]string{
			"resourceVersionMatch=Exact": match +
				"Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
			"resourceVersionMatch=Exact&resourceVersion=0": match +
				`Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`,
			"resourceVersionMatch=foo&resourceVersion=4": match +
				`Unsupported value: "foo": supported values: "Exact", "NotOlderThan", ""`,
			"sendInitialEvents=true": "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
			"watch=1&sendInitialEvents=true": match +
				"Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
			"watch=1&resourceVersionMatch=NotOlderThan": match +
				"Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
			"watch=1&sendInitialEvents=1&resourceVersionMatch=Exact&resourceVersion=1": "[" + match +
				"Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, " + match +
				`Unsupported value: "Exact": supported values: "NotOlderThan"]`,
		} {
			a := w.must(http.StatusUnprocessableEntity, "GET", configMaps+"?"+query, "")
			if got := fmt.Sprint(a.at("message")); got != `ListOptions.meta.k8s.io "" is invalid: `+want {
				t.Errorf("%s: %s", query, got)
			}
		}
	})
}
