package apiserver

import (
	"fmt"
	"io"
	"math/rand/v2"
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
	withServer(t, Options{}, func(w *testServer) {
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
	withServer(t, Options{}, func(w *testServer) {
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

// Rules: FS-09, FS-10, FS-11, FS-12, FS-32
func TestFinalizersDelayTheRemovalOfADeletedObject(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
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

// Rules: FS-18
func TestPatchesWithoutAVersionNeverConflict(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
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
	withServer(t, Options{}, func(w *testServer) {
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

// always is a source of random numbers with one number.
type always uint64

func (n always) Uint64() uint64 { return uint64(n) }

// Rules: FS-15, WRT-15
func TestANameThatIsTakenEightTimesIsAlreadyExists(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		body := func(base string) string {
			return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"` + base + `"}}`
		}
		long := strings.Repeat("x", 63)
		name, _ := w.must(201, "POST", configMaps, body(long)).at("metadata.name").(string)
		if len(name) != 63 || !strings.HasPrefix(name, long[:58]) {
			t.Errorf("generated %q", name)
		}
		w.s.mu.Lock()
		w.s.rand = rand.New(always(1 << 63)) // one suffix from here on
		w.s.mu.Unlock()
		taken := w.must(201, "POST", configMaps, body("a-")).at("metadata.name")
		a := w.must(409, "POST", configMaps, body("a-"))
		if a.at("reason") != "AlreadyExists" || a.at("details.name") != taken {
			t.Errorf("answered %s, want that %v is there", a.raw, taken)
		}
		w.must(201, "POST", configMaps, body("b-"))
	})
}

func TestTheServiceOfTheServerComesBackWithinTenSeconds(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		before := w.must(200, "GET", services+"/kubernetes", "")
		w.must(200, "DELETE", services+"/kubernetes", "")
		time.Sleep(serviceCheck - time.Second)
		w.must(404, "GET", services+"/kubernetes", "")
		time.Sleep(2 * time.Second)
		after := w.must(200, "GET", services+"/kubernetes", "")
		if after.at("spec.clusterIP") != before.at("spec.clusterIP") ||
			after.at("metadata.uid") == before.at("metadata.uid") {
			t.Errorf("the Service that came back: %s\nwant a new one with the address of\n%s", after.raw, before.raw)
		}
		w.must(200, "DELETE", services+"/kubernetes", "")
		time.Sleep(serviceCheck + time.Second)
		w.must(200, "GET", services+"/kubernetes", "")
	})
}
