package kube

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"
	"time"
)

// speaking is a server that speaks only the given protocols over TLS, and a client of it. Its pods are called after
// the protocol that a request came over.
func speaking(t *testing.T, protocols ...string) (*Client, *counter) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object := item(fmt.Sprint("http", r.ProtoMajor), "5")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Has("watch"):
			fmt.Fprint(w, frame("ADDED", object))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/api/v1/pods":
			fmt.Fprint(w, podList("20", "", object))
		default:
			fmt.Fprint(w, object)
		}
	}))
	srv.EnableHTTP2 = slices.Contains(protocols, "h2")
	// net/http itself serves HTTP/1.1 where nothing matches.
	match := func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		for _, p := range h.SupportedProtos {
			if slices.Contains(protocols, p) {
				return nil, nil
			}
		}
		return nil, fmt.Errorf("%v are not spoken here", h.SupportedProtos)
	}
	srv.TLS = &tls.Config{NextProtos: protocols, GetConfigForClient: match}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dials := &counter{}
	c, err := New(Config{Server: srv.URL, DialContext: dials.count(Dialer().DialContext),
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, dials
}

// open opens a watch and returns the protocol that it came over.
func openWatch(t *testing.T, c *Client) (*Stream[*pod], string) {
	t.Helper()
	st, err := Watch[*pod](t.Context(), c, Query{Resource: pods}, WatchOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := st.Next()
	if err != nil {
		t.Fatal(err)
	}
	return st, ev.Object.Name
}

// Rules: NET-02, NET-03
func TestStreamsHaveConnectionsOfTheirOwnUpToABound(t *testing.T) {
	c, dials := speaking(t, "h2", "http/1.1")
	var open []*Stream[*pod]
	over := map[string]int{}
	for range maxOwn + 4 {
		st, proto := openWatch(t, c)
		open = append(open, st)
		over[proto]++
	}
	if over["http1"] != maxOwn || over["http2"] != 4 || dials.n.Load() != maxOwn+1 {
		t.Errorf("watches by protocol: %v over %d connections; want %d and 4, and the 4 over one connection", over,
			dials.n.Load(), maxOwn)
	}
	_ = open[0].Close()
	_ = open[0].Close() // counts once
	for i, want := range []string{"http1", "http2"} {
		st, proto := openWatch(t, c)
		if proto != want {
			t.Errorf("watch %d after one was closed came over %s, want %s", i+1, proto, want)
		}
		open = append(open, st)
	}
	for _, st := range open {
		_ = st.Close()
	}
	if n := len(c.open); n != 0 {
		t.Errorf("%d streams are counted when all are closed", n)
	}
}

// Rules: NET-14
func TestConnectionsTakeNewRequestsForALifespanOnly(t *testing.T) {
	c, dials := speaking(t, "h2", "http/1.1")
	var open []*Stream[*pod]
	watches := func(n int) {
		for range n {
			st, _ := openWatch(t, c)
			open = append(open, st)
		}
	}
	watches(maxOwn + 4)
	for _, st := range open[:8] {
		_ = st.Close()
	}
	before := dials.n.Load()
	for _, p := range []*transport{c.own, c.shared} {
		p.mu.Lock()
		if left := time.Until(p.until); left < minLifespan-time.Minute || left > 2*minLifespan {
			t.Errorf("the lifespan ends in %s", left)
		}
		p.until = time.Now()
		p.mu.Unlock()
	}
	watches(12)
	if n := dials.n.Load() - before; n != 9 {
		t.Errorf("%d new connections for 8 watches over HTTP/1.1 and 4 that share one over HTTP/2, want 9", n)
	}
	for _, st := range open {
		_ = st.Close()
	}
}

func TestAServerThatSpeaksOnlyOneProtocolWorks(t *testing.T) {
	for _, protocol := range []string{"h2", "http/1.1"} {
		c, dials := speaking(t, protocol)
		want := map[string]string{"h2": "http2", "http/1.1": "http1"}[protocol]
		for range 2 {
			list, err := List[*pod](t.Context(), c, Query{Resource: pods}, ListOptions{})
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != want {
				t.Fatalf("%s: list %v, %v", protocol, names(list.Items), err)
			}
			st, proto := openWatch(t, c)
			if proto != want {
				t.Errorf("%s: a watch over %s", protocol, proto)
			}
			_ = st.Close()
		}
		p := pod{}
		if err := c.Get(t.Context(), pods, Key{"default", want}, &p); err != nil || p.Name != want {
			t.Errorf("%s: got %s, %v", protocol, p.Name, err)
		}
		if err := c.Create(t.Context(), pods, "default", podNamed(want), &p, WriteOptions{}); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
		if n := len(c.open); n != 0 {
			t.Errorf("%s: %d streams are counted when all are closed", protocol, n)
		}
		if n := dials.n.Load(); protocol == "h2" && n != 2 { // the handshake that was refused, and the one connection
			t.Errorf("%d connections to a server that speaks only HTTP/2, want 2", n)
		}
	}
}

// Rules: NET-04
func TestRequestsThatGetNoAnswerHoldUpNoOther(t *testing.T) {
	stuck := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(maxIdle)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/default/pods/stuck" {
			arrived.Done()
			<-stuck
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, item(path.Base(r.URL.Path), "5"))
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dials := &counter{}
	c, err := New(Config{Server: srv.URL, DialContext: dials.count(Dialer().DialContext),
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var waiting sync.WaitGroup
	for range maxIdle {
		waiting.Go(func() {
			if err := c.Get(t.Context(), pods, Key{"default", "stuck"}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	arrived.Wait()
	before := dials.n.Load()
	for range 100 {
		if err := c.Get(t.Context(), pods, Key{"default", "a"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := dials.n.Load() - before; n > 1 {
		t.Errorf("100 requests beside %d that get no answer took %d new connections, want one", maxIdle, n)
	}
	close(stuck)
	waiting.Wait()
}
