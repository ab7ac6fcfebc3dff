package cache

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/httpd"
)

// replicas are API servers behind a load balancer, which gives each new connection to the one that is up and
// has the fewest.
type replicas struct {
	mu    sync.Mutex // guards the rest
	pipes []*httpd.Pipe
	down  int // which one is, -1: none
	open  map[net.Conn]opened
}

type opened struct {
	at    int // the replica
	since time.Time
}

// balanced is a connection to one of the replicas.
type balanced struct {
	net.Conn
	of *replicas
}

func (c *balanced) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (r *replicas) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	load := make([]int, len(r.pipes))
	for _, o := range r.open {
		load[o.at]++
	}
	at := -1
	for i := range load {
		if i != r.down && (at < 0 || load[i] < load[at]) {
			at = i
		}
	}
	r.mu.Unlock()
	conn, err := r.pipes[at].Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &balanced{conn, r}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[c] = opened{at: at, since: time.Now()}
	return c, nil
}

// restart takes a replica away for a minute.
func (r *replicas) restart(at int) {
	r.mu.Lock()
	r.down = at
	var lost []net.Conn
	for c, o := range r.open {
		if o.at == at {
			lost = append(lost, c)
		}
	}
	r.mu.Unlock()
	for _, c := range lost {
		_ = c.(*balanced).Conn.Close() // the client finds out
	}
	wait(time.Minute)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = -1
}

// watches counts the connections of each replica that are older than any but that of a watch is kept.
func (r *replicas) watches() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := make([]int, len(r.pipes))
	for _, o := range r.open {
		if time.Since(o.since) > 2*time.Minute {
			n[o.at]++
		}
	}
	return n
}

// Rules: NET-14
func TestWatchesSpreadOverTheServersAgainAfterARollingRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		defer api.Close()
		r := &replicas{down: -1, open: map[net.Conn]opened{}}
		for range 3 {
			r.pipes = append(r.pipes, api.ListenPipe())
		}
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: r.dial, OnlyJSON: !inProtobuf,
			Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Resource: pods, Client: client}
		for i := range 12 {
			o.Namespaces = append(o.Namespaces, fmt.Sprint("tenant-", i))
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { New[*pod](o).Run(ctx) })
		wait(5 * time.Minute)
		for at := range r.pipes {
			r.restart(at)
		}
		wait(time.Minute)
		after := r.watches()
		if after[2] != 0 {
			t.Errorf("watches by replica after the restarts: %v, want none at the last one yet", after)
		}
		wait(20 * time.Minute)
		served := make([]int, len(r.pipes))
		for range 5 { // the count leaves out connections that have just been opened anew
			for at, n := range r.watches() {
				served[at] += n
			}
			wait(time.Minute)
		}
		for at, n := range served {
			if n == 0 {
				t.Errorf("replica %d has none of 12 watches, twenty minutes after all were restarted in turn", at)
			}
		}
		stop()
		running.Wait()
		client.Close()
		for _, p := range r.pipes {
			_ = p.Close()
		}
	})
}
