package leader

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/features"
)

var leaseKey = kube.Key{Namespace: "default", Name: "skiff"}

// world is an API server and the processes that contend for one lease of it.
type world struct {
	t   *testing.T
	api *apiserver.Server

	mu    sync.Mutex // guards the rest
	terms []term
}

// term is one time of leadership: from the call of lead to the end of its work.
type term struct {
	who      string
	from, to time.Time // to is zero while it lasts
}

// candidate is a process with a connection of its own.
type candidate struct {
	*Elector
	w      *world
	pipe   *apiserver.Pipe
	stop   context.CancelFunc
	ended  chan error
	linger time.Duration // how long led work goes on after it was told to end in good order
	stuck  chan struct{} // led work ends only when this is closed; nil: when it is told to
}

// run runs a test in virtual time.
func run(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		coordinated, err := features.New("", "CoordinatedLeaderElection=true")
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, api: apiserver.New(apiserver.Options{Features: coordinated})}
		defer w.api.Close()
		defer w.wantNoTwoLeaders()
		test(w)
	})
}

func (w *world) new(name string, o Options) *candidate {
	w.t.Helper()
	pipe := w.api.ListenPipe()
	client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: name})
	if err != nil {
		w.t.Fatal(err)
	}
	o.Client, o.Identity, o.Log = client, name, logr.Discard()
	o.Namespace, o.Name = leaseKey.Namespace, leaseKey.Name
	e, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return &candidate{Elector: e, w: w, pipe: pipe, ended: make(chan error, 1)}
}

func (w *world) start(name string) *candidate {
	p := w.new(name, Options{})
	p.start()
	return p
}

func (p *candidate) start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- p.Run(ctx, p.lead) }()
}

func (p *candidate) lead(ctx, leaseCtx context.Context) {
	p.w.mu.Lock()
	i := len(p.w.terms)
	p.w.terms = append(p.w.terms, term{who: p.o.Identity, from: time.Now()})
	p.w.mu.Unlock()
	select {
	case <-leaseCtx.Done():
	case <-ctx.Done():
		pause(leaseCtx, p.linger)
	}
	if p.stuck != nil {
		<-p.stuck
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.terms[i].to = time.Now()
}

// end stops a process in good order and waits for it.
func (p *candidate) end() error {
	p.stop()
	err := <-p.ended
	p.pipe.Close()
	p.o.Client.Close()
	return err
}

// kill cuts a process off, as if it were dead; it still believes what it believed.
func (p *candidate) kill() { p.pipe.Blackhole(true) }

func (w *world) last() term {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.terms) == 0 {
		return term{}
	}
	return w.terms[len(w.terms)-1]
}

// leader is who leads now, "" for nobody.
func (w *world) leader() string {
	if t := w.last(); t.to.IsZero() {
		return t.who
	}
	return ""
}

// wantLeader waits for a leader, for at most d.
func (w *world) wantLeader(who string, d time.Duration) {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if synctest.Wait(); w.leader() == who {
			return
		}
		if time.Since(began) > d {
			w.t.Fatalf("after %s the leader is %q, want %q; terms: %v", d, w.leader(), who, w.terms)
		}
	}
}

func (w *world) wantNoTwoLeaders() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < len(w.terms); i++ {
		if end := w.terms[i-1].to; end.IsZero() || w.terms[i].from.Before(end) {
			w.t.Errorf("two leaders at once: %v", w.terms)
		}
	}
}

// spec is the spec of the lease as it is stored.
func (w *world) spec() map[string]any {
	w.t.Helper()
	l := w.api.Get(leases, leaseKey)
	if l == nil {
		w.t.Fatal("there is no lease")
	}
	return l["spec"].(map[string]any)
}

// somebody is a client that is no elector.
func (w *world) somebody() (*kube.Client, func()) {
	pipe := w.api.ListenPipe()
	c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: "somebody"})
	if err != nil {
		w.t.Fatal(err)
	}
	return c, func() { c.Close(); pipe.Close() }
}

// patch changes the lease by another hand.
func (w *world) patch(body map[string]any) {
	w.t.Helper()
	c, done := w.somebody()
	defer done()
	if err := c.Patch(w.t.Context(), leases, leaseKey, kube.MergePatch, body, nil, kube.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(spec map[string]any) {
	w.t.Helper()
	c, done := w.somebody()
	defer done()
	body := map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": leaseKey.Name}, "spec": spec}
	if err := c.Create(w.t.Context(), leases, leaseKey.Namespace, body, nil, kube.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete() {
	w.t.Helper()
	c, done := w.somebody()
	defer done()
	if err := c.Delete(w.t.Context(), leases, leaseKey, kube.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (t term) String() string {
	return fmt.Sprintf("%s %s-%s", t.who, t.from.Format("04:05.000"), t.to.Format("04:05.000"))
}
