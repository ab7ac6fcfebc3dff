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
