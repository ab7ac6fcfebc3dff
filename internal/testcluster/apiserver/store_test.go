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
