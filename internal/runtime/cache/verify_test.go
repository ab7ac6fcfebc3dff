package cache

import (
	"testing"
	"testing/synctest"
	"time"
)

// Rules: WL-14
func TestAStreamedListThatLacksAnObjectIsFoundAndListedInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, added("a", "5", 1), added("c", "7", 3), endMark("20"))).
			on(pagedList, list("20", object("a", "5", 1), object("b", "6", 2), object("c", "7", 3))).
			on(watching, frames(thenHold)).on(probing, list("20"))
		m := startMirror(t, s, Options{VerifyLists: true})
		wait(time.Second)
		m.wantContent("a=1", "b=2", "c=3")
		first := s.seen(pagedList)[0].query
		if first.Get("resourceVersion") != "20" || first.Get("resourceVersionMatch") != "Exact" {
			t.Errorf("compared with %v", first)
		}
		if st := m.state(); st.Counters.Inconsistent != 1 || st.Phase != string(streaming) || st.Err != nil {
			t.Errorf("%d differences, %s, %v", st.Counters.Inconsistent, st.Phase, st.Err)
		}
		if m.logged("default/b is missing") != 1 {
			t.Errorf("the log does not say what is missing: %q", m.log)
		}
		if n := len(s.seen(pagedList)); n != 2 {
			t.Errorf("%d paged lists, want one to compare and one to go on from", n)
		}
	})
}

// Rules: WL-14
func TestAStreamedListThatIsCompleteIsComparedOnceAndFollowed(t *testing.T) {
	for name, compared := range map[string]reply{
		"equal":   list("20", object("a", "5", 1)),
		"refused": status(410, "Expired", "the version is gone"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				live := newFeed(t)
				s := newServer(t).on(streamedList, live.reply).on(pagedList, compared)
				m := startMirror(t, s, Options{VerifyLists: true})
				live.send(added("a", "5", 1), endMark("20"), modified("a", "21", 2))
				wait(time.Second)
				m.wantContent("a=2")
				if st := m.state(); st.Counters.Inconsistent != 0 || len(s.seen()) != 2 {
					t.Errorf("%d differences, %d requests", st.Counters.Inconsistent, len(s.seen()))
				}
			})
		})
	}
}
