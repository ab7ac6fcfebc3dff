package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Rules: WCH-06, WCH-08
func TestAQuietResourceWithoutBookmarksRelistsOnceAfter410(t *testing.T) {
	for name, gone := range map[string]reply{
		"on the request":    status(410, "Expired"),
		"gone":              status(410, "Gone"),
		"in the stream":     frames(thenEnd, errorEvent(410, "Expired")),
		"stream, by reason": frames(thenEnd, errorEvent(0, "Gone")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := synced(t, Options{}, frames(thenEnd, "pause 7m"), gone, frames(thenHold))
				s.on(streamedList, frames(thenEnd, added("a", "5", 1), endMark("90"), "pause 2s"))
				wait(9 * time.Minute)
				if n := len(s.seen(streamedList)); n != 2 {
					t.Errorf("%d lists, want 2", n)
				}
				if got := s.last(streamedList).query.Get("resourceVersion"); got != "20" {
					t.Errorf("relist from %q, want 20, the last seen", got)
				}
				m.wantHeard()
				m.wantContent("a=1")
			})
		})
	}
}

// Rules: WCH-10
func TestAThrottledStreamResumesWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{}, frames(thenEnd, modified("a", "21", 2), errorEvent(429, "TooManyRequests")),
			frames(thenHold))
		wait(time.Minute)
		if got, n := resumedFrom(s), len(s.seen(streamedList, pagedList)); got != "20,21" || n != 1 {
			t.Errorf("watches from %s and %d lists, want 20,21 and 1", got, n)
		}
		m.wantContent("a=2")
	})
}

// Rules: WCH-11
func TestInternalErrorsOfAStreamAreRetriedBeforeAList(t *testing.T) {
	fail := frames(thenEnd, errorEvent(500, "InternalError"))
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{}, fail, fail, fail, frames(thenHold, modified("a", "21", 2)))
		wait(time.Minute)
		if n := len(s.seen(streamedList, pagedList)); n != 1 {
			t.Errorf("%d lists, want only the first", n)
		}
		m.wantContent("a=2")
	})
	synctest.Test(t, func(t *testing.T) { // and not for ever
		s, m := synced(t, Options{}, fail)
		s.on(streamedList, frames(thenHold, endMark("50")))
		wait(2 * time.Minute)
		if got := s.last(streamedList).query.Get("resourceVersion"); got != "20" {
			t.Errorf("relist from %q, want 20", got)
		}
		m.wantContent()
	})
}

// Rules: WCH-12
func TestAServerBehindOurVersionIsWaitedForAndThenListed(t *testing.T) {
	for name, behind := range map[string]reply{
		"on the request": status(504, "Timeout", "ResourceVersionTooLarge"),
		"in the stream":  frames(thenEnd, errorEvent(504, "Timeout", "ResourceVersionTooLarge")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := synced(t, Options{}, behind, behind, frames(thenHold, modified("a", "21", 2)))
				wait(time.Minute)
				if n := len(s.seen(streamedList, pagedList)); n != 1 {
					t.Errorf("%d lists, want only the first", n)
				}
				m.wantContent("a=2")
			})
			synctest.Test(t, func(t *testing.T) {
				s, m := synced(t, Options{}, behind)
				s.on(streamedList, frames(thenHold, added("a", "22", 3), endMark("50")))
				wait(2 * time.Minute)
				if q := s.last(streamedList).query; q.Has("resourceVersion") {
					t.Errorf("relist from %q, want none", q.Get("resourceVersion"))
				}
				m.wantContent("a=3")
			})
		})
	}
}

// Rules: WCH-13
func TestAnyOtherErrorEventLeadsToAListFromTheLastVersion(t *testing.T) {
	for _, code := range []int{403, 404, 418, 599} {
		synctest.Test(t, func(t *testing.T) {
			s, m := synced(t, Options{}, frames(thenEnd, errorEvent(code, "Whatever")))
			s.on(streamedList, frames(thenHold, added("a", "22", 3), endMark("50")))
			wait(time.Minute)
			if got := s.last(streamedList).query.Get("resourceVersion"); got != "20" {
				t.Errorf("%d: relist from %q, want 20", code, got)
			}
			m.wantContent("a=3")
			if m.logged("Whatever") == 0 && code < 500 { // with those it has to last
				t.Errorf("%d: the Status was not logged", code)
			}
		})
	}
}

// Rules: WCH-07
func TestAnErrorEventIsNoObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := synced(t, Options{}, frames(thenEnd, errorEvent(429, "TooManyRequests")), frames(thenHold))
		m.wantHeard()
		m.wantContent("a=1")
	})
}

// Rules: WCH-27
func TestAnUninstalledKindEmptiesTheMirrorAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := status(404, "NotFound")
		s, m := synced(t, Options{}, frames(thenEnd, deleted("a", "21", 1)), gone)
		s.on(streamedList, gone)
		wait(5 * time.Minute)
		m.wantHeard("DELETED a")
		m.wantContent()
		if r := perMinute(s, 4); r > 12 {
			t.Errorf("%.1f requests a minute while uninstalled", r)
		}
		s.on(streamedList, frames(thenHold, added("a@a-2", "31", 5), endMark("40")))
		wait(10 * time.Second)
		m.wantHeard("ADDED a")
		m.wantContent("a=5")
	})
}

// Rules: WCH-11
func TestAStreamThatBringsEventsBetweenItsErrorsIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replies []reply
		for i := range 3 * maxRefusals {
			replies = append(replies, frames(thenEnd, bookmark(fmt.Sprint(21+i)), errorEvent(500, "InternalError")))
		}
		s, _ := synced(t, Options{}, append(replies, frames(thenHold))...)
		wait(10 * time.Minute)
		if n := len(s.seen(streamedList, pagedList)); n != 1 {
			t.Errorf("%d lists, want only the first", n)
		}
	})
}
