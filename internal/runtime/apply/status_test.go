package apply

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// The answers about the objects of a namespace that does not fit into memory do not fit either.
func TestAnObjectThatIsNotHeldIsReadForItsDeletionAndNotRemembered(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		mirror := cache.New[*Live[struct{}]](cache.Options{Resource: configMapsV1, Client: b.client,
			MaxObjectBytes: 4 << 10, Log: logr.Discard()})
		running.Go(func() { mirror.Run(ctx) })
		s := NewStatuses(b.client, mirror, func() *Live[struct{}] { return new(Live[struct{}]) })
		b.create(configMapsV1, `{"metadata":{"name":"large","finalizers":["skiff.dev/a","example.com/b"]},
			"data":{"text":"`+strings.Repeat("x", 10<<10)+`"}}`)
		synctest.Wait()
		k := kube.Key{Namespace: "default", Name: "large"}
		if _, ok, err := s.Get(ctx, k); ok || cache.Unserved(err, cache.TooLarge) == nil {
			b.Fatalf("before the deletion: %t, %v", ok, err)
		}
		if err := b.client.Delete(ctx, configMapsV1, k, kube.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		for _, finalizer := range []string{"skiff.dev/a", "example.com/b"} {
			object, ok, err := s.Get(ctx, k)
			if err != nil || !ok || !object.Deleting() || len(object.Body) < 10<<10 {
				b.Fatalf("of an object being deleted: %v, %t, %v", object, ok, err)
			}
			if _, err := s.RemoveFinalizer(ctx, object, finalizer); err != nil {
				b.Fatal(err)
			}
			if s.answers.Get(k).object != nil {
				b.Errorf("the answer is remembered after the removal of %s", finalizer)
			}
			synctest.Wait()
		}
		if _, ok, err := s.Get(ctx, k); ok || err != nil {
			b.Errorf("after the deletion: %t, %v", ok, err)
		}
	})
}
