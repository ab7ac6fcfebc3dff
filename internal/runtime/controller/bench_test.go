package controller

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
)

type benchPod struct {
	kube.Meta `json:"metadata"`
}

// benchServer answers a streamed list with nothing and then sends the events it is asked for, over net.Pipe.
type benchServer struct {
	conns chan net.Conn
	send  chan []byte
}

func newBenchServer(b *testing.B) (*benchServer, *kube.Client) {
	s := &benchServer{conns: make(chan net.Conn), send: make(chan []byte)}
	hs := &http.Server{Handler: s}
	go hs.Serve(s)
	client, err := kube.New(kube.Config{
		Server: "http://bench",
		Proxy:  func(*http.Request) (*url.URL, error) { return nil, nil },
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			s.conns <- theirs
			return ours, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		client.Close()
		hs.Close()
	})
	return s, client
}

func (s *benchServer) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (s *benchServer) Close() error   { close(s.conns); return nil }
func (s *benchServer) Addr() net.Addr { return &net.UnixAddr{Name: "bench"} }

func (s *benchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	w.(http.Flusher).Flush()
	for {
		select {
		case frames := <-s.send:
			w.Write(frames)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// BenchmarkEventToReconcile is the whole way of an event, from the bytes of the watch to the call of the
// Func, over an HTTP connection without a network. Per event, of 1,000 small pods that take turns.
func BenchmarkEventToReconcile(b *testing.B) {
	const batch = 1000
	s, client := newBenchServer(b)
	store := cache.New[*benchPod](cache.Options{Resource: kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"},
		Client: client})
	last := make(chan struct{}, 1)
	var runs atomic.Int64
	c := New("bench", func(_ context.Context, k kube.Key) (Outcome, error) {
		runs.Add(1)
		if k.Name == "last" {
			last <- struct{}{}
		}
		return Done, nil
	}, Options{}, For(store))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	awaitServed(store)
	rv := 1
	frames := func() []byte {
		var out []byte
		for i := range batch {
			rv++
			name := fmt.Sprint("web-7c5ddbdf54-", i)
			if i == batch-1 {
				name = "last"
			}
			out = fmt.Appendf(out, `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"%s-uid","resourceVersion":"%d","labels":{"app":"web"}},"spec":{"nodeName":"node-1"},"status":{"phase":"Running"}}}`+"\n", name, name, rv)
		}
		return out
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		f := frames()
		b.StartTimer()
		s.send <- f
		<-last
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(runs.Load())/float64(b.N*batch), "reconciles/event")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReconcile is what the controller itself costs per run: queue, deadline, context, outcome. Nothing
// is logged. A live page adds a count to a run that does nothing (LP-04).
func BenchmarkReconcile(b *testing.B) {
	for name, past := range map[string]*history.Log{"plain": nil, "with a live page": new(history.Log)} {
		b.Run(name, func(b *testing.B) {
			c := New("bench", func(context.Context, kube.Key) (Outcome, error) { return Done, nil },
				Options{History: past})
			k := kube.Key{Namespace: "default", Name: "web"}
			b.ReportAllocs()
			for b.Loop() {
				c.queue.Add(k, "Service default/web-service DELETED")
				item, _ := c.queue.Get(b.Context())
				c.reconcile(b.Context(), item)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reconciles/s")
		})
	}
}

// awaitServed waits until a mirror that runs is synced.
func awaitServed(m mirror) {
	news := make(chan struct{}, 1)
	defer m.OnServes(func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})()
	for !m.Serves("") {
		<-news
	}
}
