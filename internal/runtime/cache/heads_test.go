package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// annotatedPod is podOf with a label, an annotation and an owner of its own, and with what makes it large elsewhere.
func annotatedPod(name string, rv, kib int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"big","resourceVersion":"%d",`+
		`"uid":"u-%s","labels":{"app":"web"},"annotations":{"a":"b","long":"%0*d"},"ownerReferences":[{"kind":"Page",`+
		`"name":"p","uid":"owner","controller":true}]},"text":"%0*d"}`, name, rv, name, 1<<10, rv, kib<<10, rv)
}

// textPod has all of its metadata, and a text.
type textPod struct {
	kube.MetaAnnotated `json:"metadata"`
	Text               string `json:"text"`
}

func TestOfAnObjectThatIsTooLargeTheMetadataIsKnown(t *testing.T) {
	inOneTurn(t, "only what is read in JSON says what is too large")
	synctest.Test(t, func(t *testing.T) {
		f := newFeed(t)
		s := newServer(t).on(streamedList, frames(thenEnd, event("ADDED", annotatedPod("small", 1, 1)),
			event("ADDED", annotatedPod("large", 2, 300)), event("ADDED", podOf("big", "labels", 3, 300)),
			endMark("500"))).on(watching, f.reply).on(probing, list("500"))
		store := New[*textPod](Options{Client: s.client, Resource: pods, MaxObjectBytes: 256 << 10})
		store.IndexMeta("app", func(labels kube.Labels, _ []kube.OwnerReference) []string {
			value, _ := labels.Get("app")
			return []string{value}
		})
		heard := 0
		store.OnChange(func(Change[*textPod]) { heard++ })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { store.Run(ctx) })
		defer running.Wait()
		defer cancel()
		wait(time.Second)
		all, err := store.KnownByIndex("app", "big", "web")
		if err != nil || len(all) != 2 || all[0].Name != "large" || all[0].Text != "" || all[1].Text == "" {
			t.Fatalf("by a label: %v, %v", all, err)
		}
		head := all[0]
		a, _ := head.Annotations.Get("a")
		if _, long := head.Annotations.Get("long"); a != "b" || long || head.ControllerUID() != "owner" {
			t.Errorf("the metadata is %+v", head.MetaAnnotated)
		}
		held, large, err := store.ListKnown("big")
		if err != nil || len(held) != 1 || len(large) != 2 || large[0].Known || !large[1].Known ||
			!strings.Contains(large[1].Problem.Public, "one object may take 256 KiB") {
			t.Errorf("listed: %v, %+v, %v", held, large, err)
		}
		if _, ok := store.Head(kube.Key{Namespace: "big", Name: "labels"}); ok {
			t.Error("metadata of 300 KiB is kept")
		}
		before := heard
		f.send(event("MODIFIED", annotatedPod("large", 501, 301)), bookmark("502"))
		if heard != before+1 {
			t.Errorf("handlers heard of %d changes of an object that is too large, want 1", heard-before)
		}
	})
}
