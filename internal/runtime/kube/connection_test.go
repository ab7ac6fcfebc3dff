package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Rules: NET-03
func TestWatchesOverHTTP1EachHaveAConnectionAndAreAllAlive(t *testing.T) {
	const watches = 150
	var open sync.WaitGroup
	open.Add(watches)
	c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		open.Done()
		open.Wait() // nobody gets an event before all are connected
		fmt.Fprint(w, frame("ADDED", item("a", "5")))
	}))
	var done sync.WaitGroup
	for range watches {
		done.Go(func() {
			st, err := Watch[*pod](t.Context(), c, Query{Resource: pods}, WatchOptions{ResourceVersion: "1"})
			if err != nil {
				t.Error(err)
				return
			}
			defer st.Close()
			if ev, err := st.Next(); err != nil || ev.ResourceVersion != "5" {
				t.Errorf("got %v, %v", ev, err)
			}
		})
	}
	done.Wait()
}

// Rules: NET-06
func TestAGoawayLetsWatchesFinishAndSendsNewRequestsToAnotherConnection(t *testing.T) {
	release := make(chan struct{})
	serve := func(name string) *httptest.Server {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !r.URL.Query().Has("watch") {
				fmt.Fprintf(w, `{"metadata":{"name":"a","namespace":"default","uid":%q}}`, name)
				return
			}
			fmt.Fprint(w, frame("ADDED", item("a", "5")))
			w.(http.Flusher).Flush()
			<-release
			fmt.Fprint(w, frame("MODIFIED", item("a", "6")))
		}))
		srv.EnableHTTP2 = true
		srv.StartTLS()
		return srv
	}
	old, next := serve("old"), serve("next")
	t.Cleanup(next.Close)
	var address atomic.Value
	address.Store(old.Listener.Addr().String())
	tlsConfig := &tls.Config{RootCAs: old.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		ServerName: "example.com"}
	c, err := New(Config{Server: "https://cluster", TLS: tlsConfig,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address.Load().(string))
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	get := func() string {
		var p pod
		if err := c.Get(t.Context(), pods, Key{"default", "a"}, &p); err != nil {
			t.Error(err)
		}
		return p.UID
	}
	st := watchPods(t, c, WatchOptions{ResourceVersion: "1"})
	if _, err := st.Next(); err != nil || get() != "old" {
		t.Fatal("the first server does not answer:", err)
	}
	address.Store(next.Listener.Addr().String())
	var stopping sync.WaitGroup
	stopping.Go(func() { _ = old.Config.Shutdown(context.Background()) }) // sends GOAWAY, then waits for the watch
	for deadline := time.Now().Add(10 * time.Second); get() != "next"; {
		if time.Now().After(deadline) {
			t.Fatal("requests still go to the server that said GOAWAY")
		}
	}
	close(release)
	if ev, err := st.Next(); err != nil || ev.ResourceVersion != "6" {
		t.Errorf("the watch under way got %v, %v, want its event", ev, err)
	}
	stopping.Wait()
}
