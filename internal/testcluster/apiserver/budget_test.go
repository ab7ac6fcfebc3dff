package apiserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/kube"
)

func TestBodiesThatTakeMuchMemoryWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b budget
		if err := b.claim(t.Context(), bodyMemory-10); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 2)
		go func() {
			order <- fmt.Sprint("large: ", b.claim(t.Context(), bodyMemory))
		}()
		if err := b.claim(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		go func() { order <- fmt.Sprint("gone: ", b.claim(gone, 1)) }()
		synctest.Wait()
		cancel()
		if got := <-order; got != "gone: context canceled" {
			t.Error(got)
		}
		b.release(10)
		synctest.Wait()
		if len(order) > 0 {
			t.Error("there was no room: ", <-order)
		}
		b.release(bodyMemory - 10)
		if got := <-order; got != "large: <nil>" || b.used != bodyMemory {
			t.Error(got, b.used)
		}
	})
}

// The memory that a request has claimed is free after it, however it ends.
func TestALargeRequestGivesItsMemoryBack(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		large := strings.Repeat("x", 2*smallBody)
		w.must(201, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"a":"`+large+`"}}`)
		w.must(400, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"a":`+large+`}}`)
		w.must(415, "POST", configMaps, large, "Content-Type", "text/plain")
		w.must(200, "PATCH", configMaps+"/a?fieldManager=m&force=true",
			"{apiVersion: v1, kind: ConfigMap, data: {a: "+large+"}}", "Content-Type", string(kube.ApplyPatch))
		synctest.Wait()
		if used := w.s.bodies.used; used != 0 {
			t.Errorf("%d bytes are in use", used)
		}
	})
}

func TestAliasesOfYAMLAreFollowedWithinABound(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		yaml := []string{"Content-Type", "application/yaml"}
		a := w.must(201, "POST", configMaps, `
metadata: {name: a, labels: &l {x: one, y: two}, annotations: {<<: *l, y: "own"}}
data: *l`, yaml...)
		if got := fmt.Sprint(a.at("metadata.annotations"), a.at("data")); got != "map[x:one y:own] map[x:one y:two]" {
			t.Error(got)
		}
		laughs := "data: {a0: &a0 x"
		for i := range 30 {
			laughs += fmt.Sprintf(", a%d: &a%d [*a%d, *a%d]", i+1, i+1, i, i)
		}
		for body, want := range map[string]string{laughs + "}": "document contains excessive aliasing",
			"data: &a {b: *a}": "anchor 'a' value contains itself"} {
			if a := w.must(400, "POST", configMaps, body, yaml...); !strings.Contains(a.raw, want) {
				t.Error(a.raw)
			}
		}
	})
}
