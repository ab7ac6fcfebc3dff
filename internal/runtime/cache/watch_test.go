package cache

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// synced starts a mirror that holds a=1 at version 20 and then does what the replies to its watches say.
func synced(t *testing.T, o Options, watches ...reply) (*server, *mirror) {
	t.Helper()
	s := newServer(t).on(streamedList, frames(thenEnd, added("a", "5", 1), endMark("20"), "pause 2s")).
		on(watching, watches...).on(probing, list("1000"))
	m := startMirror(t, s, o)
	m.wantHeard("ADDED a initial")
	wait(2 * time.Second)
	return s, m
}

// resumedFrom returns the versions that the watches so far began at.
func resumedFrom(s *server) string {
	var out []string
	for _, r := range s.seen(watching) {
		out = append(out, r.query.Get("resourceVersion"))
	}
	return strings.Join(out, ",")
}

// perMinute returns the rate of requests in the last minutes.
func perMinute(s *server, minutes int) float64 {
	n, since := 0, time.Now().Add(-time.Duration(minutes)*time.Minute)
	for _, r := range s.seen() {
		if r.at.After(since) {
			n++
		}
	}
	return float64(n) / float64(minutes)
}

// Rules: WCH-03, WCH-05, WCH-14, WCH-30, WL-13, LST-01
func TestTheResumePointFollowsEachEventAndBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s, m := synced(t, Options{}, live.reply)
		for _, step := range []struct{ frame, rv string }{
			{added("b", "21", 1), "21"},
			{modified("b", "22", 2), "22"},
			{deleted("b", "23", 2), "23"},
			{bookmark("30"), "30"},
			{event("BOOKMARK", object("stray", "31", 1)), "31"},
			{endMark("32"), "32"},
		} {
			live.send(step.frame)
			wait(2 * time.Second)
			live.send(thenEnd)
			if got := s.last(watching).query.Get("resourceVersion"); got != step.rv {
				t.Errorf("watch from %s after %q", got, step.frame)
			}
		}
		for _, r := range s.seen(watching) {
			if r.query.Has("sendInitialEvents") {
				t.Error("a resumed watch asks for initial events")
			}
		}
		m.wantHeard("ADDED b", "MODIFIED b", "DELETED b")
		m.wantContent("a=1")
	})
}

// Rules: WCH-54
func TestTheResumePointNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s, m := synced(t, Options{}, live.reply)
		live.send(added("b", "10", 1), modified("a", "4", 9), bookmark("15"))
		wait(2 * time.Second)
		live.send(thenEnd)
		if got := resumedFrom(s); got != "20,20" {
			t.Errorf("watches from %s, want 20,20", got)
		}
		m.wantHeard() // b was there before version 20, and is gone since
		m.wantContent("a=1")
		if n := m.state().Counters.Outdated; n != 3 {
			t.Errorf("%d outdated events counted, want 3", n)
		}
	})
}

// Rules: WL-11
func TestAnEndMarkerOnAPlainWatchIsABookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := synced(t, Options{}, frames(thenHold, endMark("25"), modified("a", "26", 2)))
		m.wantHeard("MODIFIED a")
	})
}

// Rules: WCH-14
func TestCleanEndsAreEverydayLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{}, frames(thenEnd, "pause 1500ms"))
		wait(150 * time.Second)
		got := s.seen(watching)
		if len(got) < 100 {
			t.Fatalf("%d watches in 150 s of streams that end after 1.5 s", len(got))
		}
		for i := 1; i < len(got); i++ {
			if d := got[i].at.Sub(got[i-1].at); d != 1500*time.Millisecond {
				t.Fatalf("watch %d was opened after %v, want at once when the one before ended", i, d)
			}
		}
		if n := len(s.seen(streamedList, pagedList)); n != 1 {
			t.Errorf("%d lists, want 1", n)
		}
		if len(m.log) > 0 {
			t.Errorf("logged %q", m.log)
		}
	})
}

// Rules: WCH-16, WCH-17
func TestACutFrameIsDroppedAndComesAgain(t *testing.T) {
	third := modified("a", "23", 4)
	for cut := range len(third) - 1 {
		synctest.Test(t, func(t *testing.T) {
			s, m := synced(t, Options{}, frames(thenCut, modified("a", "21", 2), modified("a", "22", 3), third[:cut]),
				frames(thenHold, third))
			wait(2 * time.Second)
			m.wantHeard("MODIFIED a", "MODIFIED a", "MODIFIED a")
			m.wantContent("a=4")
			if got, n := resumedFrom(s), len(s.seen(streamedList, pagedList)); got != "20,22" || n != 1 {
				t.Errorf("cut at byte %d: watches from %s and %d lists, want 20,22 and 1", cut, got, n)
			}
		})
	}
}

