package cache

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"skiff/internal/runtime/kube"
)

// smallPod is what a controller that follows pods declares.
type smallPod struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		PodIP      string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// benchPod is a pod of about 9 KB: what smallPod declares as in a real cluster, four pods to an owner, the rest
// (containers, managedFields) made up to size.
func benchPod(i, rv int) string {
	rest := strings.Repeat(`{"name":"SETTING","value":"a value of a setting","f:fields":{".":{},"f:name":{},"f:value":{}}},`, 80)
	condition := func(t string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T10:00:00Z"}`, t)
	}
	rs := i / 4
	return fmt.Sprintf(`{"metadata":{"name":"app-%d-7d4b9c6f5d-%05d","namespace":"team-%02d","uid":"%08x-1111-4222-8333-444455556666",`+
		`"resourceVersion":"%d","creationTimestamp":"2026-11-01T10:00:00Z","labels":{"app":"app-%d","pod-template-hash":"7d4b9c6f5d","team":"team-%02d","tier":"backend","version":"v1.2.3"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-%d-7d4b9c6f5d","uid":"%08x-aaaa-4bbb-8ccc-ddddeeeeffff","controller":true,"blockOwnerDeletion":true}],"managedFields":[%s{}]},`+
		`"spec":{"containers":[{"name":"main","env":[%s{}]}],"nodeName":"node-%d"},`+
		`"status":{"phase":"Running","conditions":[%s,%s,%s,%s],"podIP":"10.%d.%d.%d"}}`,
		rs, i, rs%20, i, rv, rs, rs%20, rs, rs, rest[:len(rest)/2], rest[:len(rest)/2], i%200,
		condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled"), i>>16,
		i>>8&255, i&255)
}

const benchPods = 10_000

// benchServer streams 10,000 pods, the end marker, and then as many events as are asked for, from prepared bytes.
func benchServer(b *testing.B, more <-chan int) *kube.Client {
	var frames [][]byte
	for i := range 500 {
		frames = append(frames, []byte(event("MODIFIED", strings.Replace(benchPod(i, 0), `"resourceVersion":"0"`, `"resourceVersion":"%010d"`, 1))))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := bufio.NewWriterSize(w, 64<<10)
		flush := func() { _ = out.Flush(); _ = http.NewResponseController(w).Flush() }
		for i := range benchPods {
			fmt.Fprint(out, event("ADDED", benchPod(i, 1_000_000_000)))
		}
		fmt.Fprint(out, endMark("1000000000"))
		flush()
		rv := 1_000_000_000
		for {
			select {
			case <-r.Context().Done():
				return
			case n := <-more:
				for i := range n {
					rv++
					f := frames[i%len(frames)]
					at := strings.Index(string(f[:600]), "%010d")
					_, _ = out.Write(f[:at])
					fmt.Fprintf(out, "%010d", rv)
					_, _ = out.Write(f[at+len("%010d"):])
				}
				flush()
			}
		}
	}))
	b.Cleanup(srv.Close)
	client, err := kube.New(kube.Config{Server: srv.URL})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

func benchStore(b *testing.B, client *kube.Client, f func(Change[*smallPod])) *Store[*smallPod] {
	s := New[*smallPod](Options{Resource: pods, Client: client})
	s.OnChange(f)
	go s.Run(b.Context())
	s.waitSynced()
	return s
}

// BenchmarkHeapPerObject reports the bytes of heap that one pod of a mirror of 10,000 takes, with its part of the
// maps and indexes.
func BenchmarkHeapPerObject(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		client := benchServer(b, nil) // its prepared frames are not to be counted
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := benchStore(b, client, func(Change[*smallPod]) {})
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/benchPods, "B/object")
		runtime.KeepAlive(s)
	}
}

// BenchmarkEvents measures one event of 9 KB from the bytes of the watch to OnChange, the sending included.
func BenchmarkEvents(b *testing.B) {
	more := make(chan int)
	var heard atomic.Int64
	done := make(chan struct{}, 1)
	var want atomic.Int64
	want.Store(-1)
	s := benchStore(b, benchServer(b, more), func(Change[*smallPod]) {
		if heard.Add(1) == want.Load() {
			done <- struct{}{}
		}
	})
	want.Store(benchPods + int64(b.N))
	b.SetBytes(int64(len(benchPod(1, 1_000_000_000))))
	b.ReportAllocs()
	b.ResetTimer()
	more <- b.N
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	runtime.KeepAlive(s)
}
