package queue

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// Rules: WQ-12
func TestTheKeysOfOneNamespaceDoNotStarveThoseOfAnother(t *testing.T) {
	for name, add := range map[string]func(q *Queue, k kube.Key){
		"changes":      func(q *Queue, k kube.Key) { q.Add(k, "changed") },
		"initial list": func(q *Queue, k kube.Key) { q.AddLow(k, "initial list") },
		"rechecks":     func(q *Queue, k kube.Key) { q.AddAfter(k, time.Millisecond, "recheck") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(0)
				const run, workers = 50 * time.Millisecond, 4
				waited := time.Duration(-1)
				var running sync.WaitGroup
				for range workers {
					running.Go(func() {
						for {
							item, ok := q.Get(t.Context())
							if !ok {
								return
							}
							if item.Key.Namespace == "small" {
								waited = item.Waited
							}
							time.Sleep(run)
							q.Done(item.Key)
						}
					})
				}
				for i := range 10_000 {
					add(q, kube.Key{Namespace: "large", Name: fmt.Sprint(i)})
				}
				time.Sleep(time.Second)
				add(q, kube.Key{Namespace: "small", Name: "one"})
				time.Sleep(time.Minute)
				left := q.Len()
				q.ShutDown()
				running.Wait()
				if waited < 0 || waited > run || left < 1000 {
					t.Errorf("the small namespace waited %s, with %d keys left of the large one", waited, left)
				}
			})
		})
	}
}

func TestNamespacesTakeTurnsAndEachKeepsItsOrder(t *testing.T) {
	q := New(0)
	for _, k := range []string{"a/1", "a/2", "a/3", "b/1", "c/1", "c/2"} {
		q.Add(kube.Key{Namespace: k[:1], Name: k[2:]}, "")
	}
	got := ""
	for range 6 {
		item, _, _ := q.take()
		got += item.Key.String() + " "
		q.Done(item.Key)
	}
	expect(t, "order", got, "a/1 b/1 c/1 a/2 c/2 a/3 ")
	expect(t, "after the last", next(q), "")
}

func TestNamespacesThatAreGoneAreForgotten(t *testing.T) {
	q := New(0)
	for i := range 10_000 {
		k := kube.Key{Namespace: fmt.Sprint("ns-", i), Name: "web"}
		q.Add(k, "")
		q.take()
		q.Done(k)
	}
	if n := len(q.lanes[high].lines); n > keepLines {
		t.Errorf("%d namespaces are kept", n)
	}
}

func TestNoMoreKeysOfANamespaceAreHandedOutThanMayBe(t *testing.T) {
	q := New(2)
	key := func(namespace, name string) kube.Key { return kube.Key{Namespace: namespace, Name: name} }
	next := func(want kube.Key) {
		t.Helper()
		if item, ok, _ := q.take(); !ok || item.Key != want {
			t.Fatalf("got %v, %t, want %v", item.Key, ok, want)
		}
	}
	none := func() {
		t.Helper()
		if item, ok, _ := q.take(); ok {
			t.Fatalf("got %v, want none", item.Key)
		}
	}
	for _, name := range []string{"1", "2", "3", "4"} {
		q.Add(key("a", name), "changed")
	}
	next(key("a", "1"))
	next(key("a", "2"))
	none()
	q.AddLow(key("b", "1"), "initial list") // also of the other lane
	next(key("b", "1"))
	none()
	<-q.wake
	q.Done(key("b", "1"))
	none()
	select {
	case <-q.wake:
	default:
		t.Error("no worker was woken at the end of a run")
	}
	q.Done(key("a", "1"))
	next(key("a", "3"))
	none()
	q.Done(key("a", "2"))
	q.Done(key("a", "3"))
	next(key("a", "4"))
	none()
}
