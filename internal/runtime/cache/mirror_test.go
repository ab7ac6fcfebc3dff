package cache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
)

// mirror is a running Store with a record of what its handlers heard.
type mirror struct {
	*Store[*pod]
	t    *testing.T
	stop func()

	mu      sync.Mutex
	changes []Change[*pod]
	log     []string
}

func startMirror(t *testing.T, s *server, o Options) *mirror {
	t.Helper()
	m := &mirror{t: t}
	o.Client, o.Resource = s.client, pods
	o.Log = funcr.New(func(prefix, args string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.log = append(m.log, prefix+" "+args)
	}, funcr.Options{})
	m.Store = New[*pod](o)
	m.OnChange(m.hear)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	m.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(m.stop)
	synctest.Wait()
	return m
}

func (m *mirror) hear(c Change[*pod]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes = append(m.changes, c)
}

// heard returns the changes since the last call, as text: "ADDED a", "DELETED a unknown", "ADDED b initial".
func (m *mirror) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []string{}
	for _, c := range m.changes {
		text := c.Type.String() + " " + c.Object().Name
		if c.Initial {
			text += " initial"
		}
		if c.Unknown {
			text += " unknown"
		}
		out = append(out, text)
	}
	m.changes = nil
	return out
}

func (m *mirror) wantHeard(want ...string) {
	m.t.Helper()
	if got := m.heard(); !slices.Equal(got, want) {
		m.t.Errorf("handlers heard %q, want %q", got, want)
	}
}

// wantContent compares the mirror with "name=n" entries in key order.
func (m *mirror) wantContent(want ...string) {
	m.t.Helper()
	all, err := m.List("")
	if err != nil {
		m.t.Errorf("list: %v", err)
		return
	}
	got := []string{}
	for _, p := range all {
		got = append(got, fmt.Sprintf("%s=%d", p.Name, p.Spec.N))
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("mirror holds %q, want %q", got, want)
	}
}

func (m *mirror) state() ScopeState { return m.State()[0] }

func (m *mirror) logged(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, l := range m.log {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Synced reports whether all scopes are.
func (s *Store[T]) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !slices.ContainsFunc(s.scopes, func(sc *scope) bool { return !sc.Synced })
}

// waitSynced waits until all scopes are synced.
func (s *Store[T]) waitSynced() {
	news := make(chan struct{}, 1)
	defer s.OnServes(func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})()
	for !s.Synced() {
		<-news
	}
}
