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

// has makes these the objects of the server of withMirrors, at a version, for all lists from now on.
func has(s *server, f *feed, rv string, items ...string) {
	s.on(pagedList, func(w http.ResponseWriter, r *http.Request) {
		list(rv, slices.DeleteFunc(slices.Clone(items), func(item string) bool {
			namespace, one := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
			namespace, _, _ = strings.Cut(namespace, "/")
			return one && !strings.Contains(item, fmt.Sprintf(`"namespace":%q`, namespace))
		})...)(w, r)
	})
	if s.refusesStreams {
		return
	}
	s.on(streamedList, func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		for _, item := range items {
			fmt.Fprint(w, event("ADDED", item))
		}
		fmt.Fprint(w, endMark(rv))
		f.reply(w, r)
	})
}

// readmits is how long a namespace takes at most that is measured after its first pause, and listed.
const readmits = firstPause + 2*time.Second

func TestANamespaceThatFitsAgainIsHeldAgain(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		var returned []string
		m.OnReturn(func(namespace string) { returned = append(returned, namespace) })
		has(s, f, "700", podOf("big", "p001", 2, 2), podOf("big", "p002", 700, 2), podOf("small", "s", 101, 1))
		for i := range 100 {
			if i != 1 && i != 2 && i != 3 {
				f.send(event("DELETED", podOf("big", fmt.Sprintf("p%03d", i), 501+i, 2)))
			}
		}
		m.heard()
		lists := len(s.seen(pagedList, streamedList))
		wait(firstPause / 2)
		if _, err := m.List("big"); !isShed(err, OverBudget) || len(s.seen(pagedList, streamedList)) > lists {
			t.Errorf("at once: %v, %d lists", err, len(s.seen(pagedList, streamedList))-lists)
		}
		wait(readmits - firstPause/2)
		got := s.seen(pagedList, streamedList)[lists:]
		if len(got) < 2 || got[0].path != "/api/v1/namespaces/big/pods" || got[1].path != "/api/v1/pods" {
			t.Fatalf("requests %+v, want a measurement of the namespace and a list of the scope", got)
		}
		m.wantHeard("ADDED p001 initial", "ADDED p002 initial", "DELETED p003 unknown")
		if all, err := m.List("big"); err != nil || len(all) != 2 {
			t.Errorf("%d pods, %v", len(all), err)
		}
		if !slices.Equal(returned, []string{"big"}) {
			t.Errorf("returned %v", returned)
		}
		if n := m.state().Counters.Lists["readmitted"]; n != 1 {
			t.Errorf("%d lists are counted", n)
		}
		f.send(event("MODIFIED", podOf("big", "p001", 701, 2)), event("DELETED", podOf("big", "p002", 702, 2)))
		m.wantHeard("MODIFIED p001", "DELETED p002")
	})
}

// A measurement holds nothing, and reads no more than there is room for.
func TestANamespaceThatDoesNotFitIsMeasuredLessAndLessOften(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		has(s, f, "500", items...)
		lists := len(s.seen(pagedList, streamedList))
		wait(20 * time.Minute)
		// After 1, 2 and 4 minutes, and every 5 minutes then.
		if n := len(s.seen(pagedList, streamedList)) - lists; n < 4 || n > 6 {
			t.Errorf("%d lists in 20 minutes", n)
		}
		if _, err := m.List("big"); !isShed(err, OverBudget) || m.Bytes() > 100<<10 {
			t.Errorf("%v, %d bytes", err, m.Bytes())
		}
		if m.state().Counters.Lists["readmitted"] > 0 {
			t.Error("the scope was listed for a namespace that does not fit")
		}
	})
}

// A tenant who deletes what was too much is worked on within two minutes, however long it was there.
func TestANamespaceThatBecomesSmallerIsHeldSoon(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		has(s, f, "500", items...)
		wait(20 * time.Minute) // it is measured every five minutes by now
		has(s, f, "700", append(slices.Clone(items[:20]), podOf("small", "s", 101, 1))...)
		for i := 20; i < 100; i++ {
			f.send(event("DELETED", podOf("big", fmt.Sprintf("p%03d", i), 601+i, 2)))
		}
		wait(2 * readmits)
		if all, err := m.List("big"); err != nil || len(all) != 20 {
			t.Errorf("%d pods, %v", len(all), err)
		}
	})
}

