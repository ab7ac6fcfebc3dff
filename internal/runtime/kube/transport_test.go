package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A new connection is made by name, so that it goes where the name points to by then.
//
// Rules: NET-03, NET-13
func TestASilentPeerOverHTTP1EndsAWatchAndACallAndIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shut := make(chan struct{})
		h := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !r.URL.Query().Has("watch") {
				fmt.Fprint(w, item("a", "5"))
				return
			}
			fmt.Fprint(w, frame("ADDED", item("a", "5")))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		var dials counter
		c := pipeClient(t, http.HandlerFunc(h), func(cfg *Config) {
			dial := dials.count(cfg.DialContext)
			cfg.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if dials.n.Load() > 2 { // the first two, of the watch and of the call, are the ones that fall silent
					return conn, err
				}
				return &blackhole{conn, shut}, err
			}
		})
		st := watchPods(t, c, WatchOptions{IdleTimeout: time.Minute})
		get := func() error { return c.Get(t.Context(), pods, Key{"default", "a"}, nil) }
		if _, err := st.Next(); err != nil || get() != nil {
			t.Fatal("before the silence:", err)
		}
		close(shut)
		began := time.Now()
		if err := get(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != DefaultTimeout {
			t.Errorf("the call got %v after %s, want a deadline after %s", err, time.Since(began), DefaultTimeout)
		}
		if _, err := st.Next(); !errors.Is(err, ErrIdle) || time.Since(began) != time.Minute {
			t.Errorf("the watch got %v after %s, want ErrIdle after a minute", err, time.Since(began))
		}
		if err := get(); err != nil || dials.n.Load() != 3 {
			t.Errorf("the next call: %v over connection %d, want it on a third", err, dials.n.Load())
		}
	})
	if k := Dialer().KeepAliveConfig; !k.Enable || k.Idle+time.Duration(k.Count)*k.Interval > 45*time.Second {
		t.Errorf("the kernel asks a silent peer with %+v, want an end within 45 s", k)
	}
}

// Rules: NET-12
func TestHowLongAConnectionMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		var held sync.WaitGroup
		held.Go(func() {
			if conn, err := mute.Accept(); err == nil {
				_, _ = io.Copy(io.Discard, conn) // says nothing to a TLS hello, until the client gives up
			}
		})
		c, err := New(Config{Server: "https://fake", DialContext: mute.dial})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = c.Get(t.Context(), pods, Key{"default", "a"}, nil)
		if err == nil || !strings.Contains(err.Error(), "TLS handshake timeout") ||
			time.Since(began) != 10*time.Second {
			t.Errorf("a mute TLS server: %v after %s, want a handshake timeout after 10 s", err, time.Since(began))
		}
		held.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		s := scripted(answer(200, item("a", "5")))
		var dials counter
		c := pipeClient(t, s, func(cfg *Config) { cfg.DialContext = dials.count(cfg.DialContext) })
		for _, pause := range []time.Duration{0, maxIdleTime - time.Second, maxIdleTime + time.Second} {
			time.Sleep(pause) // virtual
			if err := c.Get(t.Context(), pods, Key{"default", "a"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := dials.n.Load(); n != 2 {
			t.Errorf("%d connections, want the first kept for %s and no longer", n, maxIdleTime)
		}
		if err := c.Create(t.Context(), pods, "default", struct{}{}, nil, WriteOptions{}); err != nil ||
			s.requests()[3].Header.Get("Expect") != "" {
			t.Errorf("a write waits for 100-continue: %v", err)
		}
	})
	if d := Dialer().Timeout; d != 30*time.Second {
		t.Errorf("a dial may take %s, want 30 s", d)
	}
}

// connectProxy is a proxy that counts the tunnels that it makes, all of them to one address.
func connectProxy(t *testing.T, to string) (address string, tunnels *atomic.Int32) {
	t.Helper()
	tunnels = new(atomic.Int32)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server, err := net.Dial("tcp", to)
		if err != nil || r.Method != http.MethodConnect {
			t.Errorf("%s %s, %v", r.Method, r.URL, err)
			return
		}
		tunnels.Add(1)
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL, tunnels
}

// Rules: NET-16
func TestAWatchThroughAProxyComesEventByEvent(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		watchThroughProxy(t, http2)
	}
}

