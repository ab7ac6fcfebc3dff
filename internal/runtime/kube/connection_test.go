package kube

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func podNamed(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}}
}

// Rules: NET-08
func TestAWriteOnAConnectionThatTheServerClosesIsNeverSentTwice(t *testing.T) {
	writes := map[string]func(c *Client) error{
		"POST": func(c *Client) error {
			return c.Create(context.Background(), pods, "default", podNamed("a"), nil, WriteOptions{})
		},
		"PATCH": func(c *Client) error {
			return c.Patch(context.Background(), pods, Key{"default", "a"}, ApplyPatch, podNamed("a"), nil,
				WriteOptions{FieldManager: "me", Force: true})
		},
		"DELETE": func(c *Client) error {
			return c.Delete(context.Background(), pods, Key{"default", "a"}, DeleteOptions{UID: "u"})
		},
	}
	for verb, write := range writes {
		for _, cut := range []string{"before the work", "after the work", "in the answer"} {
			arrived := 0
			c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if arrived++; arrived == 2 { // on a connection that has been used
					if cut == "in the answer" {
						w.Header().Set("Content-Length", "1000")
						fmt.Fprint(w, `{"metadata"`)
						w.(http.Flusher).Flush()
					}
					panic(http.ErrAbortHandler)
				}
				fmt.Fprint(w, item("a", "5"))
			}))
			if err := write(c); err != nil {
				t.Fatal(err)
			}
			err := write(c)
			if !UnknownOutcome(err) || !IsTransient(err) || arrived != 2 {
				t.Errorf("%s, cut %s: got %v after %d requests, want an unknown outcome after two", verb, cut, err,
					arrived)
			}
			if err := write(c); err != nil {
				t.Errorf("%s, cut %s: the next one: %v", verb, cut, err)
			}
		}
	}
}

// Rules: NET-03
func TestAfterAWriteThatGotNoAnswerTheNextOneHasANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 4
		shut := make(chan struct{})
		together := new(sync.WaitGroup)
		together.Add(workers)
		h := func(w http.ResponseWriter, _ *http.Request) {
			together.Done()
			together.Wait()
			answer(200, item("a", "5"))(w, nil)
		}
		var dials counter
		c := pipeClient(t, http.HandlerFunc(h), func(cfg *Config) {
			dial := dials.count(cfg.DialContext)
			cfg.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if dials.n.Load() > workers {
					return conn, err
				}
				return &blackhole{conn, shut}, err
			}
		})
		create := func() error {
			return c.Create(t.Context(), pods, "default", podNamed("a"), nil, WriteOptions{})
		}
		var writes sync.WaitGroup
		for range workers {
			writes.Go(func() {
				if err := create(); err != nil {
					t.Error(err)
				}
			})
		}
		writes.Wait()
		close(shut) // all connections fall silent
		if err := create(); !errors.Is(err, context.DeadlineExceeded) || !UnknownOutcome(err) {
			t.Errorf("got %v, want a deadline and an unknown outcome", err)
		}
		together.Add(1)
		began := time.Now()
		if err := create(); err != nil || time.Since(began) > 0 {
			t.Errorf("the next write: %v after %s, want it at once on a new connection", err, time.Since(began))
		}
	})
}

// resetting is a server that speaks only HTTP/2 and answers the first request with a reset and any later one with an
// object. It speaks in raw frames, because net/http's own server does not say which code it resets a stream with.
func resetting(t *testing.T, code uint32) (c *Client, streams *atomic.Int32) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.EnableHTTP2 = true
	streams = new(atomic.Int32)
	write := func(conn io.Writer, kind, flags byte, stream uint32, payload []byte) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		_, _ = conn.Write(append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...))
	}
	srv.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			_, _ = io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			write(conn, 4, 0, 0, nil) // our settings: none
			for {
				var head [9]byte
				if _, err := io.ReadFull(conn, head[:]); err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:])>>8)); err != nil {
					return
				}
				stream := binary.BigEndian.Uint32(head[5:])
				switch {
				case head[3] == 4 && head[4] == 0: // settings
					write(conn, 4, 1, 0, nil)
				case head[3] == 1 && streams.Add(1) == 1: // headers
					write(conn, 3, 0, stream, binary.BigEndian.AppendUint32(nil, code))
				case head[3] == 1:
					// RFC 7541, table entries 8 and 31
					const status200, contentType = "\x88", "\x0f\x10\x10application/json"
					write(conn, 1, 4, stream, []byte(status200+contentType))
					write(conn, 0, 1, stream, []byte(item("a", "5")))
				}
			}
		}}
	srv.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(h.SupportedProtos, "h2") {
			return nil, nil
		}
		return nil, errors.New("it speaks only HTTP/2")
	}}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c, err := New(Config{Server: srv.URL,
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, streams
}

// Rules: NET-07
func TestAResetStreamIsTriedAgainOnlyWhereItWasRefused(t *testing.T) {
	const internalError, refusedStream, enhanceYourCalm = 2, 7, 11
	for _, code := range []uint32{internalError, refusedStream, enhanceYourCalm} {
		for _, write := range []bool{false, true} {
			c, streams := resetting(t, code)
			var p pod
			var err error
			if write {
				err = c.Create(t.Context(), pods, "default", map[string]any{"metadata": map[string]any{"name": "a"}},
					&p, WriteOptions{})
			} else {
				err = c.Get(t.Context(), pods, Key{"default", "a"}, &p)
			}
			switch {
			case code == refusedStream: // the server has not looked at it (RFC 9113, section 8.7)
				if err != nil || p.Name != "a" || streams.Load() != 2 {
					t.Errorf("refused, write %v: got %v after %d requests, want an answer to the second", write, err,
						streams.Load())
				}
			case !IsTransient(err) || UnknownOutcome(err) != write || streams.Load() != 1:
				t.Errorf("reset with code %d, write %v: got %v after %d requests, want one, "+
					"and the outcome unknown of a write", code, write, err, streams.Load())
			}
		}
	}
}