// Objects that come and go many times a second, or a rollout that replaces large ones, must not have the scope listed
// each time.
func TestANamespaceThatComesAndGoesIsListedRarely(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		rv := 1000
		lists := len(s.seen(pagedList, streamedList))
		for range 60 { // half an hour
			has(s, f, fmt.Sprint(rv), append(slices.Clone(items[:20]), podOf("small", "s", 101, 1))...)
			wait(30 * time.Second)
			for i := 20; i < 100; i++ {
				rv++
				f.send(event("ADDED", podOf("big", fmt.Sprintf("p%03d", i), rv, 2)))
			}
			if _, err := m.List("big"); !isShed(err, OverBudget) {
				t.Fatalf("with all: %v", err)
			}
		}
		if n := m.state().Counters.Lists["readmitted"]; n < 2 || n > 8 {
			t.Errorf("the scope was listed %d times in half an hour", n)
		}
		if n := len(s.seen(pagedList, streamedList)) - lists; n > 20 {
			t.Errorf("%d lists in half an hour", n)
		}
	})
}

// Another tenant's objects may not be left out for those of a namespace that turns out not to fit while it is listed.
func TestANamespaceThatGrowsWhileItIsListedIsOutAgain(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		has(s, f, "500", items...)
		s.on(pagedList, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "namespaces") { // the measurement is of another moment
				list("500", items[:5]...)(w, r)
				return
			}
			list("500", items...)(w, r)
		})
		m.heard()
		wait(readmits)
		if n := m.state().Counters.Lists["readmitted"]; n != 1 {
			t.Errorf("listed %d times", n)
		}
		if _, err := m.List("big"); !isShed(err, OverBudget) {
			t.Errorf("the namespace: %v", err)
		}
		if _, ok, err := m.Get(kube.Key{Namespace: "small", Name: "s"}); !ok || err != nil {
			t.Errorf("the other one: %t, %v", ok, err)
		}
		m.wantHeard()
		if got := m.account.shares["big"]; m.Bytes() > 100<<10 || got != nil && (got.trial || got.listed > 0) {
			t.Errorf("%d bytes, the account has %+v", m.Bytes(), got)
		}
	})
}

// What a namespace would take does not count the objects that would not be held anyway.
func TestANamespaceIsHeldAgainAlsoWithAnObjectThatIsTooLarge(t *testing.T) {
	items, events := floodOfPods(100, 2)
	large := podOf("big", "large", 200, 300)
	items, events = append(items, large), append(events, event("ADDED", large))
	o := Options{MaxBytes: 100 << 10, MaxObjectBytes: 64 << 10}
	withMirrors(t, items, events, o, func(t *testing.T, m *mirror, s *server, f *feed) {
		if sheds := m.Sheds(); len(sheds) != 1 || !sheds[0].Whole || sheds[0].Bytes < 300<<10 {
			t.Fatalf("%+v is shed, want the namespace with all that it has", sheds)
		}
		has(s, f, "700", podOf("big", "p001", 2, 2), podOf("big", "large", 501, 300))
		wait(readmits)
		if _, ok, err := m.Get(kube.Key{Namespace: "big", Name: "p001"}); !ok || err != nil {
			t.Errorf("the pod that fits: %t, %v", ok, err)
		}
		if err := third(m.Get(kube.Key{Namespace: "big", Name: "large"})); !isShed(err, TooLarge) {
			t.Errorf("the one that is too large: %v", err)
		}
	})
}

