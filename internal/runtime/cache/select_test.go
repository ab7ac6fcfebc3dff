package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// selecting is a mirror whose namespaces come and go, of an embedded server.
type selecting struct {
	t       *testing.T
	api     *apiserver.Server
	client  *kube.Client
	mirrors *Mirrors
	store   *Store[*configMap]
	mu      sync.Mutex // guards heard
	heard   []string
}

// newSelecting returns a mirror of no namespace so far, which ends with the test. want works in a bubble alone.
func newSelecting(t *testing.T, namespaces ...string) *selecting {
	t.Helper()
	s := &selecting{t: t, api: apiserver.New(apiserver.Options{}), mirrors: NewMirrors()}
	pipe := s.api.ListenPipe()
	client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, OnlyJSON: !inProtobuf,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	s.store = Shared[*configMap](s.mirrors, Options{Resource: configMaps, Client: client, Selected: true})
	s.store.OnChange(func(c Change[*configMap]) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heard = append(s.heard, c.Type.String()+" "+c.Object().Key().String())
	})
	for _, name := range namespaces {
		if err := client.Create(t.Context(), kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace",
			ClusterScoped: true}, "", map[string]any{"metadata": map[string]any{"name": name}}, nil,
			kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.create(name, "one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.store.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		client.Close()
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
		s.api.Close()
	})
	return s
}

func (s *selecting) create(namespace, name string) {
	s.t.Helper()
	body := map[string]any{"metadata": map[string]any{"name": name}}
	if err := s.client.Create(s.t.Context(), configMaps, namespace, body, nil, kube.WriteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// want checks the content, and what the handlers have heard since the last call.
func (s *selecting) want(content string, heard ...string) {
	s.t.Helper()
	synctest.Wait()
	all, err := s.store.List("")
	var names []string
	for _, obj := range all {
		names = append(names, obj.Key().String())
	}
	if have := strings.Join(names, " "); err != nil || have != content {
		s.t.Errorf("it has %q, %v; want %q", have, err, content)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.heard)
	if !slices.Equal(s.heard, heard) {
		s.t.Errorf("the handlers heard %q, want %q", s.heard, heard)
	}
	s.heard = nil
}

func TestNamespacesOfAMirrorComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSelecting(t, "a", "b", "c")
		if !s.store.Synced() {
			t.Error("a mirror of no namespace has nothing to wait for")
		}
		s.want("")
		s.mirrors.Select([]string{"b", "a", "b"})
		s.want("a/one b/one", "ADDED a/one", "ADDED b/one")
		s.mirrors.Select([]string{"b", "c"})
		s.want("b/one c/one", "ADDED c/one") // what is in a has not been deleted
		if _, _, err := s.store.Get(kube.Key{Namespace: "a", Name: "one"}); Unserved(err, OutOfScope) == nil {
			t.Errorf("a namespace that has gone: %v, want OutOfScope", err)
		}
		s.create("a", "two")
		s.want("b/one c/one")
		s.mirrors.Select([]string{"a"})
		s.want("a/one a/two", "ADDED a/one", "ADDED a/two")
		if st := s.store.State(); len(st) != 1 || st[0].Objects != 2 || s.store.Bytes() <= 0 {
			t.Errorf("state %+v, %d bytes", st, s.store.Bytes())
		}
		s.mirrors.Select(nil)
		s.want("")
		if s.store.Bytes() != 0 || len(s.store.indexes[0].sets) != 0 {
			t.Errorf("%d bytes and %d owners are left", s.store.Bytes(), len(s.store.indexes[0].sets))
		}
	})
}

func TestANewMirrorHasTheSelectedNamespaces(t *testing.T) {
	m := NewMirrors()
	m.Select([]string{"b", "a"})
	o := Options{Resource: configMaps, Client: new(kube.Client), Selected: true}
	s := Shared[*pod](m, o)
	if have := s.Namespaces(); !slices.Equal(have, []string{"a", "b"}) || !s.Selected() {
		t.Errorf("namespaces %q", have)
	}
	m.Select([]string{"c"})
	if Shared[*pod](m, o) != s {
		t.Error("it is not shared after the selection has changed")
	}
	other := Shared[*pod](m, Options{Resource: configMaps, Client: new(kube.Client), Namespaces: []string{"a"}})
	whole := Shared[*pod](m, Options{Resource: kube.Resource{Plural: "nodes", ClusterScoped: true},
		Client: new(kube.Client), Selected: true})
	m.Select(nil)
	if !slices.Equal(other.Namespaces(), []string{"a"}) || len(whole.State()) != 1 || whole.Selected() {
		t.Error("a mirror of named namespaces, or of a cluster-scoped resource, has lost them")
	}
}

// A controller that looks for a mirror holds a lock of its own, which its handlers take: Select, which waits for the
// handlers of the namespaces left out, must not keep it waiting. This is no bubble, where a deadlock of mutexes hangs.
func TestASelectionUnderWayKeepsNobodyFromAMirror(t *testing.T) {
	s := newSelecting(t, "a")
	heard, lock := make(chan bool), make(chan bool)
	s.store.OnChange(func(Change[*configMap]) {
		close(heard)
		<-lock
	})
	s.mirrors.Select([]string{"a"})
	<-heard
	var selecting sync.WaitGroup
	selecting.Go(func() { s.mirrors.Select([]string{"b"}) })
	begun := func() bool {
		s.mirrors.mu.Lock()
		defer s.mirrors.mu.Unlock()
		return slices.Equal(s.mirrors.selected, []string{"b"})
	}
	for !begun() {
		runtime.Gosched()
	}
	for s.store.runMu.TryLock() { // until the handlers are waited for
		s.store.runMu.Unlock()
		runtime.Gosched()
	}
	got := make(chan *Store[*pod])
	go func() { got <- Shared[*pod](s.mirrors, Options{Resource: pods, Client: s.client, Selected: true}) }()
	select {
	case other := <-got:
		if names := other.Namespaces(); !slices.Equal(names, []string{"b"}) {
			t.Errorf("the other mirror has namespaces %q", names)
		}
		close(lock)
	case <-time.After(10 * time.Second):
		t.Error("nobody gets a mirror meanwhile")
		close(lock)
		<-got
	}
	selecting.Wait()
	if names := s.store.Namespaces(); !slices.Equal(names, []string{"b"}) {
		t.Errorf("the mirror has namespaces %q", names)
	}
}

// However the selection changes, and while objects are written, the mirror has in the end what the namespaces that are
// selected last have.
func TestRandomSelectionsEndWithWhatIsSelected(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				all := []string{"a", "b", "c", "d"}
				s := newSelecting(t, all...)
				want := map[string][]string{}
				var selected []string
				for _, ns := range all {
					want[ns] = []string{ns + "/one"}
				}
				for n := range 30 {
					switch ns := all[random.IntN(len(all))]; {
					case random.IntN(2) == 0:
						selected = slices.DeleteFunc(slices.Clone(all), func(string) bool {
							return random.IntN(2) == 0
						})
						s.mirrors.Select(selected)
					default:
						name := fmt.Sprintf("x%02d", n)
						s.create(ns, name)
						want[ns] = append(want[ns], ns+"/"+name)
					}
					if random.IntN(3) == 0 {
						synctest.Wait()
					}
				}
				s.store.waitSynced()
				var names []string
				for _, ns := range selected {
					names = append(names, want[ns]...)
				}
				synctest.Wait()
				s.heard = nil
				s.want(strings.Join(names, " "))
			})
		})
	}
}
