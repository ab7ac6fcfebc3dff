//go:build unix

package controller

import (
	"context"
	"crypto/tls"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// watchedPod is what a controller that follows pods declares.
type watchedPod struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase   string `json:"phase"`
		PodIP   string `json:"podIP"`
		Message string `json:"message"`
	} `json:"status"`
}

// BenchmarkWatch is what an event of a pod of 9 KB costs a controller, from the socket to the end of a reconcile that
// does nothing, with the server in another process: CPU of the whole process, and the time from sending to the call of
// the Func, at 100 events a second and as fast as they come. "Mirror" is without the controller: it is what an
// informer does.
func BenchmarkWatch(b *testing.B) {
	for _, wire := range []string{"protobuf", "json"} {
		b.Run(wire+"/100 a second", func(b *testing.B) { benchmarkWatch(b, wire == "json", 100) })
		b.Run(wire+"/at once", func(b *testing.B) { benchmarkWatch(b, wire == "json", 0) })
		b.Run(wire+"/at once, mirror", func(b *testing.B) { benchmarkMirror(b, wire == "json") })
	}
}

// watchPods returns a mirror of the pods of a server, and a channel that is closed when b.N have changed.
func watchPods(b *testing.B, url string, json bool) (store *cache.Store[*watchedPod], all chan struct{}) {
	client, err := kube.New(kube.Config{Server: url, TLS: &tls.Config{InsecureSkipVerify: true}, OnlyJSON: json})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	store = cache.New[*watchedPod](cache.Options{Client: client,
		Resource: kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}})
	var heard atomic.Int64
	all = make(chan struct{})
	store.OnChange(func(c cache.Change[*watchedPod]) {
		if c.Type == cache.Updated && heard.Add(1) == int64(b.N) {
			close(all)
		}
	})
	return store, all
}

// benchmarkMirror takes all events in as fast as they come.
func benchmarkMirror(b *testing.B, json bool) {
	url, order := startEventServer(b)
	store, all := watchPods(b, url, json)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { store.Run(ctx) })
	awaitServed(store)
	before := cpuTime(b)
	b.ReportAllocs()
	b.ResetTimer()
	order(b.N, 0)
	<-all
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-us/event")
	cancel()
	running.Wait()
}

func benchmarkWatch(b *testing.B, json bool, rate int) {
	url, order := startEventServer(b)
	store, all := watchPods(b, url, json)
	var mu sync.Mutex // guards took
	var took []time.Duration
	var runs atomic.Int64
	settled := make(chan struct{})
	c := New("bench", func(_ context.Context, k kube.Key) (Outcome, error) {
		now := time.Now().UnixNano()
		switch n := runs.Add(1); {
		case n == eventPods:
			close(settled)
			return Done, nil
		case n < eventPods:
			return Done, nil
		}
		if pod, ok, err := store.Get(k); ok && err == nil {
			sent, err := strconv.ParseInt(pod.Status.Message, 10, 64)
			if err != nil {
				return Done, err
			}
			mu.Lock()
			took = append(took, time.Duration(now-sent))
			mu.Unlock()
		}
		return Done, nil
	}, Options{}, For(store))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-settled
	before := cpuTime(b)
	b.ResetTimer()
	order(b.N, rate)
	<-all
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/event")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if rate > 0 && len(took) > 0 {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	}
}

// cpuTime returns what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