func TestVersionsThatCannotBeComparedAreTakenAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, frames(thenEnd, added("a", "x9", 1), endMark("x20"), "pause 2s")).
			on(watching, live.reply)
		m := startMirror(t, s, Options{})
		wait(2 * time.Second)
		live.send(modified("a", "x3", 2), modified("a", "x3", 2))
		m.wantContent("a=2")
		m.wantHeard("ADDED a initial", "MODIFIED a")
		wait(2 * time.Second)
		live.send(thenEnd)
		if got := resumedFrom(s); got != "x20,x3" {
			t.Errorf("watches from %s", got)
		}
	})
}

// Rules: WCH-02
func TestAnEventTooLargeToReadLeadsToAListNotToALoop(t *testing.T) {
	huge := event("MODIFIED", fmt.Sprintf(`{"metadata":{"name":"a","namespace":"default","uid":"a-1",`+
		`"resourceVersion":"21"},"spec":{"hostname":%q}}`, strings.Repeat("x", 17<<20)))
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{}, frames(thenHold, huge))
		s.on(streamedList, frames(thenHold, added("a", "22", 3), endMark("30")))
		wait(time.Minute)
		m.wantContent("a=3")
		if got := m.state().Counters; got.Lists["frame too large"] != 1 || got.Reconnects["frame too large"] != 1 {
			t.Errorf("counted %+v, want one list because of a large frame", got)
		}
	})
}

// Rules: WCH-49
func TestAMuteWatchIsOpenedAnew(t *testing.T) {
	for _, idle := range []time.Duration{0, 90 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s, m := synced(t, Options{WatchIdleTimeout: idle}, frames(thenHold),
				frames(thenHold, modified("a", "21", 2)))
			wait(11 * time.Minute)
			m.wantContent("a=2")
			got := s.seen(watching)[1].at.Sub(began)
			if want := max(maxWatch+overdue, idle) + 5*time.Second; got > want ||
				idle > 0 && got > idle+5*time.Second {
				t.Errorf("idle timeout %v: opened anew after %v", idle, got)
			}
			if n := m.state().Counters.Reconnects["idle"]; n == 0 {
				t.Error("not counted")
			}
		})
	}
}

// A server sends no bookmark that tells nothing new (seen on v1.36), so where nothing happens a short idle timeout
// ends each watch. That is no failure: with a pause that grows, events would come half a minute late.
//
// Rules: WCH-06
func TestAQuietServerIsWatchedWithoutGapsWhateverTheIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{WatchIdleTimeout: time.Minute}, frames(thenHold))
		wait(time.Hour)
		watches := s.seen(watching)
		for i := 1; i < len(watches); i++ {
			if gap := watches[i].at.Sub(watches[i-1].at); gap > time.Minute {
				t.Fatalf("watch %d came %v after the one before, want no pause between them", i, gap)
			}
		}
		if n := len(watches); n < 59 || n > 61 {
			t.Errorf("%d watches in an hour, want one per minute", n)
		}
		if p := m.state().Problem; p != "" {
			t.Errorf("problem %q", p)
		}
		if l := m.logged("cannot list or watch"); l != 0 {
			t.Errorf("logged %d times", l)
		}
	})
}

// Rules: WCH-21
func TestWatchTimeoutsAreSpreadOverFiveToTenMinutes(t *testing.T) {
	seen := map[time.Duration]int{}
	for range 1000 {
		s, _ := newWatch[*pod](t.Context())
		s.cancel(nil)
		if s.lifetime < 5*time.Minute || s.lifetime >= 10*time.Minute {
			t.Fatalf("timeout %v", s.lifetime)
		}
		seen[s.lifetime.Truncate(time.Minute)]++
	}
	for minute, n := range seen {
		if n < 120 || n > 280 {
			t.Errorf("%d of 1000 timeouts begin with %v, want about 200", n, minute)
		}
	}
}

func TestAWatchThatTheServerDoesNotEndIsEndedByUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s, _ := synced(t, Options{}, live.reply)
		for i := range 22 {
			wait(30 * time.Second)
			live.send(bookmark(fmt.Sprint(21 + i)))
		}
		if n := len(s.seen(watching)); n != 2 {
			t.Errorf("%d watches after 11 minutes, want 2", n)
		}
	})
}
