package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func podNamed(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}}
}

// Rules: NET-03
func TestShortRequestsHaveConnectionsOfTheirOwnUpToABound(t *testing.T) {
	const all = maxOwn + 4
	var mu sync.Mutex // guards over and together
	over := map[int]int{}
	together := new(sync.WaitGroup)
	c := tlsClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, frame("ADDED", item("a", "5")))
			return
		}
		mu.Lock()
		over[r.ProtoMajor]++
		arrived := together
		mu.Unlock()
		arrived.Done()
		arrived.Wait() // none is answered before all are there
		fmt.Fprint(w, item("a", "5"))
	}))
	var dials counter
	own := c.short.connections()
	for _, t := range []http.RoundTripper{own.http1, own.http2} {
		transport := t.(*http.Transport)
		transport.DialContext = dials.count(transport.DialContext)
	}
	create := func(n int) map[int]int {
		together = new(sync.WaitGroup)
		together.Add(n)
		clear(over)
		var writes sync.WaitGroup
		for range n {
			writes.Go(func() {
				if err := c.Create(t.Context(), pods, "default", podNamed("a"), nil, WriteOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		writes.Wait()
		return over
	}
	if got := create(2); got[2] != 2 {
		t.Errorf("protocols before any watch: %v, want HTTP/2: a write must not find out what a server speaks", got)
	}
	if st, _ := openWatch(t, c); st.Close() != nil {
		t.Fatal("the watch cannot be closed")
	}
	for range 3 {
		if got := create(all); got[1] != maxOwn || got[2] != 4 {
			t.Errorf("protocols: %v, want %d over HTTP/1.1 and 4 over HTTP/2", got, maxOwn)
		}
	}
	if n := dials.n.Load(); n > maxOwn+2 {
		t.Errorf("%d connections, want at most %d, used again", n, maxOwn+2)
	}
	if n := c.short.open.Load(); n != 0 {
		t.Errorf("%d requests are counted when all are answered", n)
	}
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
			c.short.server.spoken.Store(true)
			if err := write(c); err != nil {
				t.Fatal(err)
			}
			err := write(c)
			if !UnknownOutcome(err) || !IsTransient(err) || arrived != 2 {
				t.Errorf("%s, cut %s: got %v after %d requests, want an unknown outcome after two", verb, cut, err,
					arrived)
			}
			if err := write(c); err != nil || c.short.open.Load() != 0 {
				t.Errorf("%s, cut %s: the next one: %v, with %d under way", verb, cut, err, c.short.open.Load())
			}
		}
	}
}

// A server closes its idle connections after 90 s: a write that arrives just then would be lost.
func TestAConnectionForWritesIsGivenUpBeforeAServerClosesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials counter
		c := pipeClient(t, scripted(answer(200, item("a", "5"))), func(cfg *Config) {
			cfg.DialContext = dials.count(cfg.DialContext)
		})
		c.short.server.spoken.Store(true)
		for _, pause := range []time.Duration{0, shortIdle - time.Second, shortIdle + time.Second} {
			time.Sleep(pause) // virtual
			if err := c.Create(t.Context(), pods, "default", podNamed("a"), nil, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if n := dials.n.Load(); n != 2 {
			t.Errorf("%d connections, want the first kept for %s and no longer", n, shortIdle)
		}
	})
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
		c.short.server.spoken.Store(true)
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