func watchThroughProxy(t *testing.T, http2 bool) {
	next := make(chan string, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for {
			select {
			case rv := <-next:
				fmt.Fprint(w, frame("ADDED", item(strings.ReplaceAll(r.Proto, "/", "-"), rv)))
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	address, tunnels := connectProxy(t, srv.Listener.Addr().String())
	proxy, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Server: srv.URL, Proxy: http.ProxyURL(proxy),
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	proto := "HTTP-1.1"
	if http2 {
		c.open = nil // there is no connection of its own
		proto = "HTTP-2.0"
	}
	st := new(Stream[*pod])
	for i, rv := range []string{"5", "6", "7"} { // the next event is sent when the one before has been read
		next <- rv
		if i == 0 {
			if st, err = Watch[*pod](t.Context(), c, Query{Resource: pods},
				WatchOptions{ResourceVersion: "1"}); err != nil {
				t.Fatal(err)
			}
			defer st.Close()
		}
		if ev, err := st.Next(); err != nil || ev.ResourceVersion != rv || ev.Object.Name != proto {
			t.Fatalf("got %v, %v; want version %s over %s", ev, err, rv, proto)
		}
	}
	if tunnels.Load() != 1 {
		t.Errorf("%d tunnels, want one", tunnels.Load())
	}
}

// Rules: NET-16
func TestTheProxyOfTheEnvironmentIsUsedUnlessNOPROXYNamesTheServer(t *testing.T) {
	if server := os.Getenv("KUBE_TEST_SERVER"); server != "" { // in the process that is started below
		c, err := New(Config{Server: server, TLS: &tls.Config{InsecureSkipVerify: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.Get(t.Context(), pods, Key{"default", "a"}, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	srv := httptest.NewTLSServer(answer(200, item("a", "5")))
	t.Cleanup(srv.Close)
	address, tunnels := connectProxy(t, srv.Listener.Addr().String())
	// net/http reads the environment once per process, and never takes a proxy to loopback.
	for _, tc := range []struct {
		noProxy string
		tunnels int32
		works   bool
	}{{"", 1, true}, {"cluster.invalid", 0, false}} {
		tunnels.Store(0)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "KUBE_TEST_SERVER=https://cluster.invalid", "HTTPS_PROXY="+address,
			"NO_PROXY="+tc.noProxy)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); (err == nil) != tc.works || tunnels.Load() != tc.tunnels {
			t.Errorf("NO_PROXY %q: %v with %d tunnels, want %d\n%s", tc.noProxy, err, tunnels.Load(), tc.tunnels,
				out.String())
		}
	}
}

// Rules: WCH-45
func TestWatchesDoNotWaitForCallsThatAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("watch") {
				w.Header().Set("Retry-After", "20")
				failure(429, "TooManyRequests", "")(w, r)
				return
			}
			answer(200, frame("ADDED", item("a", "5")))(w, r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() { _ = c.Get(ctx, pods, Key{"default", "a"}, nil) })
		}
		synctest.Wait() // all of them now wait for the server's 20 s to pass
		began := time.Now()
		for range 50 {
			st, err := Watch[*pod](t.Context(), c, Query{Resource: pods}, WatchOptions{ResourceVersion: "1"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.Next(); err != nil {
				t.Error(err)
			}
			_ = st.Close()
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("50 watches took %s to begin", took)
		}
		cancel()
		calls.Wait()
	})
}

func TestThePagesOfAListOverHTTP1ComeOverOneConnection(t *testing.T) {
	chunked := func(page string) http.HandlerFunc { // a list is too long for its length to be known ahead
		return func(w http.ResponseWriter, r *http.Request) {
			answer(200, page)(w, r)
			w.(http.Flusher).Flush()
		}
	}
	s := scripted(chunked(podList("20", "one", item("a", "5"))), chunked(podList("20", "two", item("b", "6"))),
		chunked(podList("20", "")))
	var dials counter
	c := pipeClient(t, s, func(cfg *Config) { cfg.DialContext = dials.count(cfg.DialContext) })
	if got, err := List[*pod](t.Context(), c, Query{Resource: pods}, ListOptions{}); err != nil ||
		len(got.Items) != 2 || dials.n.Load() != 1 {
		t.Errorf("got %v, %v over %d connections, want two pods over one", names(got.Items), err, dials.n.Load())
	}
}
