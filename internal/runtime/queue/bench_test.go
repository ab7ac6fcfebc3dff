package queue

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// BenchmarkAddGetDone is the way of one event through the queue.
func BenchmarkAddGetDone(b *testing.B) {
	q := New(0)
	k := kube.Key{Namespace: "default", Name: "web"}
	b.ReportAllocs()
	for b.Loop() {
		q.Add(k, "Service default/web-service DELETED")
		item, _ := q.Get(b.Context())
		q.Done(item.Key)
	}
}

// BenchmarkAddWhileWaiting is an event for a key that waits already: the common case in a burst.
func BenchmarkAddWhileWaiting(b *testing.B) {
	q := New(0)
	k := kube.Key{Namespace: "default", Name: "web"}
	b.ReportAllocs()
	for b.Loop() {
		q.Add(k, "Service default/web-service DELETED")
	}
}

// BenchmarkInitialList is 10,000 keys into and out of the low lane; per key.
func BenchmarkInitialList(b *testing.B) {
	keys := make([]kube.Key, 10_000)
	for i := range keys {
		keys[i] = kube.Key{Namespace: "default", Name: fmt.Sprint("web-", i)}
	}
	q := New(0)
	b.ReportAllocs()
	for b.Loop() {
		for _, k := range keys {
			q.AddLow(k, "initial list")
		}
		for range keys {
			item, _ := q.Get(b.Context())
			q.Done(item.Key)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/key")
}

// BenchmarkManyNamespaces is 10,000 keys of 1,000 namespaces into and out of the queue; per key.
func BenchmarkManyNamespaces(b *testing.B) {
	keys := make([]kube.Key, 10_000)
	for i := range keys {
		keys[i] = kube.Key{Namespace: fmt.Sprint("ns-", i%1000), Name: fmt.Sprint("web-", i)}
	}
	q := New(0)
	b.ReportAllocs()
	for b.Loop() {
		for _, k := range keys {
			q.Add(k, "changed")
		}
		for range keys {
			item, _ := q.Get(b.Context())
			q.Done(item.Key)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/key")
}

// BenchmarkRetry is a run that asks for another one after a delay: heap and timer.
func BenchmarkRetry(b *testing.B) {
	q := New(0)
	defer q.ShutDown()
	keys := make([]kube.Key, 1000)
	for i := range keys {
		keys[i] = kube.Key{Namespace: "default", Name: fmt.Sprint("web-", i)}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k := keys[i%len(keys)]
		q.Add(k, "")
		item, _ := q.Get(b.Context())
		q.AddAfter(item.Key, 5*time.Millisecond, "retry")
		q.Done(item.Key)
		i++
	}
}
