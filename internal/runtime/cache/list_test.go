package cache

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// refuseStreams makes a server that knows paged lists only.
func refuseStreams(s *server) *server {
	s.refusesStreams = true
	return s.on(streamedList, status(422, "Invalid"))
}

// Rules: LST-02
func TestAListWithoutAVersionIsNoPlaceToWatchFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := refuseStreams(newServer(t)).on(pagedList, list("", object("a", "5", 1)))
		m := startMirror(t, s, Options{}) // a watch would be an unexpected request
		wait(10 * time.Minute)
		if m.Synced() {
			t.Error("synced by a list without a resource version")
		}
		if !strings.Contains(m.state().Problem, "no resource version") {
			t.Errorf("problem %q", m.state().Problem)
		}
		if n := len(s.seen(pagedList)); n > 60 {
			t.Errorf("%d lists in 10 minutes", n)
		}
	})
}

// Rules: LST-19
func TestOneUndecodableItemDoesNotKeepTheRestFromSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		items := []string{object("bad", "5", `"many"`)}
		for i := range 99 {
			items = append(items, object(fmt.Sprintf("p%02d", i), "5", i))
		}
		s := refuseStreams(newServer(t)).on(pagedList, list("20", items...),
			list("30", object("bad", "25", `"more"`), object("p00", "26", `"x"`))).
			on(watching, live.reply)
		m := startMirror(t, s, Options{})
		if !m.Synced() || m.state().Objects != 99 || m.state().Counters.Undecodable != 1 {
			t.Errorf("state %+v, want 99 objects, synced, 1 undecodable", m.state())
		}
		_, _, err := m.Get(kube.Key{Namespace: "default", Name: "bad"})
		if Unserved(err, Undecodable) == nil {
			t.Errorf("get of the undecodable object: %v, want Undecodable, not a silent absence", err)
		}
		if q := m.Quarantined(); len(q) != 1 || q[0].Key.Name != "bad" {
			t.Errorf("quarantine holds %v", q)
		}
		live.send(errorEvent(410, "Expired"))
		wait(time.Second)
		m.wantContent("p00=0") // the good copy stays, and what is really gone is gone
		if q := m.Quarantined(); len(q) != 2 {
			t.Errorf("quarantine holds %v", q)
		}
		live.send(modified("p00", "31", 7), modified("bad", "32", 8))
		m.wantContent("bad=8", "p00=7")
		if q := m.Quarantined(); len(q) != 0 {
			t.Errorf("quarantine holds %v after both were mended", q)
		}
	})
}

// Rules: LST-21, RFL-12
func TestStopEndsAStalledList(t *testing.T) {
	stalled := func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		page := inTurn(listObject("30", object("a", "1", 1)))
		fmt.Fprint(w, page[:len(page)-5])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	synctest.Test(t, func(t *testing.T) {
		m := startMirror(t, refuseStreams(newServer(t)).on(pagedList, stalled), Options{})
		began := time.Now()
		m.stop()
		if d := time.Since(began); d > 0 {
			t.Errorf("stopping took %v", d)
		}
	})
}

// Rules: LST-24
func TestARequestTheServerCallsWrongIsRepeatedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, status(400, "BadRequest")).on(pagedList, status(400, "BadRequest"))
		m := startMirror(t, s, Options{FieldSelector: "spec.foo=1"})
		wait(20 * time.Minute)
		if n := len(s.seen()); n > 25 {
			t.Errorf("%d requests in 20 minutes", n)
		}
		if p := m.state().Problem; !strings.HasPrefix(p, "400 BadRequest: list pods") {
			t.Errorf("problem %q", p)
		}
	})
}

// Rules: LST-25
func TestAnAnswerOfAnotherKindLeavesTheMirrorAlone(t *testing.T) {
	for name, wrong := range map[string]reply{
		"page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Please log in</html>") },
		"table": func(w http.ResponseWriter, r *http.Request) {
			answer(w, r, http.StatusOK, `{"kind":"Table","metadata":{"resourceVersion":"99"},"rows":[]}`)
		},
		"other": func(w http.ResponseWriter, r *http.Request) {
			answer(w, r, http.StatusOK, `{"kind":"NodeList","metadata":{"resourceVersion":"99"},"items":[]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				live := newFeed(t)
				s := refuseStreams(newServer(t)).on(pagedList, list("20", object("a", "1", 1)), wrong).
					on(watching, live.reply)
				m := startMirror(t, s, Options{})
				m.heard()
				live.send(errorEvent(410, "Expired"))
				wait(time.Minute)
				m.wantHeard()
				m.wantContent("a=1")
				if m.state().Problem == "" {
					t.Error("no problem is reported")
				}
			})
		})
	}
}

// Rules: LST-26
func TestOfARepeatedKeyInAListTheLastCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := refuseStreams(newServer(t)).on(pagedList, list("20", object("a", "1", 1), object("a", "2", 2))).
			on(watching, frames(thenHold))
		m := startMirror(t, s, Options{})
		m.wantContent("a=2")
		m.wantHeard("ADDED a initial")
	})
}

// Rules: RFL-14
func TestOnlySoManyListsAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int
		slow := func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			frames(thenEnd, added("a", "1", 1), "pause 1s")(w, r)
			mu.Lock()
			now--
			mu.Unlock()
			frames(thenHold, endMark("5"))(w, r)
		}
		s := newServer(t).on(streamedList, slow)
		limit := newLimiter(3)
		var all []*mirror
		for range 12 {
			all = append(all, startMirror(t, s, Options{lists: limit}))
		}
		wait(4 * time.Second)
		for i, m := range all {
			if !m.Synced() {
				t.Errorf("mirror %d is not synced", i)
			}
		}
		if most != 3 {
			t.Errorf("%d lists at a time, want 3", most)
		}
	})
}

// Rules: LST-19
func TestAGoodVersionBeforeABadOneInTheInitialEventsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		m := startMirror(t, s, Options{})
		live.send(added("a", "5", 1), endMark("20"), errorEvent(410, "Expired"))
		wait(time.Second)
		live.send(added("a", "25", 2), event("MODIFIED", object("a", "26", `"x"`)), endMark("30"))
		m.wantContent("a=2")
		m.wantHeard("ADDED a initial", "MODIFIED a")
		if q := m.Quarantined(); len(q) != 1 || q[0].ResourceVersion != "26" {
			t.Errorf("quarantine holds %v, want a at version 26", q)
		}
	})
}
