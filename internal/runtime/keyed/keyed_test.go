package keyed

import (
	"fmt"
	"sync"
	"testing"

	"skiff/internal/runtime/kube"
)

func TestAMapForgetsAKeyAndANamespace(t *testing.T) {
	var m Map[int]
	a, b := kube.Key{Namespace: "x", Name: "a"}, kube.Key{Namespace: "x", Name: "b"}
	c := kube.Key{Namespace: "y", Name: "a"}
	m.Forget(a) // of an empty Map
	m.Leave("x")
	for i, k := range []kube.Key{a, b, c} {
		m.Set(k, i+1)
	}
	m.Change(a, func(n *int) { *n += 10 })
	m.Forget(b)
	if m.Get(a) != 11 || m.Get(b) != 0 || m.Get(c) != 3 {
		t.Errorf("a = %d, b = %d, c = %d", m.Get(a), m.Get(b), m.Get(c))
	}
	m.Leave("x")
	m.View(func(of map[kube.Key]int) {
		if len(of) != 1 || of[c] != 3 {
			t.Errorf("left: %v", of)
		}
	})
}

func TestChangesOfManyGoroutinesAddUp(t *testing.T) {
	var m Map[int]
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				m.Change(kube.Key{Namespace: "x", Name: "shared"}, func(n *int) { *n++ })
				m.Set(kube.Key{Namespace: fmt.Sprint(i), Name: "own"}, i)
				m.Leave(fmt.Sprint(i))
			}
		})
	}
	all.Wait()
	m.View(func(of map[kube.Key]int) {
		if len(of) != 1 || of[kube.Key{Namespace: "x", Name: "shared"}] != 8000 {
			t.Errorf("%v", of)
		}
	})
}
