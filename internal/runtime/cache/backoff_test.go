package cache

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Rules: WCH-09, WCH-08
func TestAServerThatAlwaysSays410IsNotAskedInALoop(t *testing.T) {
	for name, gone := range map[string]reply{
		"on the request": status(410, "Expired"),
		"in the stream":  frames(thenEnd, errorEvent(410, "Expired")),
	} {
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

// Rules: WCH-15, WCH-53, WCH-22
func TestWatchesThatEndAtOnceBackOff(t *testing.T) {
	for name, stream := range map[string]reply{
		"empty":          frames(thenEnd),
		"cut":            frames(thenCut),
		"old event":      frames(thenEnd, modified("a", "5", 1)),
		"same bookmark":  frames(thenEnd, bookmark("20")),
		"unknown type":   frames(thenEnd, event("HELLO", `{}`)),
		"cut mid-frame":  frames(thenCut, modified("a", "21", 2)[:14]),
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
				if m.logged("lost contact with the API server; renewing 1 watch") != 1 || len(m.log) != 1 {
					t.Errorf("logged %q, want one line", m.log)
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
		status(503, "ServiceUnavailable",
			"Retry-After: "+time.Now().Add(7*time.Second).UTC().Format(http.TimeFormat))(w, r)
	}
	for name, later := range map[string]reply{
		"seconds": status(429, "TooManyRequests", "Retry-After: 7"),
		"date":    date,
	} {
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
			if n := m.logged("cannot list or watch"); n != 1 {
				t.Errorf("%d: logged %d times, want once", code, n)
			}
			s.on(streamedList, frames(thenHold, added("a", "5", 1), endMark("20")))
			wait(10 * time.Second)
			m.wantContent("a=1")
		})
	}
}

// resources is the answer of discovery.
func resources(names ...string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := `{"resources":[`
		for i, name := range names {
			list += strings.Repeat(",", min(i, 1)) + fmt.Sprintf(`{"name":%q}`, name)
		}
		_, _ = io.WriteString(w, list+"]}")
	}
}

// A kind that a cluster may lack is no problem: the mirror is empty, and the kind is noticed when installed. A server
// refuses a kind that it does not serve to a user without the right.
func TestAnOptionalKindIsEmptyUntilItIsServed(t *testing.T) {
	for code, discovered := range map[int]reply{404: nil, 403: resources("services")} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t).on(streamedList, status(code, "Missing")).on(discovering, discovered)
			m := startMirror(t, s, Options{Optional: true})
			wait(4 * time.Second)
			if n, st := len(s.seen(streamedList)), m.state(); n != 1 || !m.Synced() || st.Parked ||
				st.Problem != "" || st.Phase != unserved || !m.Serves("") {
				t.Errorf("%d: after %d lists the mirror is %+v", code, n, st)
			}
			wait(time.Hour)
			if n := len(s.seen(streamedList)); n > 80 {
				t.Errorf("%d: %d lists within an hour", code, n)
			}
			if n := m.logged("cannot list or watch"); n != 0 {
				t.Errorf("%d: logged %d times", code, n)
			}
			s.on(streamedList, frames(thenHold, added("a", "5", 1), endMark("20")))
			wait(time.Minute)
			m.wantContent("a=1")
		})
	}
}

func TestARefusalOfAnOptionalKindThatIsServedIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, status(403, "Forbidden")).on(discovering, resources("services", "pods"))
		m := startMirror(t, s, Options{Optional: true})
		wait(time.Minute)
		if st := m.state(); !m.Serves("") || st.Parked || !strings.HasPrefix(st.Problem, "403 Forbidden") {
			t.Errorf("the mirror is %+v", st)
		}
		s.on(streamedList, frames(thenHold, added("a", "5", 1), endMark("20")))
		wait(time.Minute)
		m.wantContent("a=1")
	})
}

// A server just started answers 404 for a while: what was there stays until the kind is gone for good.
func TestAnOptionalKindThatIsAwayForAMomentKeepsItsContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenEnd, added("a", "5", 1), endMark("20"))).on(probing, list("20"))
		m := startMirror(t, s, Options{Optional: true})
		s.on(watching, frames(thenEnd), status(404, "NotFound")).on(streamedList, status(404, "NotFound"))
		wait(keptMissing / 2)
		m.wantContent("a=1")
		if st := m.state(); !m.Serves("") || st.Parked {
			t.Errorf("the mirror is %+v", st)
		}
		wait(2 * keptMissing)
		m.wantContent()
		if st := m.state(); st.Problem != "" || st.Phase != unserved || !st.Opened.IsZero() {
			t.Errorf("the mirror is %+v", st)
		}
	})
}

// Rules: WCH-08
func TestADefinitionThatIsUpdatedTwiceIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := synced(t, Options{}, frames(thenEnd), status(429, "TooManyRequests"), status(410, "Expired"))
		expires := frames(thenEnd, added("a", "5", 1), endMark("20"), errorEvent(410, "Expired"))
		s.on(streamedList, expires, expires, frames(thenHold, added("a", "5", 1), endMark("20")))
		wait(time.Minute)
		m.wantContent("a=1")
		if n := m.logged("cannot list or watch"); n != 0 {
			t.Errorf("logged %d times", n)
		}
	})
}

// A server that comes back says 403 until it has loaded its rules, and 410 if it was away for too long. Neither must
// cost the pauses that the time without an answer had grown to.
func TestAServerThatComesBackIsAskedSoonHoweverLongItWasAway(t *testing.T) {
	for range 20 { // the pauses are random
		synctest.Test(t, func(t *testing.T) {
			s, m := synced(t, Options{}, frames(thenHold))
			s.crash(true)
			wait(10 * time.Minute)
			s.on(watching, status(403, "Forbidden"), status(410, "Expired")).on(probing, list("40"))
			s.on(streamedList, frames(thenHold, added("b", "30", 1), endMark("40")))
			s.start()
			back := time.Now()
			wait(maxBackoff + 5*time.Second)
			m.wantContent("b=1")
			first := s.seen(watching)[1].at
			if d := s.last(streamedList).at.Sub(first); first.Before(back) ||
				d > minBackoff+minBackoff<<answeredFailures {
				t.Errorf("up to date %v after the first answer", d)
			}
		})
	}
}

func TestWaitingForAKindDoesNotLengthenLaterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, status(404, "NotFound"))
		startMirror(t, s, Options{})
		wait(10 * time.Minute)
		s.on(streamedList, frames(thenCut, endMark("20"))).on(probing, list("20")).on(watching, frames(thenHold))
		wait(maxMissing + minBackoff)
		if d := s.last(watching).at.Sub(s.last(streamedList).at); d > minBackoff {
			t.Errorf("paused %v after the first failure of a new kind, want at most %v", d, minBackoff)
		}
	})
}

func TestAHintNamesWhatIsWrongWithTheConnection(t *testing.T) {
	inOneTurn(t, "its servers send no body")
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, secure := httptest.NewServer(answer), httptest.NewUnstartedServer(answer)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs the handshake that fails
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	for server, want := range map[string]string{
		secure.URL: "certificate authority",
		"https://" + plain.Listener.Addr().String(): "does not speak TLS",
		"http://" + secure.Listener.Addr().String(): "address of the server",
	} {
		c, err := kube.New(kube.Config{Server: server})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = kube.List[*configMap](t.Context(), c, kube.Query{Resource: configMaps}, kube.ListOptions{})
		if err == nil || !strings.Contains(health.OfError(err).Next, want) {
			t.Errorf("%s: hint %q for %v, want one about the %s", server, health.OfError(err).Next, err, want)
		}
	}
}
