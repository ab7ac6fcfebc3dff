package cache

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// filled returns a synced store without a server, and its only scope.
func filled(objects ...*pod) (*Store[*pod], *scope) {
	s := New[*pod](Options{Resource: pods})
	c := newContent[*pod]()
	for _, p := range objects {
		c.objects.put(p)
	}
	c.rv = "1"
	replace(s, c)
	return s, s.scopes[0]
}

func makePod(ns, name string, rv int, owners ...string) *pod {
	p := &pod{Meta: kube.Meta{Namespace: ns, Name: name, UID: ns + name, ResourceVersion: fmt.Sprint(rv),
		Labels: kube.Labels{{Key: "app", Value: "web"}}}}
	for _, o := range owners {
		p.OwnerReferences = append(p.OwnerReferences, kube.OwnerReference{UID: o, Kind: "ReplicaSet", Name: "rs-" + o})
	}
	return p
}

// Rules: CCH-08
func TestReadsBeforeTheFirstListAreErrorsThatSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startMirror(t, newServer(t).on(streamedList, status(403, "Forbidden")), Options{})
		_, found, err := m.Get(kube.Key{Namespace: "default", Name: "a"})
		if found || Unserved(err, NotSynced) == nil || !kube.IsForbidden(err) {
			t.Errorf("get: %v, %v, want NotSynced because of 403", found, err)
		}
		if _, err := m.List(""); Unserved(err, NotSynced) == nil {
			t.Errorf("list: %v", err)
		}
		if _, err := m.List("default"); Unserved(err, NotSynced) == nil {
			t.Errorf("list of a namespace: %v", err)
		}
		if _, err := m.ByOwner("", "u"); Unserved(err, NotSynced) == nil {
			t.Errorf("by owner: %v", err)
		}
	})
}

// Rules: CCH-10
func TestReadsOutsideTheMirrorAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, endMark("5")))
		m := startMirror(t, s, Options{Namespaces: []string{"a"}})
		if _, _, err := m.Get(kube.Key{Namespace: "b", Name: "x"}); Unserved(err, OutOfScope) == nil {
			t.Errorf("get in another namespace: %v", err)
		}
		if _, err := m.List("b"); Unserved(err, OutOfScope) == nil {
			t.Errorf("list of another namespace: %v", err)
		}
		if m.Reached("b", "1", time.Now()) {
			t.Error("a namespace outside the mirror was reached")
		}
		if _, found, err := m.Get(kube.Key{Namespace: "a", Name: "x"}); found || err != nil {
			t.Errorf("get inside: %v, %v, want absent", found, err)
		}
		one := startMirror(t, s, Options{FieldSelector: "metadata.name=x,metadata.namespace!=b"})
		if _, _, err := one.Get(kube.Key{Namespace: "a", Name: "y"}); Unserved(err, OutOfScope) == nil {
			t.Errorf("get of another name: %v", err)
		}
		if _, _, err := one.Get(kube.Key{Namespace: "a", Name: "x"}); err != nil {
			t.Errorf("get of the name: %v", err)
		}
	})
}

// Rules: CCH-12
func TestReachedFollowsListsEventsAndBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		m := startMirror(t, newServer(t).on(streamedList, live.reply), Options{})
		check := func(rv string, want bool) {
			t.Helper()
			if m.Reached("default", rv, time.Now()) != want {
				t.Errorf("Reached(%s) at version %s is %v", rv, m.state().ResourceVersion, !want)
			}
		}
		check("1", false)
		live.send(added("a", "5", 1), endMark("20"))
		check("20", true)
		check("21", false)
		live.send(modified("a", "25", 2))
		check("25", true)
		live.send(bookmark("130"))
		check("99", true)
		check("130", true)
		check("131", false)
		check("", false)
		check("abc", false)
	})
}