// A namespace that fits does not wait for a watch that was just opened, or that ends of itself.
func TestANamespaceIsListedAlsoWhenTheWatchHasEnded(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		has(s, f, "700", items[:20]...)
		s.on(pagedList, func(w http.ResponseWriter, r *http.Request) {
			select {
			case f.in <- thenEnd: // while it is measured
				time.Sleep(time.Second)
			default:
			}
			list("700", items[:20]...)(w, r)
		})
		wait(readmits + 5*time.Second)
		if all, err := m.List("big"); err != nil || len(all) != 20 {
			t.Errorf("%d pods, %v", len(all), err)
		}
	})
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
		has(s, f, "700", podOf("big", "p001", 2, 2), podOf("small", "s", 101, 1))
		wait(2 * readmits)
		if all, err := m.List("big"); err != nil || len(all) != 1 || returned != 1 {
			t.Errorf("%d pods, %v, returned %d times", len(all), err, returned)
		}
		if st := m.state(); st.Counters.Crashes != 1 || !st.Synced {
			t.Errorf("state %+v", st)
		}
	})
}

func TestANamespaceThatLeavesWhileItIsListedTakesNothing(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s := New[*pod](Options{Resource: pods, Namespaces: []string{"a", "b"}, MaxBytes: 100 << 10})
	sc := s.scopes[0]
	s.replace(sc, content[*pod]{objects: table[*pod]{}, rv: "2"}, func([]Change[*pod], int) {})
	s.shedNamespace("a", victim{})
	s.try("a")
	place, _ := newLimiter(1).acquire(t.Context())
	defer place.release()
	l := newReflector(s, sc).newListing(state[*pod]{}, place)
	p := &pod{}
	p.Namespace, p.Name, p.UID, p.ResourceVersion = "a", "p", "u", "3"
	l.add(p, kube.Part{})
	if got := s.account.shares["a"]; got == nil || !got.trial || got.listed == 0 {
		t.Fatalf("the account of the list has %+v", got)
	}
	s.setNamespaces([]string{"b"})
	l.close()
	if got := s.account.shares["a"]; got != nil || s.Bytes() != 0 || s.shed["a"] != nil {
		t.Errorf("it takes %+v of %d bytes", got, s.Bytes())
	}
}

// A list that began before a namespace was found to fit has brought some of the objects as keys alone.
func TestAListThatBeganBeforeTheTrialDoesNotReadmit(t *testing.T) {
	inOneTurn(t, "no server is in it")
	s, sc := budgeted()
	place, _ := newLimiter(1).acquire(t.Context())
	defer place.release()
	s.shedNamespace("n0", victim{})
	r := newReflector(s, sc)
	l := r.newListing(state[*pod]{}, place)
	of := func(name string) *pod {
		p := &pod{}
		p.Namespace, p.Name, p.UID, p.ResourceVersion = "n0", name, "u-"+name, "3"
		return p
	}
	l.add(of("first"), kube.Part{Skimmed: true, Size: 100})
	s.try("n0")
	l.add(of("second"), kube.Part{})
	l.content.rv = "3"
	s.replace(sc, l.content, func([]Change[*pod], int) {})
	l.close()
	if _, err := s.List("n0"); !isShed(err, OverBudget) || s.onTrial(sc) {
		t.Errorf("%v, on trial %t", err, s.onTrial(sc))
	}
	if due, ok := s.nextDue(); !ok || time.Until(due) > firstPause {
		t.Errorf("the next try is at %v, %t, want within %v", due, ok, firstPause)
	}
	s.try("n0")
	l = r.newListing(state[*pod]{}, place)
	l.add(of("first"), kube.Part{})
	l.add(of("second"), kube.Part{})
	l.content.rv = "4"
	s.replace(sc, l.content, func([]Change[*pod], int) {})
	l.close()
	if all, err := s.List("n0"); err != nil || len(all) != 2 || s.onTrial(sc) {
		t.Errorf("%d objects, %v, on trial %t", len(all), err, s.onTrial(sc))
	}
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
		if _, ok, err := s.Get(k); !ok && Unheld(err) == nil {
			t.Errorf("%s: it is missing: %v", heard, err)
		}
	})
	s.put(sc, of("4"), kube.Part{Skimmed: true, Size: 100}, kube.Modified, "4")
	if _, err := s.List("a"); !isShed(err, OverBudget) || heard != "SHED" {
		t.Errorf("%v, heard %q", err, heard)
	}
}
