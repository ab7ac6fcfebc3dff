package cache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/kube"
)

// mine is a pod that panics when it is looked at, if its number is 13.
type mine struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		N int `json:"priority"`
	} `json:"spec"`
}

func (m *mine) ObjectMeta() *kube.Meta {
	if m.Spec.N == 13 {
		panic("thirteen")
	}
	return &m.Meta
}

// Rules: RFL-11
func TestAMirrorThatPanicsListsAgainAndTheProcessGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, live.reply)
		var lines []string
		st := New[*mine](Options{Resource: pods, Client: s.client,
			Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})})
		go st.Run(t.Context())
		synctest.Wait()
		live.send(added("a", "5", 1), endMark("20"), modified("a", "21", 13))
		if state := st.State()[0]; state.Counters.Crashes != 1 || !strings.Contains(state.Problem, "thirteen") ||
			!state.Synced {
			t.Errorf("state %+v, want one panic and the mirror as it was", state)
		}
		wait(2 * time.Second)
		live.send(added("a", "22", 2), endMark("30"))
		got, _, err := st.Get(makePod("default", "a", 1).Key())
		if err != nil || got.Spec.N != 2 || st.State()[0].Err != nil {
			t.Errorf("after the list: %+v, %v, state %+v", got, err, st.State()[0])
		}
		for range 100 { // each list of the next two hours brings it again
			wait(30 * time.Second)
			live.send(errorEvent(410, "Expired"))
			wait(30 * time.Second)
			live.send(added("a", "31", 13))
			wait(30 * time.Second)
			live.send(added("a", "32", 1), endMark("40"))
		}
		if n := st.State()[0].Counters.Crashes; n != 101 {
			t.Errorf("%d panics counted, want 101", n)
		}
		logged := 0
		for _, l := range lines {
			if strings.Contains(l, "a watch panicked") && strings.Contains(l, "stack") {
				logged++
			}
		}
		if logged == 0 || logged > 101 {
			t.Errorf("%d lines", logged)
		}
	})
}

// Rules: WCH-06
func TestAWatchThatGetsBookmarksAndThenNothingIsEndedAfterThreeMinutes(t *testing.T) {
	for name, test := range map[string]struct {
		bookmarks int
		after     time.Duration
		watches   string
	}{
		"two bookmarks, three minutes":         {2, 3*time.Minute - time.Second, "20"},
		"two bookmarks, a little longer":       {2, 3*time.Minute + time.Second, "20,22"},
		"one bookmark, nearly the whole watch": {1, 4 * time.Minute, "20"}, // servers promise none
	} {
		synctest.Test(t, func(t *testing.T) {
			live := newFeed(t)
			s, m := synced(t, Options{}, live.reply, frames(thenHold))
			for i := range test.bookmarks {
				live.send(bookmark(fmt.Sprint(21 + i)))
			}
			wait(test.after)
			if got := resumedFrom(s); got != test.watches {
				t.Errorf("%s: watches from %s, want %s", name, got, test.watches)
			}
			if idle := m.state().Counters.Reconnects["idle"]; idle != strings.Count(test.watches, ",") {
				t.Errorf("%s: %d idle watches counted", name, idle)
			}
		})
	}
}

func TestAListThatComesInDropsHoldsUpNoOther(t *testing.T) {
	drip := func(drops func(i int) string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			openStream(w)
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprint(w, drops(i))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}
	}
	items, _ := heavyPods(2)
	page := inTurn(listObject("20", items...))
	for name, serve := range map[string]func(s *server){
		"paged": func(s *server) { refuseStreams(s).on(pagedList, drip(func(i int) string { return page[i : i+1] })) },
		"streamed": func(s *server) {
			s.on(streamedList, drip(func(i int) string { return added(fmt.Sprint("a", i), fmt.Sprint(i+1), i) })).
				on(pagedList, status(500, "InternalError"))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			limit := newLimiter(1)
			s := newServer(t)
			serve(s)
			m := startMirror(t, s, Options{lists: limit})
			wait(time.Second)
			good := startMirror(t, newServer(t).on(streamedList, frames(thenHold, endMark("5"))),
				Options{lists: limit})
			if good.Synced() {
				t.Fatal("both lists are in flight at once")
			}
			wait(slotIdle)
			if !good.Synced() {
				t.Errorf("%s: not synced after %s", name, slotIdle)
			}
			wait(3 * time.Minute)
			if m.state().Err == nil {
				t.Errorf("%s: the list still drips", name)
			}
		})
	}
}

func TestAListThatComesFastKeepsItsSlotForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := newLimiter(1)
		slot, _ := limit.acquire(t.Context())
		began, next := time.Now(), make(chan time.Duration, 1)
		go func() {
			other, _ := limit.acquire(t.Context())
			next <- time.Since(began)
			other.release()
		}()
		for range 2 * slotTime / time.Second {
			for range slotObjects {
				slot.moves()
			}
			time.Sleep(time.Second)
		}
		slot.release()
		if took := <-next; took != slotTime {
			t.Errorf("released after %s, want %s", took, slotTime)
		}
	})
}
