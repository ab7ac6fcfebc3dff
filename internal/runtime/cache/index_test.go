package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/kube"
)

// byN is an index function.
func byN(p *pod) []string { return []string{fmt.Sprint(p.Spec.N)} }

func names(all []*pod) []string {
	out := []string{}
	for _, p := range all {
		out = append(out, p.Key().String())
	}
	return out
}

func numbered(namespace, name string, rv, n int) *pod {
	p := makePod(namespace, name, rv)
	p.Spec.N = n
	return p
}

// Rules: CCH-03, CCH-06
func TestAnIndexFindsObjectsByWhatAFunctionSaysOfThem(t *testing.T) {
	s, sc := filled()
	s.Index("n", byN)
	want := func(namespace, value string, want ...string) {
		t.Helper()
		got, err := s.ByIndex("n", namespace, value)
		if err != nil || !slices.Equal(names(got), want) {
			t.Errorf("objects with %s in %q: %q, %v, want %q", value, namespace, names(got), err, want)
		}
	}
	want("", "7")
	s.bring(sc, numbered("b", "x", 3, 7), "3")
	s.bring(sc, numbered("a", "y", 4, 7), "4")
	s.bring(sc, numbered("ab", "z", 5, 7), "5")
	want("", "7", "a/y", "ab/z", "b/x")
	want("a", "7", "a/y")
	want("c", "7")
	s.bring(sc, numbered("a", "y", 6, 8), "6")
	want("", "7", "ab/z", "b/x")
	want("", "8", "a/y")
}

// Rules: CCH-08, CCH-10
func TestALookupThatCannotBeAnsweredIsAnError(t *testing.T) {
	s := New[*pod](Options{Resource: pods, Namespaces: []string{"a", "b"}})
	s.Index("n", byN)
	s.setSynced(s.scopes[0], true)
	for _, test := range []struct {
		name, namespace string
		want            string
	}{{"n", "a", ""}, {"n", "b", NotSynced}, {"n", "", NotSynced}, {"n", "c", OutOfScope}} {
		_, err := s.ByIndex(test.name, test.namespace, "1")
		if test.want == "" != (err == nil) || err != nil && Unserved(err, test.want) == nil {
			t.Errorf("index %s of namespace %q: %v, want %v", test.name, test.namespace, err, test.want)
		}
		if err != nil && !strings.Contains(err.Error(), "list pods by "+test.name) {
			t.Errorf("the error does not say what was looked up: %v", err)
		}
	}
	if _, err := s.ByIndex("m", "a", "1"); !errors.Is(err, ErrNoIndex) {
		t.Errorf("an index that was not made: %v", err)
	}
	if _, err := s.ByOwner("a", "u"); err != nil {
		t.Errorf("by owner in a namespace that is synced: %v", err)
	}
}

// Rules: CCH-04
func TestAnIndexFunctionThatPanicsLosesThatObjectInThatIndexOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		server := newServer(t).on(streamedList, live.reply)
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		s := New[*pod](Options{Resource: pods, Client: server.client, Log: log})
		s.Index("n", byN)
		s.Index("poison", func(p *pod) []string {
			if p.Spec.N > 1 {
				panic("more than one")
			}
			return []string{"fine"}
		})
		go s.Run(t.Context())
		synctest.Wait()
		live.send(added("a", "5", 1), added("b", "6", 2), added("c", "7", 3), endMark("20"))
		want := func(name, value string, want ...string) {
			t.Helper()
			if got, err := s.ByIndex(name, "default", value); err != nil || !slices.Equal(names(got), want) {
				t.Errorf("%s %s: %q, %v, want %q", name, value, names(got), err, want)
			}
		}
		want("poison", "fine", "default/a")
		want("n", "2", "default/b")
		live.send(modified("b", "21", 1), deleted("c", "22", 3), modified("a", "23", 9))
		want("poison", "fine", "default/b")
		live.send(deleted("b", "24", 1))
		want("poison", "fine")
		if n := s.State()[0].Counters.IndexPanics; n != 3 {
			t.Errorf("%d panics counted, want 3", n)
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "more than one") || !strings.Contains(lines[0], "poison") {
			t.Errorf("logged %q, want one line that names the panic and the index", lines)
		}
		if all, err := s.List(""); err != nil || len(all) != 1 {
			t.Errorf("mirror holds %d objects, %v", len(all), err)
		}
	})
}

