package cache

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/kube"
)

// refuseStreams makes a server that knows paged lists only.
func refuseStreams(s *server) *server {
	return s.on(streamedList, status(422, "Invalid"))
}

// Rules: WL-01, WL-04, WL-05, WL-12, LST-03, RFL-04, WCH-21
func TestOneRequestListsAndThenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		m := startMirror(t, s, Options{LabelSelector: "app=web", FieldSelector: "spec.nodeName=n1"})
		live.send(added("a", "5", 1), added("b", "9", 2), added("c", "7", 3))
		if m.Synced() || m.state().Synced {
			t.Error("synced before the end of the initial events")
		}
		m.wantHeard()
		live.send(endMark("20"))
		if !m.Synced() {
			t.Error("not synced after the end of the initial events")
		}
		m.wantHeard("ADDED a initial", "ADDED b initial", "ADDED c initial")
		if rv := m.state().ResourceVersion; rv != "20" {
			t.Errorf("resume point %s, want that of the end marker, 20", rv)
		}
		live.send(modified("a", "21", 4))
		m.wantContent("a=4", "b=2", "c=3")
		m.wantHeard("MODIFIED a")

		if n := len(s.seen()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		q := s.last(streamedList).query
		seconds, err := time.ParseDuration(q.Get("timeoutSeconds") + "s")
		if err != nil || seconds < 5*time.Minute || seconds > 10*time.Minute {
			t.Errorf("timeoutSeconds=%s, want 300 to 600", q.Get("timeoutSeconds"))
		}
		q.Del("timeoutSeconds")
		want := "allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Dn1&labelSelector=app%3Dweb&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
		if q.Encode() != want {
			t.Errorf("query %s\nwant  %s", q.Encode(), want)
		}
	})
}

// Rules: WL-02
func TestAnOrdinaryBookmarkDoesNotEndTheInitialEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		m := startMirror(t, s, Options{})
		unmarked := event("BOOKMARK", `{"metadata":{"resourceVersion":"30","annotations":{"k8s.io/initial-events-end":"false"}}}`)
		live.send(added("a", "5", 1), bookmark("20"), unmarked, added("b", "9", 2))
		if m.Synced() {
			t.Error("synced by a bookmark that does not end the initial events")
		}
		live.send(endMark("21"))
		m.wantContent("a=1", "b=2")
	})
}

// Rules: RFL-06
func TestAnEmptyCollectionSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startMirror(t, newServer(t).on(streamedList, frames(thenHold, endMark("7"))), Options{})
		if err := m.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		m.wantContent()
		m.wantHeard()
	})
}

// Rules: WL-10
func TestChangesAmongTheInitialEventsApplyToThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold,
			added("a", "5", 1), modified("a", "11", 2), added("b", "6", 1), deleted("b", "12", 1), modified("c", "13", 3), endMark("20")))
		m := startMirror(t, s, Options{})
		m.wantContent("a=2", "c=3")
		m.wantHeard("ADDED a initial", "ADDED c initial")
	})
}

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

// Rules: WL-06
func TestAStreamedListThatNeverEndsItsInitialEventsStillSyncsTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenEnd, added("a", "90", 1))).
			on(pagedList, list("95", object("a", "90", 1))).on(watching, frames(thenHold))
		m := startMirror(t, s, Options{})
		wait(10 * time.Second)
		m.wantContent("a=1")
		for _, r := range s.seen(streamedList, pagedList) {
			if r.query.Has("resourceVersion") {
				t.Errorf("%s from resource version %q, want none", r.kind, r.query.Get("resourceVersion"))
			}
		}
	})
}

// Rules: WL-07, LST-01, LST-03
func TestAServerThatRefusesStreamedListsIsAskedAgainLater(t *testing.T) {
	for _, code := range []int{400, 405, 422} {
		synctest.Test(t, func(t *testing.T) {
			live := newFeed(t)
			s := newServer(t).on(streamedList, status(code, "Refused")).
				on(pagedList, list("20", object("a", "5", 1), object("b", "9", 2), object("c", "7", 3))).
				on(watching, live.reply).on(probing, list("20"))
			m := startMirror(t, s, Options{})
			m.wantContent("a=1", "b=2", "c=3")
			if q := s.seen(pagedList)[0].query; q.Has("resourceVersion") || q.Has("resourceVersionMatch") {
				t.Errorf("first list %v, want no resource version", q)
			}
			if got := s.seen(watching)[0].query.Get("resourceVersion"); got != "20" {
				t.Errorf("watch from %s, want 20, the version of the list", got)
			}
			live.send(errorEvent(410, "Expired"))
			wait(time.Minute)
			if streamed, paged := len(s.seen(streamedList)), len(s.seen(pagedList)); streamed != 1 || paged != 2 {
				t.Errorf("%d: %d streamed and %d paged lists soon after the refusal, want 1 and 2", code, streamed, paged)
			}
			wait(10 * time.Minute)
			live.send(errorEvent(410, "Expired"))
			wait(time.Minute)
			if n := len(s.seen(streamedList)); n != 2 {
				t.Errorf("%d: %d streamed lists after 11 minutes, want 2", code, n)
			}
		})
	}
}

// Rules: WL-08
func TestPassingTroubleDoesNotChangeTheWayOfListing(t *testing.T) {
	for name, first := range map[string]reply{
		"busy":      status(429, "TooManyRequests"),
		"starting":  status(503, "ServiceUnavailable"),
		"cut":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"expired":   status(410, "Expired"),
		"too large": status(504, "Timeout", "ResourceVersionTooLarge"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t).on(streamedList, first, first, first, first, first, frames(thenHold, endMark("20")))
				m := startMirror(t, s, Options{})
				wait(2 * time.Minute)
				if !m.Synced() {
					t.Error("not synced")
				}
			})
		})
	}
}

