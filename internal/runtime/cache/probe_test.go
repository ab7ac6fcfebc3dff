package cache

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Rules: WCH-48, CCH-16
func TestARewoundHistoryIsNoticedWhenTheWatchIsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).
			on(streamedList, frames(thenEnd, added("a", "1100", 1), added("b", "900", 1), added("c", "1150", 1),
				endMark("1200"), "pause 7m"),
				// Restored to 1000; then c was made again, at a version that it had before, and d.
				frames(thenHold, added("b", "900", 1), added("c", "1150", 7), added("d", "1160", 1), endMark("1170"),
					modified("d", "1171", 2))).
			on(probing, list("1165")).
			on(watching, live.reply) // accepted and silent
		m := startMirror(t, s, Options{})
		m.heard()
		wait(8 * time.Minute)
		m.wantHeard("DELETED a unknown", "MODIFIED b", "MODIFIED c", "ADDED d", "MODIFIED d")
		m.wantContent("b=1", "c=7", "d=2")
		if q := s.last(streamedList).query; q.Has("resourceVersion") {
			t.Errorf("list from %q, want the state of now", q.Get("resourceVersion"))
		}
		st := m.state()
		if st.ResourceVersion != "1171" || st.Counters.Rewinds != 1 || st.Counters.Lists["rewound"] != 1 {
			t.Errorf("state %+v, want version 1171 and one rewind", st)
		}
		if began := time.Now().Add(-8 * time.Minute); !m.Reached("default", "1201", began) {
			t.Error("who wrote in the lost history waits for a version that may never come")
		}
		if m.Reached("default", "1190", time.Now()) {
			t.Error("a write in the new history counts as seen because the lost one had its version")
		}
	})
}

// Rules: WCH-48
func TestAHistoryRewoundWithinAMinuteOfAListIsNoticed(t *testing.T) {
	gone := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, later := range map[string]struct {
		end, after      string
		probes, watches []reply
	}{
		"the watch ends":           {thenEnd, "7s", []reply{list("1002")}, []reply{frames(thenHold)}},
		"the watch breaks at once": {thenCut, "1s", []reply{list("1002")}, []reply{frames(thenHold)}},
		"the server is lost once more after the probe": {thenEnd, "7s", []reply{list("1200"), list("1002")},
			[]reply{gone, gone, frames(thenHold)}}, // net/http asks once more itself
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t).
					on(streamedList, frames(later.end, added("a", "1100", 1), endMark("1200"), "pause "+later.after),
						frames(thenHold, added("b", "1001", 1), endMark("1002"))).
					on(probing, later.probes...).on(watching, later.watches...)
				m := startMirror(t, s, Options{})
				wait(50 * time.Second)
				m.wantContent("b=1")
			})
		})
	}
}

// Rules: WCH-48
func TestABookmarkOrEventOfThePastRaisesTheQuestion(t *testing.T) {
	for name, past := range map[string]string{"bookmark": bookmark("11"), "event": added("z", "12", 1)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				live := newFeed(t)
				s, m := synced(t, Options{}, live.reply)
				s.on(streamedList, frames(thenHold, added("z", "12", 1), endMark("13"))).on(probing, list("13"))
				wait(2 * time.Minute)
				live.send(past)
				m.wantContent("z=1")
			})
			synctest.Test(t, func(t *testing.T) { // a replay and nothing more
				live := newFeed(t)
				s, m := synced(t, Options{}, live.reply)
				wait(2 * time.Minute)
				for range 50 {
					live.send(past)
					wait(time.Second)
				}
				if n := len(s.seen(probing)); n != 1 {
					t.Errorf("%d probes in a minute, want 1", n)
				}
				if n := len(s.seen(watching)); n != 1 {
					t.Errorf("%d watches, want the same one to go on", n)
				}
				m.wantHeard()
			})
		})
	}
}

// Rules: WCH-48, RFL-15
func TestSteadyStateIsOneWatchAndOneProbeAtItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{LabelSelector: "!old"}, frames(thenEnd, "pause 5m"))
		wait(59 * time.Minute)
		watches, probes := len(s.seen(watching)), len(s.seen(probing))
		if watches != 12 || probes != 11 { // the first watch came right after the list
			t.Errorf("%d watches and %d probes in 59 minutes of watches of 5, want 12 and 11", watches, probes)
		}
		if n := len(s.seen()); n != watches+probes+1 {
			t.Errorf("%d requests in all", n)
		}
		if q := s.last(probing).query.Encode(); q != "limit=1" {
			t.Errorf("probe %s, want no selector and no version", q)
		}
		m.wantHeard()
	})
}

func TestAProbeThatIsNotAnsweredWithAVersionDoesNotKeepTheWatchAway(t *testing.T) {
	for name, answer := range map[string]reply{
		"forbidden": status(403, "Forbidden"), "broken": status(500, "InternalError"), "no list": list(""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := synced(t, Options{}, frames(thenEnd, "pause 6m"), frames(thenHold, modified("a", "21", 2)))
				s.on(probing, answer)
				wait(7 * time.Minute)
				m.wantContent("a=2")
				if n := len(s.seen(probing)); n != 1 {
					t.Errorf("%d probes, want 1", n)
				}
			})
		})
	}
}
