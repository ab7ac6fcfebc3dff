package cache

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// A server may answer a list from a state that a watch of it has not brought yet: the events up to that state come
// after the objects of the list.
func TestAnEventThatTheListOfANamespaceIsAheadOfDoesNotTakeItBack(t *testing.T) {
	inOneTurn(t, "the list is sent in two parts")
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		slow := make(chan bool)
		anew := strings.Replace(podOf("big", "p001", 591, 1), "big-p001", "another", 1)
		s.on(pagedList, func(w http.ResponseWriter, r *http.Request) {
			head, tail, _ := strings.Cut(listObject("600", podOf("big", "p000", 590, 1), anew, `{`), `,{]`)
			openStream(w)
			_, _ = w.Write([]byte(head))
			_ = http.NewResponseController(w).Flush()
			<-slow
			_, _ = w.Write([]byte("]" + tail))
		})
		for i := 2; i < 100; i++ {
			f.send(event("DELETED", podOf("big", fmt.Sprintf("p%03d", i), 501, 2)))
		}
		wait(fitTime + 2*lookEvery)
		f.send(event("MODIFIED", podOf("big", "p000", 550, 1)), event("DELETED", podOf("big", "p001", 551, 1)))
		wait(time.Second)
		close(slow)
		wait(time.Second)
		f.send(event("MODIFIED", podOf("big", "p000", 590, 1)), event("ADDED", anew))
		wait(time.Second)
		got := []string{}
		all, err := m.List("big")
		for _, p := range all {
			got = append(got, p.Name+"="+p.ResourceVersion+" "+p.UID)
		}
		if want := []string{"p000=590 big-p000", "p001=591 another"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	})
}

func TestANamespaceThatLeavesWhileItIsReadAgainTakesNothing(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s := New[*pod](Options{Resource: pods, Namespaces: []string{"a", "b"}, MaxBytes: 100 << 10})
	sc := s.scopes[0]
	s.replace(sc, content[*pod]{objects: table[*pod]{}, rv: "2"}, func([]Change[*pod], int) {})
	s.shedNamespace("a", victim{})
	if !s.account.begin("a") {
		t.Fatal("another namespace is read")
	}
	_, st, _ := s.stage("a")
	p := &pod{}
	p.Namespace, p.Name, p.UID, p.ResourceVersion = "a", "p", "u", "3"
	if err := s.addStaged("a", st, s.formOf(p, kube.Part{}, false), nil); err != nil {
		t.Fatal(err)
	}
	s.setNamespaces([]string{"b"})
	s.account.end("a")
	if got := s.account.shares["a"]; got != nil || s.Bytes() != 0 || s.shed["a"] != nil {
		t.Errorf("it takes %+v of %d bytes", got, s.Bytes())
	}
}

func TestAPanicWhileANamespaceReturnsEndsNothing(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		returned := 0
		m.OnReturn(func(string) {
			if returned++; returned == 1 {
				panic("first")
			}
		})
		s.on(pagedList, list("700", podOf("big", "p001", 2, 2)))
		for i := 2; i < 100; i++ {
			f.send(event("DELETED", podOf("big", fmt.Sprintf("p%03d", i), 501+i, 2)))
		}
		wait(fitTime + 3*lookEvery)
		if _, err := m.List("big"); !isShed(err, OverBudget) {
			t.Errorf("after the panic: %v", err)
		}
		wait(2*fitTime + 3*lookEvery)
		if all, err := m.List("big"); err != nil || len(all) != 1 || returned != 2 {
			t.Errorf("%d pods, %v, returned %d times", len(all), err, returned)
		}
	})
}

func TestAPanicInAChangeLeavesNoLockBehind(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s, sc := budgeted()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nil is no pod")
			}
		}()
		s.bring(sc, nil, "3")
	}()
	if !sc.writing.TryLock() || !s.handlersMu.TryLock() || !s.mu.TryLock() {
		t.Error("a lock is held")
	}
}

func TestAListOfAClusterScopedResourceThatIsShedIsNotEmpty(t *testing.T) {
	inOneTurn(t, "no server is in it")
	r := kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	s := New[*pod](Options{Resource: r, MaxBytes: 1 << 10})
	sc := s.scopes[0]
	s.replace(sc, content[*pod]{objects: table[*pod]{}, rv: "2"}, func([]Change[*pod], int) {})
	for i := range 20 {
		p := &pod{}
		p.Name, p.UID, p.ResourceVersion = fmt.Sprint("n", i), fmt.Sprint("u", i), fmt.Sprint(3+i)
		s.bring(sc, p, p.ResourceVersion)
	}
	if all, err := s.List(""); !isShed(err, OverBudget) {
		t.Errorf("%d objects, %v", len(all), err)
	}
}

// An event whose object was skimmed, because its namespace was shed, may come to a namespace that has come back.
func TestAnObjectThatWasSkimmedIsNeverMissing(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s, sc := budgeted()
	k := kube.Key{Namespace: "a", Name: "p"}
	of := func(rv string) *pod {
		p := &pod{}
		p.Namespace, p.Name, p.UID, p.ResourceVersion = k.Namespace, k.Name, "u", rv
		return p
	}
	s.bring(sc, of("3"), "3")
	heard := ""
	s.OnChange(func(c Change[*pod]) {
		heard = c.Type.String()
		if _, ok, err := s.Get(k); !ok && AsShed(err) == nil {
			t.Errorf("%s: it is missing: %v", heard, err)
		}
	})
	s.put(sc, of("4"), kube.Part{Skimmed: true, Size: 100}, kube.Modified, "4")
	if _, err := s.List("a"); !isShed(err, OverBudget) || heard != "SHED" {
		t.Errorf("%v, heard %q", err, heard)
	}
}