// Rules: CCH-01
func TestReadersCannotCorruptTheStore(t *testing.T) {
	s, sc := filled(makePod("default", "a", 1, "u1"), makePod("default", "b", 1, "u1"))
	k := kube.Key{Namespace: "default", Name: "a"}
	all, _ := s.List("")
	owned, _ := s.ByOwner("", "u1")
	clear(all)
	clear(owned)
	_ = append(owned[:1], makePod("x", "y", 1))
	if all, _ := s.List(""); len(all) != 2 || all[0] == nil || all[1].Name != "b" {
		t.Errorf("a reader's change of its slice came back: %v", all)
	}
	if owned, _ := s.ByOwner("", "u1"); len(owned) != 2 || owned[0] == nil || owned[1].Name != "b" {
		t.Errorf("a reader's change of its slice came back: %v", owned)
	}
	if !mutationsAreChecked {
		t.Skip("objects are checked under the race detector only")
	}
	for name, change := range map[string]func(*pod){
		"field":           func(p *pod) { p.Spec.N++ },
		"label in place":  func(p *pod) { p.Labels[0].Value = "other" },
		"owner in place":  func(p *pod) { p.OwnerReferences[0].UID = "u2" },
		"name":            func(p *pod) { p.Name = "z" },
		"labels replaced": func(p *pod) { p.Labels = nil },
	} {
		for where, use := range map[string]func(){
			"get":      func() { _, _, _ = s.Get(k) },
			"list":     func() { _, _ = s.List("default") },
			"by owner": func() { _, _ = s.ByOwner("", "u1") },
			"put":      func() { s.bring(sc, makePod("default", "a", 2), "2") },
			"remove":   func() { s.remove(sc, k, kube.Part{}, "2", Change[*pod]{}) },
		} {
			s, sc = filled(makePod("default", "a", 1, "u1"), makePod("default", "b", 1, "u1"))
			p, _, _ := s.Get(k)
			change(p)
			if !panics(use) {
				t.Errorf("a changed %s was not noticed by %s", name, where)
			}
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// Rules: CCH-03, CCH-05
func TestIndexesEqualAScanAfterRandomChanges(t *testing.T) {
	inOneTurn(t, "no server is in it")
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s, sc := filled()
		s.Index("owners", func(p *pod) []string { return []string{fmt.Sprint(len(p.OwnerReferences)), "all"} })
		model := map[kube.Key]*pod{}
		random := func(rv int) *pod {
			var owners []string
			for range rnd.IntN(3) {
				owners = append(owners, fmt.Sprintf("u%d", rnd.IntN(6)))
			}
			return makePod(fmt.Sprintf("ns%d", rnd.IntN(3)), fmt.Sprintf("p%d", rnd.IntN(20)), rv, owners...)
		}
		for rv := range 200 {
			switch p := random(rv + 2); rnd.IntN(8) {
			case 0, 1, 2, 3:
				s.bring(sc, p, p.ResourceVersion)
				model[p.Key()] = p
			case 4, 5, 6:
				s.remove(sc, p.Key(), kube.Part{}, p.ResourceVersion, Change[*pod]{})
				delete(model, p.Key())
			default:
				c := newContent[*pod]()
				c.rv = p.ResourceVersion
				model = map[kube.Key]*pod{}
				for range rnd.IntN(40) {
					p := random(rv + 2)
					c.objects.put(p)
				}
				replace(s, c)
				for p := range s.objects.all("") {
					model[p.Key()] = p
				}
			}
			if rv%8 == 0 {
				compareWithScan(t, s, model)
			}
		}
		for k := range model {
			s.remove(sc, k, kube.Part{}, "999", Change[*pod]{})
		}
		for _, ix := range s.indexes {
			if len(s.objects) != 0 || len(ix.sets) != 0 {
				t.Errorf("%d namespaces and %d values of index %s are left of an empty store", len(s.objects),
					len(ix.sets), ix.name)
			}
		}
	}
}

func compareWithScan(t *testing.T, s *Store[*pod], model map[kube.Key]*pod) {
	t.Helper()
	scan := func(match func(*pod) bool) []*pod {
		var out []*pod
		for _, p := range model {
			if match(p) {
				out = append(out, p)
			}
		}
		slices.SortFunc(out, byKey[*pod])
		return out
	}
	check := func(what string, got []*pod, want []*pod) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	for _, ns := range []string{"", "ns0", "ns1", "ns2", "ns3"} {
		got, _ := s.List(ns)
		check("namespace "+ns, got, scan(func(p *pod) bool { return ns == "" || p.Namespace == ns }))
	}
	for _, ns := range []string{"", "ns0", "ns1", "ns3"} {
		got, _ := s.ByIndex("owners", ns, "1")
		check("one owner in "+ns, got, scan(func(p *pod) bool {
			return len(p.OwnerReferences) == 1 && (ns == "" || p.Namespace == ns)
		}))
	}
	for i := range 7 {
		uid := fmt.Sprintf("u%d", i)
		got, _ := s.ByOwner("", uid)
		check("owner "+uid, got, scan(func(p *pod) bool {
			return slices.ContainsFunc(p.OwnerReferences, func(o kube.OwnerReference) bool { return o.UID == uid })
		}))
	}
}

// Rules: CCH-05
func TestChurnOfOwnersAndNamespacesLeavesNothingBehind(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s, sc := filled()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	churn := func(n int) {
		for i := range n {
			p := makePod(fmt.Sprintf("ns%d", i), "p", i+1, fmt.Sprintf("u%d", i))
			s.bring(sc, p, p.ResourceVersion)
			s.remove(sc, p.Key(), kube.Part{}, p.ResourceVersion, Change[*pod]{})
		}
	}
	churn(1000)
	before := heap()
	churn(10_000)
	if after := heap(); after > before+512<<10 {
		t.Errorf("heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(s)
}

// Rules: RFL-07, CCH-22
func TestReadersNeverSeeAHalfInstalledList(t *testing.T) {
	inOneTurn(t, "no server is in it")
	const n = 200
	s, _ := filled()
	install := func(g int) {
		c := newContent[*pod]()
		c.rv = fmt.Sprint(g)
		for i := range n {
			p := makePod("default", fmt.Sprintf("g%d-%03d", g%3, i), g, "owner")
			p.Spec.N = g
			c.objects.put(p)
		}
		replace(s, c)
	}
	install(2)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	read := func(list func() ([]*pod, error)) {
		for {
			select {
			case <-stop:
				return
			default:
			}
			all, err := list()
			if err != nil || len(all) != n {
				t.Errorf("%d objects, %v", len(all), err)
				return
			}
			for i, p := range all {
				if p.Spec.N != all[0].Spec.N || i > 0 && p.Name < all[i-1].Name {
					t.Errorf("objects of list %d and %d in one read, %s at %d", p.Spec.N, all[0].Spec.N, p.Name, i)
					return
				}
			}
		}
	}
	readers.Go(func() { read(func() ([]*pod, error) { return s.List("") }) })
	readers.Go(func() { read(func() ([]*pod, error) { return s.ByOwner("", "owner") }) })
	for g := 3; g < 60; g++ {
		install(g)
	}
	close(stop)
	readers.Wait()
}

func replace(s *Store[*pod], c content[*pod]) {
	s.replace(s.scopes[0], c, func([]Change[*pod], int) {})
}
