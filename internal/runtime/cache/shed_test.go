package cache

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// podOf is a pod of some KiB in a namespace, with the uid "NAMESPACE-NAME".
func podOf(namespace, name string, rv, kib int) string {
	label := ""
	if kib > 0 {
		label = fmt.Sprintf(`,"labels":{"long":"%0*d"}`, kib<<10, rv)
	}
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"resourceVersion":"%d",`+
		`"uid":"%s-%s"%s},"spec":{"priority":%d}}`, name, namespace, rv, namespace, name, label, rv)
}

// floodOfPods are n pods of the namespace "big", of some KiB each, and one of "small" among them.
func floodOfPods(n, kib int) (items, events []string) {
	for i := range n {
		items = append(items, podOf("big", fmt.Sprintf("p%03d", i), i+1, kib))
	}
	items = append(items, podOf("small", "s", n+1, 1))
	for _, item := range items {
		events = append(events, event("ADDED", item))
	}
	return items, events
}

// withMirrors runs a test with a mirror that has read the same pods in a streamed list, in pages, and from a watch.
func withMirrors(t *testing.T, items, events []string, o Options, test func(t *testing.T, m *mirror, s *server,
	f *feed)) {
	for name, serve := range map[string]func(s *server, f *feed){
		"streamed": func(s *server, f *feed) {
			s.on(streamedList, func(w http.ResponseWriter, r *http.Request) {
				frames(thenEnd, append(slices.Clone(events), endMark("500"))...)(w, r)
			}).on(watching, f.reply)
		},
		"paged": func(s *server, f *feed) {
			refuseStreams(s).on(pagedList, list("500", items...)).on(watching, f.reply)
		},
		"watched": func(s *server, f *feed) {
			s.on(streamedList, frames(thenEnd, endMark("0"))).on(watching, f.reply)
			go func() {
				for _, line := range append(slices.Clone(events), bookmark("500")) {
					f.in <- line
				}
			}()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(name)
			s, f := newServer(t), newFeed(t)
			serve(s, f)
			s.on(probing, list("99999"))
			m := startMirror(t, s, o)
			wait(3 * time.Second)
			test(t, m, s, f)
		})
	}
}

func isShed(err error, reason string) bool {
	e := Unheld(err)
	return e != nil && e.Reason == reason
}

func TestTheNamespaceThatTakesMostIsShedAndTheOthersGoOn(t *testing.T) {
	items, events := floodOfPods(100, 2)
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		if st := m.state(); !st.Synced || st.Err != nil {
			t.Fatalf("state %+v, want it synced and in order", st)
		}
		if _, ok, err := m.Get(kube.Key{Namespace: "small", Name: "s"}); !ok || err != nil {
			t.Errorf("a pod of another namespace: %t, %v", ok, err)
		}
		for what, err := range map[string]error{
			"get":     third(m.Get(kube.Key{Namespace: "big", Name: "p001"})),
			"list":    second(m.List("big")),
			"owner":   second(m.ByOwner("big", "u")),
			"count":   second(m.CountByOwner("big", "u")),
			"unknown": third(m.Get(kube.Key{Namespace: "big", Name: "nobody knows"})),
		} {
			if !isShed(err, OverBudget) || !strings.Contains(err.Error(), "pods of namespace big take") ||
				!strings.Contains(err.Error(), "may take 100 KiB") {
				t.Errorf("%s: %v, want that it is over the budget", what, err)
			}
		}
		if all, err := m.List(""); err != nil || len(all) != 1 {
			t.Errorf("%d pods of all, %v, want the one that is held", len(all), err)
		}
		if used := m.Bytes(); used > 100<<10 {
			t.Errorf("%d bytes are used", used)
		}
		if n := m.logged("over its memory budget"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		told := map[string]string{}
		for _, h := range m.heard() {
			kind, name, _ := strings.Cut(strings.TrimSuffix(h, " initial"), " ")
			told[name] = kind
		}
		for i := range 100 {
			if name := fmt.Sprintf("p%03d", i); told[name] != "SHED" {
				t.Fatalf("of %s the handlers heard %q last", name, told[name])
			}
		}
		if told["s"] != "ADDED" {
			t.Errorf("handlers heard %v of s", told["s"])
		}
		f.send(event("MODIFIED", podOf("small", "s", 501, 1)), event("MODIFIED", podOf("big", "p001", 502, 2)))
		m.wantHeard("MODIFIED s") // a change of what is shed is of no interest
		has(s, f, "502", items...)
		wait(time.Hour)
		if n := m.state().Counters.Lists["readmitted"]; n > 0 {
			t.Errorf("%d lists for a namespace that does not fit", n)
		}
	})
}

// Who lists a namespace has to hear that the list is whole again.
func TestWhoListsANamespaceHearsThatNothingOfItIsTooLargeAnyMore(t *testing.T) {
	items, events := floodOfPods(2, 1)
	o := Options{MaxBytes: 1 << 30, MaxObjectBytes: 16 << 10}
	withMirrors(t, items, events, o, func(t *testing.T, m *mirror, s *server, f *feed) {
		returned := 0
		m.OnReturn(func(namespace string) {
			if namespace == "big" {
				returned++
			}
		})
		f.send(event("ADDED", podOf("big", "a", 501, 20)), event("ADDED", podOf("big", "b", 502, 20)),
			event("MODIFIED", podOf("big", "a", 503, 1)))
		if returned > 0 {
			t.Error("heard of it while one is too large")
		}
		f.send(event("DELETED", podOf("big", "b", 504, 20)))
		wait(2 * completeAfter)
		if _, err := m.List("big"); err != nil || returned != 1 {
			t.Errorf("heard of it %d times, %v", returned, err)
		}
		for i := range 50 { // a second in all
			f.send(event("MODIFIED", podOf("big", "a", 601+2*i, 20)),
				event("MODIFIED", podOf("big", "a", 602+2*i, 1)))
			wait(20 * time.Millisecond)
		}
		wait(2 * completeAfter)
		if returned < 2 || returned > 4 {
			t.Errorf("heard of it %d times, want once more or a few times for one that comes and goes", returned)
		}
	})
}

func TestAnObjectThatIsTooLargeIsShedAlone(t *testing.T) {
	items, events := floodOfPods(2, 1)
	large := podOf("big", "large", 50, 300)
	items, events = append(items, large), append(events, event("ADDED", large))
	o := Options{MaxBytes: 1 << 30, MaxObjectBytes: 256 << 10}
	withMirrors(t, items, events, o, func(t *testing.T, m *mirror, s *server, f *feed) {
		_, _, err := m.Get(kube.Key{Namespace: "big", Name: "large"})
		if !isShed(err, TooLarge) || !strings.Contains(err.Error(), "Pod big/large takes 30") ||
			!strings.Contains(err.Error(), "one object may take 256 KiB") {
			t.Errorf("get: %v", err)
		}
		if _, ok, err := m.Get(kube.Key{Namespace: "big", Name: "p001"}); !ok || err != nil {
			t.Errorf("another one: %t, %v", ok, err)
		}
		if _, err := m.List("big"); !isShed(err, TooLarge) {
			t.Errorf("list: %v, want that something is missing", err)
		}
		if _, err := m.ByOwner("big", "u"); err != nil {
			t.Errorf("of another owner: %v", err)
		}
		m.heard()
		m.OnChange(m.hear)() // of one who joins later
		m.wantHeard("SHED large initial", "ADDED p000 initial", "ADDED p001 initial", "ADDED s initial")
		f.send(event("MODIFIED", podOf("big", "large", 501, 299)))
		m.wantHeard() // its metadata is too long as well
		f.send(event("MODIFIED", podOf("big", "large", 502, 1)))
		m.wantHeard("ADDED large")
		if all, err := m.List("big"); err != nil || len(all) != 3 {
			t.Errorf("%d pods, %v", len(all), err)
		}
		f.send(event("MODIFIED", podOf("big", "large", 503, 300)))
		m.wantHeard("SHED large")
		f.send(event("DELETED", podOf("big", "large", 504, 300)))
		m.wantHeard("DELETED large")
		if all, err := m.List("big"); err != nil || len(all) != 2 {
			t.Errorf("%d pods, %v", len(all), err)
		}
	})
}

func TestMirrorsThatAreLargeTogetherShedTheNamespaceThatTakesMostOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100 << 10
		var all memory
		mirrors := map[string]*mirror{}
		for _, of := range []struct {
			name       string
			big, other int // pods of 1 KiB
		}{{"first", 60, 10}, {"second", 50, 20}, {"third", 0, 30}} {
			var events []string
			for i := range of.big + of.other {
				namespace := "big"
				if i >= of.big {
					namespace = fmt.Sprint("other", i%3)
				}
				events = append(events, event("ADDED", podOf(namespace, fmt.Sprint("p", i), i+1, 1)))
			}
			s := newServer(t).on(streamedList, frames(thenHold, append(events, endMark("500"))...))
			mirrors[of.name] = startMirror(t, s, Options{MaxBytes: most, memory: &all})
			wait(time.Second)
		}
		if _, err := mirrors["first"].List("big"); !isShed(err, OverBudget) {
			t.Errorf("the first mirror, where it takes most: %v", err)
		}
		for name, m := range mirrors {
			for i := range 3 {
				if _, err := m.List(fmt.Sprint("other", i)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if st := m.state(); !st.Synced || st.Err != nil {
				t.Errorf("%s: state %+v", name, st)
			}
		}
		var sum int64
		for _, m := range mirrors {
			sum += m.Bytes()
		}
		if all.taken != sum || sum > most+most/2 {
			t.Errorf("%d bytes are counted, the mirrors take %d", all.taken, sum)
		}
	})
}

func TestKeysAreBounded(t *testing.T) {
	inOneTurn(t, "it is the same in both")
	synctest.Test(t, func(t *testing.T) {
		var events []string
		for i := range 2 * maxKeys {
			events = append(events, event("ADDED", podOf("big", fmt.Sprint("p", i), i+1, 0)))
		}
		events = append(events, event("ADDED", podOf("small", "s", 20_001, 0)))
		s := newServer(t).on(streamedList, frames(thenHold, append(events, endMark("20001"))...))
		m := startMirror(t, s, Options{MaxBytes: 1 << 20})
		wait(time.Second)
		if sh := m.shed["big"]; len(sh.keys.byName) > maxKeys || sh.keys.len() != 2*maxKeys {
			t.Errorf("%d keys of %d objects", len(sh.keys.byName), sh.keys.len())
		}
		if _, ok, err := m.Get(kube.Key{Namespace: "small", Name: "s"}); !ok || err != nil {
			t.Errorf("another namespace: %t, %v", ok, err)
		}
	})
}

func TestAnObjectOfWhichNotEvenTheKeyIsKnownMayBeThere(t *testing.T) {
	inOneTurn(t, "it is the same in both")
	synctest.Test(t, func(t *testing.T) {
		of := func(kind string, i, rv, kib int) string {
			return event(kind, podOf("big", fmt.Sprint("p", i), rv, kib))
		}
		var events []string
		for i := range maxKeys + 3 {
			events = append(events, of("ADDED", i, i+1, 1))
		}
		f := newFeed(t)
		s := newServer(t).on(streamedList, frames(thenEnd, append(events, endMark("6000"))...)).on(watching, f.reply).
			on(probing, list("6001"))
		m := startMirror(t, s, Options{MaxBytes: 1 << 30, MaxObjectBytes: 1 << 10})
		wait(time.Second)
		last := kube.Key{Namespace: "big", Name: fmt.Sprint("p", maxKeys)}
		wantMore := func(what string, more int) {
			t.Helper()
			all := m.Sheds()
			if _, _, err := m.Get(last); !isShed(err, TooLarge) || len(all) != 1 || m.shed["big"].keys.more != more {
				t.Errorf("%s: %v, %d of %+v, want %d", what, err, m.shed["big"].keys.more, all, more)
			}
		}
		wantMore("at first", 3)
		f.send(of("MODIFIED", maxKeys+1, 6001, 1))
		wantMore("one of them has changed", 3)
		f.send(of("MODIFIED", maxKeys+2, 6002, 0))
		wantMore("one of them is small", 2)
		for i := range maxKeys {
			f.send(of("DELETED", i, 6003, 1))
		}
		wantMore("all that are known have gone", 2)
		if _, _, err := m.ListKnown("big"); !isShed(err, TooLarge) {
			t.Errorf("listed: %v", err)
		}
		f.send(of("MODIFIED", maxKeys+1, 6004, 1))
		wantMore("one of them is known", 1)
		f.send(of("DELETED", maxKeys, 6005, 1))
		if _, ok, err := m.Get(last); ok || err != nil {
			t.Errorf("once it is deleted: %t, %v", ok, err)
		}
	})
}

func TestObjectsThatDoNotDecodeTakeMemoryToo(t *testing.T) {
	var items, events []string
	for i := range 2_000 {
		items = append(items, object(fmt.Sprint("p", i), fmt.Sprint(i+1), `"x"`))
		events = append(events, event("ADDED", items[i]))
	}
	withMirrors(t, items, events, Options{MaxBytes: 100 << 10}, func(t *testing.T, m *mirror, s *server, f *feed) {
		if _, err := m.List("default"); !isShed(err, OverBudget) || m.state().Quarantined > 0 {
			t.Errorf("%d in quarantine, %v", m.state().Quarantined, err)
		}
	})
}

// bring is put of an object that was read as a whole.
func (s *Store[T]) bring(sc *scope, obj T, rv string) { s.put(sc, obj, kube.Part{}, kube.Modified, rv) }

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }
