package cache

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/kube"
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
				t.Errorf("watch from %s after %s", got, step.frame)
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

// Rules: WCH-09, WCH-08
func TestAServerThatAlwaysSays410IsNotAskedInALoop(t *testing.T) {
	for name, gone := range map[string]reply{"on the request": status(410, "Expired"), "in the stream": frames(thenEnd, errorEvent(410, "Expired"))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := synced(t, Options{}, gone)
				s.on(streamedList, frames(thenEnd, added("a", "5", 1), endMark("20")))
				wait(15 * time.Minute)
				if r := perMinute(s, 10); r > 15 {
					t.Errorf("%.1f requests a minute", r)
				}
				m.wantContent("a=1")
			})
		})
	}
}

// Rules: WCH-10
func TestAThrottledStreamResumesWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{}, frames(thenEnd, modified("a", "21", 2), errorEvent(429, "TooManyRequests")), frames(thenHold))
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
			if m.logged("Whatever") == 0 {
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

// Rules: WCH-15, WCH-53, WCH-22
func TestWatchesThatEndAtOnceBackOff(t *testing.T) {
	for name, stream := range map[string]reply{
		"empty":          frames(thenEnd),
		"cut":            frames(thenCut),
		"old event":      frames(thenEnd, modified("a", "5", 1)),
		"same bookmark":  frames(thenEnd, bookmark("20")),
		"unknown type":   frames(thenEnd, event("HELLO", `{}`)),
		"cut mid-frame":  frames(thenCut, `{"type":"MODI`),
		"slow and empty": frames(thenCut, "pause 3s"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := synced(t, Options{}, stream)
				wait(15 * time.Minute)
				if r := perMinute(s, 10); r > 10 {
					t.Errorf("%.1f requests a minute", r)
				}
				if n := len(s.seen(streamedList, pagedList)); n != 1 {
					t.Errorf("%d lists, want 1", n)
				}
				m.wantHeard()
			})
		})
	}
}

// Rules: WCH-15
func TestRisingBookmarksOfWatchesThatEndAtOnceDoNotKeepUpTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rv := 20
		s, _ := synced(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			rv++
			frames(thenEnd, bookmark(fmt.Sprint(rv)))(w, r)
		})
		wait(15 * time.Minute)
		if r := perMinute(s, 10); r > 10 {
			t.Errorf("%.1f requests a minute", r)
		}
	})
}

// Rules: WCH-53
func TestProgressResetsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replies []reply
		for range 10 {
			replies = append(replies, frames(thenEnd))
		}
		replies = append(replies, frames(thenEnd, modified("a", "21", 2)), frames(thenHold))
		s, m := synced(t, Options{}, replies...)
		wait(10 * time.Minute)
		m.wantContent("a=2")
		got := s.seen(watching)
		if d := got[11].at.Sub(got[10].at); d > minBackoff {
			t.Errorf("paused %v after a watch that brought a change, want at most %v", d, minBackoff)
		}
	})
}

// Rules: WCH-16, WCH-17
func TestACutFrameIsDroppedAndComesAgain(t *testing.T) {
	third := modified("a", "23", 4)
	for cut := range len(third) - 1 {
		synctest.Test(t, func(t *testing.T) {
			s, m := synced(t, Options{}, frames(thenCut, modified("a", "21", 2), modified("a", "22", 3), third[:cut]), frames(thenHold, third))
			wait(2 * time.Second)
			m.wantHeard("MODIFIED a", "MODIFIED a", "MODIFIED a")
			m.wantContent("a=4")
			if got, n := resumedFrom(s), len(s.seen(streamedList, pagedList)); got != "20,22" || n != 1 {
				t.Errorf("cut at byte %d: watches from %s and %d lists, want 20,22 and 1", cut, got, n)
			}
		})
	}
}

// Rules: WCH-22, RFL-15, RFL-16, RFL-05
func TestAnOutageIsSatOutAndNeedsNoList(t *testing.T) {
	for name, down := range map[string]func(*server){
		"refused": func(s *server) { s.crash(true) },
		"reset": func(s *server) {
			s.on(watching, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			s.on(probing, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			s.crash(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := synced(t, Options{}, frames(thenHold))
				down(s)
				wait(10 * time.Minute)
				if r := perMinute(s, 5); r > 15 {
					t.Errorf("%.1f requests a minute while down", r)
				}
				if !m.Synced() || m.state().Problem == "" {
					t.Errorf("while down: %+v, want synced, with a problem", m.state())
				}
				s.on(watching, frames(thenHold, modified("a", "21", 2))).on(probing, list("25"))
				s.start()
				wait(maxBackoff)
				m.wantContent("a=2")
				if n := len(s.seen(streamedList, pagedList)); n != 1 {
					t.Errorf("%d lists, want only the first", n)
				}
				if p := m.state().Problem; p != "" {
					t.Errorf("problem %q after the outage", p)
				}
				if m.logged("mirror is not up to date") != 1 || m.logged("up to date again") != 1 {
					t.Errorf("logged %q, want the problem and its end once", m.log)
				}
			})
		})
	}
}

// Rules: WCH-22, RFL-12
func TestStopDoesNotWaitForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.crash(true)
		m := startMirror(t, s, Options{})
		wait(10 * time.Minute)
		began := time.Now()
		m.stop()
		if d := time.Since(began); d > 0 {
			t.Errorf("stopping took %v", d)
		}
		if p := m.state().Phase; p != "stopped" {
			t.Errorf("phase %q", p)
		}
	})
}

// Rules: WCH-22
func TestTwoMinutesOfHealthMakeFailuresForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replies []reply
		for range 8 {
			replies = append(replies, frames(thenCut))
		}
		replies = append(replies, frames(thenCut, "pause 121s"), frames(thenHold))
		s, _ := synced(t, Options{}, replies...)
		wait(10 * time.Minute)
		got := s.seen(watching)
		if d := got[9].at.Sub(got[8].at) - 121*time.Second; d > minBackoff {
			t.Errorf("paused %v after two healthy minutes, want at most %v", d, minBackoff)
		}
	})
}

// Rules: WCH-23
func TestRetryAfterIsHonoured(t *testing.T) {
	date := func(w http.ResponseWriter, r *http.Request) {
		status(503, "ServiceUnavailable", "Retry-After: "+time.Now().Add(7*time.Second).UTC().Format(http.TimeFormat))(w, r)
	}
	for name, later := range map[string]reply{"seconds": status(429, "TooManyRequests", "Retry-After: 7"), "date": date} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t).on(streamedList, later, frames(thenEnd, endMark("20"), "pause 2s")).
					on(watching, later, frames(thenHold))
				startMirror(t, s, Options{})
				wait(time.Minute)
				least := 7 * time.Second
				if name == "date" {
					least -= time.Second // a date has no fractions
				}
				for _, kind := range []string{streamedList, watching} {
					got := s.seen(kind)
					if d := got[1].at.Sub(got[0].at); d < least || d > 7*time.Second+minBackoff {
						t.Errorf("%s: asked again after %v, want 7 s and a little", kind, d)
					}
				}
			})
		})
	}
}

// Rules: WCH-25, WCH-26
func TestAMissingRightOrKindIsNoticedWithin15Seconds(t *testing.T) {
	for _, code := range []int{403, 404} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t).on(streamedList, status(code, "Missing"))
			m := startMirror(t, s, Options{})
			wait(10 * time.Minute)
			if r := perMinute(s, 5); r > 12 {
				t.Errorf("%d: %.1f requests a minute", code, r)
			}
			if m.Synced() {
				t.Errorf("%d: synced", code)
			}
			if p := m.state().Problem; !strings.HasPrefix(p, fmt.Sprintf("%d Missing: watch pods", code)) {
				t.Errorf("problem %q", p)
			}
			if n := m.logged("mirror is not up to date"); n != 1 {
				t.Errorf("%d: logged %d times, want once", code, n)
			}
			s.on(streamedList, frames(thenHold, added("a", "5", 1), endMark("20")))
			wait(10 * time.Second)
			m.wantContent("a=1")
		})
	}
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

// Rules: WCH-29, WCH-35
func TestEventsMeanWhatTheyDoToTheMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := synced(t, Options{}, frames(thenHold,
			added("a", "21", 2),    // known: an update
			modified("b", "22", 1), // unknown: an addition
			deleted("c", "23", 1),  // unknown: nothing
			deleted("b", "24", 1),  // left the selector
			added("b", "25", 1),    // and came back
		))
		m.wantHeard("MODIFIED a", "ADDED b", "DELETED b", "ADDED b")
		m.wantContent("a=2", "b=1")
	})
}

// Rules: WCH-31, CCH-02, RFL-03
func TestIdentityIsTheUIDNotTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := synced(t, Options{}, frames(thenHold,
			modified("a@a-2", "21", 2), // replaced while nobody looked
			deleted("a", "22", 1),      // late word of the first one
		))
		m.wantHeard("DELETED a unknown", "ADDED a")
		m.wantContent("a=2")
		if p, _, _ := m.Get(kube.Key{Namespace: "default", Name: "a"}); p.UID != "a-2" {
			t.Errorf("the mirror holds uid %s, want a-2", p.UID)
		}
	})
}

// Rules: WCH-32, WCH-33
func TestReplayedEventsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, three := modified("a", "21", 2), modified("a", "22", 3), deleted("b", "24", 1)
		_, m := synced(t, Options{}, frames(thenHold, one, one, two, two, one, added("b", "23", 1), three, three, added("b", "23", 1), two))
		m.wantHeard("MODIFIED a", "MODIFIED a", "ADDED b", "DELETED b")
		m.wantContent("a=3")
		if n := m.state().Counters.Outdated; n != 5 {
			t.Errorf("%d outdated events counted, want 5", n)
		}
	})
}

// Rules: WCH-32
func TestAnEventOlderThanItsObjectIsDroppedEvenIfNewerThanTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		m := startMirror(t, s, Options{})
		live.send(added("a", "50", 5), endMark("20"), modified("a", "30", 3), deleted("a", "40", 3))
		m.wantContent("a=5")
		m.wantHeard("ADDED a initial")
	})
}

// Rules: WCH-34
func TestVersionsThatCannotBeComparedAreTakenAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, frames(thenEnd, added("a", "x9", 1), endMark("x20"), "pause 2s")).on(watching, live.reply)
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

// Rules: WCH-36
func TestAnUnknownEventTypeIsSkippedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s, m := synced(t, Options{}, live.reply)
		live.send(event("HELLO", object("z", "99", 1)), modified("a", "21", 2))
		m.wantHeard("MODIFIED a")
		if st := m.state(); st.Counters.UnknownType != 1 || st.ResourceVersion != "21" || len(s.seen(watching)) != 1 {
			t.Errorf("state %+v, want 1 unknown event, version 21, the same watch", st)
		}
	})
}

// Rules: WCH-37, WCH-04
func TestAnUndecodableEventIsQuarantinedAndTheStreamGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s, m := synced(t, Options{}, live.reply)
		live.send(added("b", "21", 1), event("MODIFIED", object("a", "22", `"two"`)), event("ADDED", object("c", "23", `{}`)), modified("b", "24", 2))
		m.wantContent("a=1", "b=2")
		m.wantHeard("ADDED b", "MODIFIED b")
		if st := m.state(); st.Quarantined != 2 || st.ResourceVersion != "24" || len(s.seen(watching)) != 1 {
			t.Errorf("state %+v, want 2 quarantined, version 24, the same watch", st)
		}
		live.send(event("MODIFIED", object("a", "25", `"three"`)))
		if n := m.logged(`"object"="default/a"`); n != 1 {
			t.Errorf("logged %d times that default/a does not decode, want once", n)
		}
		live.send(modified("a", "26", 3), event("DELETED", object("b", "27", `"x"`)), event("DELETED", object("c", "28", `{}`)))
		m.wantContent("a=3")
		m.wantHeard("MODIFIED a", "DELETED b unknown")
		if q := m.Quarantined(); len(q) != 0 {
			t.Errorf("quarantine still holds %v", q)
		}
	})
}

// Rules: WCH-02
func TestAnEventTooLargeToReadLeadsToAListNotToALoop(t *testing.T) {
	huge := event("MODIFIED", fmt.Sprintf(`{"metadata":{"name":"a","namespace":"default","uid":"a-1","resourceVersion":"21"},"spec":{"n":2},"x":%q}`, strings.Repeat("x", 17<<20)))
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
			s, m := synced(t, Options{WatchIdleTimeout: idle}, frames(thenHold), frames(thenHold, modified("a", "21", 2)))
			wait(11 * time.Minute)
			m.wantContent("a=2")
			got := s.seen(watching)[1].at.Sub(began)
			if want := max(maxWatch+overdue, idle) + 5*time.Second; got > want || idle > 0 && got > idle+5*time.Second {
				t.Errorf("idle timeout %v: opened anew after %v", idle, got)
			}
			if n := m.state().Counters.Reconnects["idle"]; n == 0 {
				t.Error("not counted")
			}
		})
	}
}

// Rules: WCH-21
func TestWatchTimeoutsAreSpreadOverFiveToTenMinutes(t *testing.T) {
	r := &Reflector[*pod]{}
	seen := map[time.Duration]int{}
	for range 1000 {
		s := r.newWatch(state[*pod]{})
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

// Rules: WCH-39
func TestNamespacesAreWatchedOnTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFeed(t), newFeed(t)
		s := newServer(t).on(streamedList, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/api/v1/namespaces/a/pods":
				a.reply(w, r)
			case "/api/v1/namespaces/b/pods":
				b.reply(w, r)
			default:
				t.Errorf("request to %s", r.URL.Path)
			}
		}).on(pagedList, list("9", object("b/q", "8", 1))).on(watching, frames(thenHold))
		m := startMirror(t, s, Options{Namespaces: []string{"b", "a", "b"}})
		a.send(added("a/p", "5", 1), endMark("20"))
		if m.Synced() {
			t.Error("synced while namespace b is not listed")
		}
		if all, err := m.List("a"); err != nil || len(all) != 1 {
			t.Errorf("list of a: %v, %v", all, err)
		}
		if _, err := m.List("b"); err == nil {
			t.Error("list of b gave no error")
		}
		if _, err := m.List(""); err == nil {
			t.Error("list of all gave no error")
		}
		b.send(added("a/stray", "6", 1), added("b/q", "8", 1), endMark("9"), modified("a/p", "10", 9))
		m.wantContent("p=1", "q=1")
		st := m.State()
		if st[0].ResourceVersion != "20" || st[1].ResourceVersion != "9" || st[1].Counters.Misplaced != 2 {
			t.Errorf("state %+v", st)
		}
		if !m.Reached("a", "15") || m.Reached("b", "15") {
			t.Error("one namespace's version was taken for the other's")
		}
		a.send(deleted("a/p", "21", 1))
		m.wantContent("q=1")
	})
}

// Rules: WCH-39
func TestAClusterScopedKindIsNeverAskedForByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, endMark("5")))
		node := kube.Resource{Version: "v1", Plural: "nodes", Kind: "Node", ClusterScoped: true}
		st := New[*pod](Options{Resource: node, Client: s.client, Namespaces: []string{"a", "b"}})
		go func() { _ = st.Run(t.Context()) }()
		if err := st.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.seen(); len(got) != 1 || got[0].path != "/api/v1/nodes" {
			t.Errorf("requests %v, want one to /api/v1/nodes", got)
		}
	})
}

// Rules: WCH-50
func TestStateTellsHowTheMirrorIsDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		_, m := synced(t, Options{}, live.reply)
		live.send(modified("a", "21", 2))
		at := time.Now()
		wait(time.Minute)
		live.send(thenCut)
		wait(time.Second)
		live.send(errorEvent(410, "Expired"))
		st := m.state()
		if !st.LastEvent.Equal(at) || st.ResourceVersion != "21" || st.Objects != 1 {
			t.Errorf("state %+v, want version 21 and the last event at %v", st, at)
		}
		if st.Counters.Lists["initial"] != 1 || st.Counters.Lists["expired"] != 1 {
			t.Errorf("lists %v", st.Counters.Lists)
		}
		if r := st.Counters.Reconnects; r["ended"] != 1 || r["broken"] != 1 || r["expired"] != 1 {
			t.Errorf("reconnects %v", r)
		}
	})
}

// Rules: RFL-11
func TestAPanickingHandlerHarmsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		client := s.client
		st := New[*pod](Options{Resource: pods, Client: client})
		var heard []string
		st.OnChange(func(c Change[*pod]) {
			if c.Object().Name == "poison" {
				panic("poison")
			}
		})
		st.OnChange(func(c Change[*pod]) { heard = append(heard, c.Object().Name) })
		go func() { _ = st.Run(t.Context()) }()
		live.send(added("a", "1", 1), added("poison", "2", 1), endMark("5"), modified("poison", "6", 2), modified("a", "7", 2))
		if want := []string{"a", "poison", "poison", "a"}; !slices.Equal(heard, want) {
			t.Errorf("the second handler heard %q, want %q", heard, want)
		}
		if st := st.State()[0]; st.Counters.Panics != 2 || !st.Synced {
			t.Errorf("state %+v, want 2 panics, synced", st)
		}
	})
}

// Rules: WCH-30, WCH-54
func TestADeletionWithTheVersionThatWeHaveStillDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s, m := synced(t, Options{}, live.reply)
		live.send(deleted("a", "5", 1))
		m.wantHeard("DELETED a")
		m.wantContent()
		wait(2 * time.Second)
		live.send(thenEnd)
		if got := resumedFrom(s); got != "20,20" {
			t.Errorf("watches from %s, want 20,20", got)
		}
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

func TestWaitingForAKindDoesNotLengthenLaterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, status(404, "NotFound"))
		startMirror(t, s, Options{})
		wait(10 * time.Minute)
		s.on(streamedList, frames(thenCut, endMark("20"))).on(watching, frames(thenHold))
		wait(maxMissing + minBackoff)
		if d := s.last(watching).at.Sub(s.last(streamedList).at); d > minBackoff {
			t.Errorf("paused %v after the first failure of a new kind, want at most %v", d, minBackoff)
		}
	})
}
