package cache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// Rules: WL-03, WL-04, WL-06
func TestACutStreamedListLeavesTheMirrorAsItWasAndEndsInAPagedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply,
			frames(thenCut, added("a", "90", 9), added("x", "10", 9)),
			frames(thenEnd, added("a", "90", 9), added("x", "10", 9))).
			on(pagedList, list("95", object("a", "90", 9))).
			on(watching, frames(thenHold))
		m := startMirror(t, s, Options{})
		live.send(added("a", "5", 1), added("b", "9", 2), endMark("20"), errorEvent(410, "Expired"))
		m.heard()
		for len(s.seen(pagedList)) == 0 {
			m.wantContent("a=1", "b=2")
			m.wantHeard()
			wait(100 * time.Millisecond)
		}
		relists := s.seen(streamedList)[1:]
		if len(relists) != maxCuts {
			t.Errorf("%d streamed lists were tried, want %d", len(relists), maxCuts)
		}
		for _, r := range append(relists, s.last(pagedList)) {
			if rv := r.query.Get("resourceVersion"); rv != "20" {
				t.Errorf("%s from resource version %q, want 20 as before the cut", r.kind, rv)
			}
		}
		m.wantContent("a=9")
		m.wantHeard("MODIFIED a", "DELETED b unknown")
	})
}

// Rules: LST-04, LST-15, RFL-01, RFL-03, CCH-23
func TestARelistTellsWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := refuseStreams(newServer(t)).
			on(pagedList,
				list("20", object("a", "1", 1), object("b", "2", 1), object("c", "3", 1), object("d", "4", 1)),
				list("40", object("a", "1", 1), object("c", "33", 2), object("d@d-2", "34", 1), object("e", "35", 1))).
			on(watching, live.reply)
		m := startMirror(t, s, Options{})
		before, _, _ := m.Get(kube.Key{Namespace: "default", Name: "a"})
		m.heard()
		live.send(bookmark("22"), errorEvent(410, "Expired"))
		wait(time.Second)
		m.wantHeard("DELETED b unknown", "MODIFIED c", "DELETED d unknown", "ADDED d", "ADDED e")
		m.wantContent("a=1", "c=2", "d=1", "e=1")
		q := s.last(pagedList).query
		if q.Get("resourceVersion") != "22" || q.Get("resourceVersionMatch") != "NotOlderThan" {
			t.Errorf("relist %v, want not older than 22", q)
		}
		if after, _, _ := m.Get(kube.Key{Namespace: "default", Name: "a"}); after != before {
			t.Error("an object that did not change was replaced by a copy")
		}
	})
}

// Rules: LST-04
func TestARelistNeverGoesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := refuseStreams(newServer(t)).
			on(pagedList, list("20", object("a", "15", 2)), list("10", object("a", "5", 1)),
				list("30", object("a", "25", 3))).
			on(watching, live.reply)
		m := startMirror(t, s, Options{})
		m.heard()
		live.send(errorEvent(410, "Expired"))
		wait(10 * time.Second)
		m.wantHeard("MODIFIED a")
		m.wantContent("a=3")
		if n := m.state().Counters.Rewinds; n != 0 {
			t.Errorf("%d rewinds, want none: the laggard's list was not of the state of now", n)
		}
	})
}

// Rules: LST-05, LST-06, WL-08
func TestARelistThatCannotHaveItsVersionAsksForNowAtOnce(t *testing.T) {
	tooLarge := `{"kind":"Status","status":"Failure","code":504,"reason":"Timeout",` +
		`"message":"Timeout: Too large resource version: 20, current: 10"}`
	for name, refusal := range map[string]reply{
		"expired":         status(410, "Expired"),
		"gone":            status(410, "Gone"),
		"too large":       status(504, "Timeout", "ResourceVersionTooLarge"),
		"too large, 1.17": func(w http.ResponseWriter, r *http.Request) { http.Error(w, tooLarge, 504) },
	} {
		for _, kind := range []string{pagedList, streamedList} {
			t.Run(name+" "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					live := newFeed(t)
					s := newServer(t)
					if kind == pagedList {
						refuseStreams(s).on(pagedList, list("20"), refusal, list("30"), refusal, list("40")).
							on(watching, live.reply)
					} else {
						s.on(streamedList, frames(thenEnd, endMark("20")), refusal, frames(thenEnd, endMark("30")),
							refusal, frames(thenEnd, endMark("40"))).
							on(watching, live.reply)
					}
					startMirror(t, s, Options{})
					for range 2 { // two episodes, to see that the flag is cleared
						wait(2 * time.Second)
						live.send(errorEvent(410, "Expired"))
					}
					wait(30 * time.Second)
					var got []string
					all := s.seen(kind)
					for _, r := range all {
						got = append(got, r.query.Get("resourceVersion"))
					}
					if want := ",20,,30,"; strings.Join(got, ",") != want {
						t.Fatalf("lists from %q, want %q", strings.Join(got, ","), want)
					}
					if d := all[2].at.Sub(all[1].at); d > 0 {
						t.Errorf("asked again after %v, want at once", d)
					}
				})
			})
		}
	}
}

// Rules: LST-20, LST-22
func TestAListThatTakesMostAwayIsReportedBeforeAnybodyActsOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		var items []string
		for i := range 1000 {
			items = append(items, object(fmt.Sprintf("p%03d", i), "5", i))
		}
		null := func(w http.ResponseWriter, r *http.Request) {
			answer(w, r, http.StatusOK, `{"kind":"PodList","metadata":{"resourceVersion":"30"},"items":null}`)
		}
		s := refuseStreams(newServer(t)).on(pagedList, list("20", items...), null).on(watching, live.reply)
		m := startMirror(t, s, Options{})
		m.heard()
		reportedFirst := true
		m.OnChange(func(c Change[*pod]) {
			reportedFirst = reportedFirst && (c.Initial || m.logged("mass delete") == 1)
		})
		live.send(errorEvent(410, "Expired"))
		wait(time.Second)
		if n := len(m.heard()); n != 1000 {
			t.Errorf("%d deletes heard, want 1000", n)
		}
		if !reportedFirst || m.state().Counters.MassDeletes != 1 {
			t.Errorf("mass delete not reported ahead of the deletes, counted %d", m.state().Counters.MassDeletes)
		}
		m.wantContent()
	})
}