// A function that is not pure and panics when its object goes leaves nothing of it behind.
//
// Rules: CCH-04
func TestAnIndexFunctionThatPanicsLaterLeavesNoGhost(t *testing.T) {
	s, sc := filled()
	broken := false
	s.Index("n", func(p *pod) []string {
		if broken {
			panic("broken")
		}
		return byN(p)
	})
	s.bring(sc, numbered("a", "x", 3, 7), "3")
	broken = true
	s.remove(sc, kube.Key{Namespace: "a", Name: "x"}, kube.Part{}, "4",
		Change[*pod]{Type: Gone, Old: numbered("a", "x", 4, 7)})
	if got, err := s.ByIndex("n", "", "7"); err != nil || len(got) != 0 {
		t.Errorf("found %q, %v", names(got), err)
	}
}

// Rules: CCH-07
func TestAnIndexThatIsDeclaredUnderLoadHasNoGap(t *testing.T) {
	s, sc := filled()
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for n := 3; ; n++ {
			select {
			case <-stop:
				return
			default:
				s.bring(sc, numbered("a", fmt.Sprint(n%50), n, n%50), fmt.Sprint(n))
			}
		}
	})
	for i := range 20 {
		name := fmt.Sprint("index", i)
		s.Index(name, byN)
		s.Index(name, func(*pod) []string { return nil }) // taken: left as it is
	}
	close(stop)
	writing.Wait()
	for i := range 20 {
		for n := range 50 {
			got, _ := s.ByIndex(fmt.Sprint("index", i), "a", fmt.Sprint(n))
			_, there, _ := s.Get(kube.Key{Namespace: "a", Name: fmt.Sprint(n)})
			if there != (len(got) == 1) {
				t.Fatalf("index %d has %d objects with %d, the mirror has it: %t", i, len(got), n, there)
			}
		}
	}
}

func TestANewVersionOfAPodKeepsWhatHasNotChanged(t *testing.T) {
	s, sc := filled()
	first, second, third := makePod("s", "a", 1, "rs"), makePod("s", "a", 2, "rs"), makePod("s", "a", 3, "new")
	third.Labels = kube.Labels{{Key: "app", Value: "mine"}}
	for _, p := range []*pod{first, second, third} {
		s.bring(sc, p, p.ResourceVersion)
	}
	if &first.Labels[0] != &second.Labels[0] || &first.OwnerReferences[0] != &second.OwnerReferences[0] {
		t.Error("the second version has labels or owner references of its own")
	}
	if third.Labels[0].Value != "mine" || third.OwnerReferences[0].UID != "new" ||
		second.OwnerReferences[0].UID != "rs" {
		t.Errorf("the versions became %v and %v", second, third)
	}
}

func TestAnIndexOfMetadataIsAskedOnceForObjectsThatShareIt(t *testing.T) {
	s, sc := filled()
	calls := 0
	s.IndexMeta("app", func(labels kube.Labels, _ []kube.OwnerReference) []string {
		calls++
		app, _ := labels.Get("app")
		return []string{app}
	})
	web, db := kube.Labels{{Key: "app", Value: "web"}}, kube.Labels{{Key: "app", Value: "db"}}
	for i, labels := range []kube.Labels{web, web, db, db, nil, web} {
		p := makePod("s", fmt.Sprint("p", i), i+1, "rs")
		p.Labels, p.OwnerReferences = labels, nil
		s.bring(sc, p, fmt.Sprint(i+1))
	}
	if calls != 4 {
		t.Errorf("the index was asked %d times, want once for each of 4 runs of equal labels", calls)
	}
	for value, want := range map[string]int{"web": 3, "db": 2, "": 1} {
		if got, err := s.ByIndex("app", "", value); err != nil || len(got) != want {
			t.Errorf("%q: found %d, %v, want %d", value, len(got), err, want)
		}
	}
}

// Rules: CCH-04
func TestAnIndexOfMetadataFollowsItsChangesAndNoOthers(t *testing.T) {
	s, sc := filled()
	calls := 0
	s.IndexMeta("app", func(labels kube.Labels, owners []kube.OwnerReference) []string {
		calls++
		app, _ := labels.Get("app")
		return []string{app, owners[0].UID}
	})
	version := func(n int, app, owner string) *pod {
		p := makePod("s", "a", n, owner)
		p.Labels = kube.Labels{{Key: "app", Value: app}}
		s.bring(sc, p, fmt.Sprint(n))
		return p
	}
	has := func(value string, want ...*pod) {
		t.Helper()
		if got, err := s.ByIndex("app", "", value); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: found %v, %v, want %v", value, got, err, want)
		}
	}
	version(1, "web", "rs")
	calls = 0
	second := version(2, "web", "rs")
	if calls != 0 {
		t.Errorf("the index was asked %d times for a version with the same labels and owners", calls)
	}
	has("web", second)
	has("rs", second)
	third := version(3, "db", "rs")
	has("web")
	has("db", third)
	has("rs", third)
	has("other")
	fourth := version(4, "db", "other")
	has("rs")
	has("db", fourth)
	has("other", fourth)
}