// Rules: WL-09
func TestAServerThatIgnoresTheParameterIsListedInPages(t *testing.T) {
	busy := []string{added("a", "5", 1)}
	for i := range 100 {
		busy = append(busy, "pause 5s", modified("a", fmt.Sprint(10+i), 1))
	}
	for name, stream := range map[string]reply{
		"mute":         frames(thenHold),
		"quiet":        frames(thenHold, added("a", "5", 1)),
		"bookmarks":    frames(thenHold, added("a", "5", 1), "pause 20s", bookmark("6"), "pause 20s", bookmark("7")),
		"never silent": frames(thenHold, busy...),
		"no headers":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t).on(streamedList, stream).on(pagedList, list("200", object("a", "5", 1))).on(watching, frames(thenHold))
				m := startMirror(t, s, Options{})
				wait(maxStreamedList + endMarkerTimeout)
				m.wantContent("a=1")
				if n := len(s.seen(streamedList)); n != 1 {
					t.Errorf("%d streamed lists, want 1", n)
				}
			})
		})
	}
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

// Rules: WL-04, LST-02
func TestAnEndMarkerWithoutAVersionIsNoPlaceToResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, added("a", "5", 1), endMark(""))).
			on(pagedList, list("20", object("a", "5", 1))).on(watching, frames(thenHold))
		m := startMirror(t, s, Options{})
		wait(time.Minute)
		m.wantContent("a=1")
		if rv := s.last(watching).query.Get("resourceVersion"); rv != "20" {
			t.Errorf("watch from %q, want 20", rv)
		}
	})
}

// Rules: LST-04, LST-15, RFL-01, RFL-03, CCH-23
func TestARelistTellsWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := refuseStreams(newServer(t)).
			on(pagedList, list("20", object("a", "1", 1), object("b", "2", 1), object("c", "3", 1), object("d", "4", 1)),
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
			on(pagedList, list("20", object("a", "15", 2)), list("10", object("a", "5", 1)), list("30", object("a", "25", 3))).
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
	tooLarge := `{"kind":"Status","status":"Failure","code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 20, current: 10"}`
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
						refuseStreams(s).on(pagedList, list("20"), refusal, list("30"), refusal, list("40")).on(watching, live.reply)
					} else {
						s.on(streamedList, frames(thenEnd, endMark("20")), refusal, frames(thenEnd, endMark("30")), refusal, frames(thenEnd, endMark("40"))).
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

// Rules: LST-19
func TestOneUndecodableItemDoesNotKeepTheRestFromSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		items := []string{object("bad", "5", `"many"`)}
		for i := range 99 {
			items = append(items, object(fmt.Sprintf("p%02d", i), "5", i))
		}
		s := refuseStreams(newServer(t)).on(pagedList, list("20", items...), list("30", object("bad", "25", `"more"`), object("p00", "26", `"x"`))).
			on(watching, live.reply)
		m := startMirror(t, s, Options{})
		if !m.Synced() || m.state().Objects != 99 || m.state().Counters.Undecodable != 1 {
			t.Errorf("state %+v, want 99 objects, synced, 1 undecodable", m.state())
		}
		_, _, err := m.Get(kube.Key{Namespace: "default", Name: "bad"})
		if !errors.Is(err, ErrUndecodable) {
			t.Errorf("get of the undecodable object: %v, want ErrUndecodable, not a silent absence", err)
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

// Rules: LST-20, LST-22
func TestAListThatTakesMostAwayIsReportedBeforeAnybodyActsOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		var items []string
		for i := range 1000 {
			items = append(items, object(fmt.Sprintf("p%03d", i), "5", i))
		}
		null := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"PodList","metadata":{"resourceVersion":"30"},"items":null}`)
		}
		s := refuseStreams(newServer(t)).on(pagedList, list("20", items...), null).on(watching, live.reply)
		m := startMirror(t, s, Options{})
		m.heard()
		reportedFirst := true
		m.handlers = append(m.handlers, func(Change[*pod]) { reportedFirst = reportedFirst && m.logged("mass delete") == 1 })
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

// Rules: LST-21, RFL-12
func TestStopEndsAStalledList(t *testing.T) {
	stalled := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PodList","metadata":{"resourceVersion":"30"},"items":[`)
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
		"table": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"kind":"Table","metadata":{"resourceVersion":"99"},"rows":[]}`)
		},
		"other": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"kind":"NodeList","metadata":{"resourceVersion":"99"},"items":[]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				live := newFeed(t)
				s := refuseStreams(newServer(t)).on(pagedList, list("20", object("a", "1", 1)), wrong).on(watching, live.reply)
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

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

// Rules: LST-26
func TestOfARepeatedKeyInAListTheLastCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := refuseStreams(newServer(t)).on(pagedList, list("20", object("a", "1", 1), object("a", "2", 2))).on(watching, frames(thenHold))
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
		limit := NewLimiter(3)
		var all []*mirror
		for range 12 {
			all = append(all, startMirror(t, s, Options{InitialLists: limit}))
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

// Rules: WL-05
func TestASlowStreamedListIsWaitedForAndAQuietOneStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold,
			added("a", "5", 1), "pause 20s", added("b", "6", 1), "pause 20s", added("c", "7", 1), "pause 20s", endMark("20")))
		m := startMirror(t, s, Options{})
		wait(5 * time.Minute)
		m.wantContent("a=1", "b=1", "c=1")
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d requests, want 1", n)
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
		if q := m.Quarantined(); len(q) != 1 || q[0].ResourceVersion != "26" {
			t.Errorf("quarantine holds %v, want a at version 26", q)
		}
	})
}
