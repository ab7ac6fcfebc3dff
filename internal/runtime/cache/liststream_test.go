package cache

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Rules: WL-01, WL-04, WL-05, WL-12, LST-03, RFL-04, WCH-21
func TestOneRequestListsAndThenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		m := startMirror(t, s, Options{LabelSelector: "!old", FieldSelector: "spec.nodeName=n1"})
		live.send(added("a", "5", 1), added("b", "9", 2), added("c", "7", 3))
		if m.Synced() || m.state().Synced {
			t.Error("synced before the end of the initial events")
		}
		m.wantHeard()
		m.OnChange(func(c Change[*pod]) {
			if c.Initial && m.Synced() {
				t.Errorf("synced before the handler has returned from %s", c.New.Name)
			}
		})
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
		want := "allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Dn1&labelSelector=%21old&" +
			"resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
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
		m.waitSynced()
		m.wantContent()
		m.wantHeard()
	})
}

// Rules: WL-10
func TestChangesAmongTheInitialEventsApplyToThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold,
			added("a", "5", 1), modified("a", "11", 2), added("b", "6", 1), deleted("b", "12", 1),
			modified("c", "13", 3), endMark("20")))
		m := startMirror(t, s, Options{})
		m.wantContent("a=2", "c=3")
		m.wantHeard("ADDED a initial", "ADDED c initial")
	})
}

// Rules: WL-06
func TestAStreamedListThatNeverEndsItsInitialEventsStillSyncsTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenEnd, added("a", "90", 1))).
			on(pagedList, list("95", object("a", "90", 1))).
			on(watching, frames(thenHold))
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
				t.Errorf("%d: %d streamed and %d paged lists soon after the refusal, want 1 and 2",
					code, streamed, paged)
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
				s := newServer(t).on(streamedList, stream).on(pagedList, list("200", object("a", "5", 1))).
					on(watching, frames(thenHold))
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

// Rules: WL-04, LST-02
func TestAnEndMarkerWithoutAVersionIsNoPlaceToResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, added("a", "5", 1), endMark(""))).
			on(pagedList, list("20", object("a", "5", 1))).
			on(watching, frames(thenHold))
		m := startMirror(t, s, Options{})
		wait(time.Minute)
		m.wantContent("a=1")
		if rv := s.last(watching).query.Get("resourceVersion"); rv != "20" {
			t.Errorf("watch from %q, want 20", rv)
		}
	})
}

// Rules: WL-05
func TestASlowStreamedListIsWaitedForAndAQuietOneStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold,
			added("a", "5", 1), "pause 20s", added("b", "6", 1), "pause 20s", added("c", "7", 1), "pause 20s",
			endMark("20")))
		m := startMirror(t, s, Options{})
		wait(5 * time.Minute)
		m.wantContent("a=1", "b=1", "c=1")
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}
