package manager

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/testcluster/apiserver"
)

// restarting is the way to an API server that restarts: each time, all connections break and it has new ones.
type restarting struct {
	api *apiserver.Server

	mu   sync.Mutex // guards pipe
	pipe *apiserver.Pipe

	open atomic.Int64 // connections that the clients have not closed
}

func (r *restarting) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	pipe := r.pipe
	r.mu.Unlock()
	c, err := pipe.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	r.open.Add(1)
	return &countedConn{Conn: c, open: &r.open}, nil
}

func (r *restarting) restart(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipe != nil {
		if err := r.pipe.Close(); err != nil {
			t.Error(err)
		}
	}
	r.pipe = r.api.ListenPipe()
}

// countedConn is a connection that is counted while it is open.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

var eventObjects = kube.Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}

// Rules: MGR-02, MGR-07
func TestAnHourOfRestartsOfTheServerLeavesGoroutinesConnectionsAndHeapAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, user := newServer(t)
		way := &restarting{api: api}
		way.restart(t)
		client := func() *kube.Client {
			c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: way.dial})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return c
		}
		elector, err := leader.New(leader.Options{Client: client(), Namespace: "default", Name: "skiff",
			Identity: "a"})
		if err != nil {
			t.Fatal(err)
		}
		working := client()
		store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: working, LabelSelector: "by=test"})
		recorder := events.New(events.Options{Client: working, Controller: "test"})
		runs := 0
		c := controller.New("maps", func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
			runs++
			recorder.Record(events.Event{Regarding: events.Object{APIVersion: "v1", Kind: "ConfigMap",
				Namespace: k.Namespace, Name: k.Name, UID: "u"}, Type: events.Normal, Reason: "Seen", Action: "See",
				Note: "seen"})
			err := working.Patch(ctx, configMaps, k, kube.MergePatch,
				map[string]any{"data": map[string]any{"seen": "yes"}}, nil, kube.WriteOptions{})
			if kube.IsNotFound(err) { // deleted
				return controller.Done, nil
			}
			return controller.Done, err
		}, controller.Options{Elected: true, Workers: 1}, controller.For(store))
		all := runAll(t, Options{Controllers: []*controller.Controller{c}, Elector: elector,
			Recorders: []*events.Recorder{recorder}})
		type size struct {
			goroutines int
			conns      int64
			heap       int64
		}
		look := func() size {
			// What the server remembers is not ours: the newest 2 MiB of objects, and all Events.
			for range 4 {
				create(t, user, configMaps, "default", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": map[string]any{"name": "filler"},
					"data":     map[string]any{"x": strings.Repeat("x", 900_000)}})
				if err := user.Delete(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "filler"},
					kube.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			written, err := kube.List[*configMap](t.Context(), user, kube.Query{Resource: eventObjects,
				Namespace: "default"}, kube.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range written.Items {
				if err := user.Delete(t.Context(), eventObjects, e.Key(), kube.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			api.ForgetRequests()
			api.Compact()
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return size{runtime.NumGoroutine(), way.open.Load(), int64(m.HeapAlloc)}
		}
		var early size
		for minute := range 60 {
			for i := range 5 {
				createMap(t, user, fmt.Sprintf("map-%d", i))
				time.Sleep(5 * time.Second)
				if err := user.Delete(t.Context(), configMaps, kube.Key{Namespace: "default",
					Name: fmt.Sprintf("map-%d", i)}, kube.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
			}
			if minute == 10 {
				early = look()
			}
			way.restart(t)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(50 * time.Second) // the same moment of a minute as before
		late := look()
		t.Logf("%d runs; after ten minutes %+v, after an hour %+v", runs, early, late)
		if runs < 250 || late.goroutines > early.goroutines+2 || late.conns > early.conns+1 ||
			late.heap > early.heap+256<<10 {
			t.Errorf("%d runs; after ten minutes %+v, after an hour %+v", runs, early, late)
		}
		code, body := all.health.get("/readyz")
		expect(t, "/readyz "+body, code, 200)
		expect(t, "stop", all.stop(), nil)
		way.pipe.Close()
	})
}
