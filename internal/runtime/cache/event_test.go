package cache

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

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
		_, m := synced(t, Options{}, frames(thenHold, one, one, two, two, one, added("b", "23", 1), three, three,
			added("b", "23", 1), two))
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

// A server that sends what was not asked for makes no object of another field manager a child.
func TestAnObjectThatTheLabelSelectorDoesNotSelectIsQuarantined(t *testing.T) {
	labelled := func(name, version string, data int, app string) string {
		return strings.Replace(object(name, version, data), `"name"`, `"labels":{"app":"`+app+`"},"name"`, 1)
	}
	synctest.Test(t, func(t *testing.T) {
		live := newFeed(t)
		s := newServer(t).on(streamedList, frames(thenEnd, event("ADDED", labelled("a", "5", 1, "web")),
			event("ADDED", labelled("b", "6", 1, "shop")), endMark("20"), "pause 2s")).on(watching, live.reply)
		m := startMirror(t, s, Options{LabelSelector: "app in (web, cache),!old"})
		m.wantHeard("ADDED a initial")
		wait(2 * time.Second)
		live.send(event("ADDED", labelled("c", "21", 1, "shop")), event("ADDED", labelled("d", "22", 2, "cache")),
			event("MODIFIED", labelled("a", "23", 2, "shop")))
		m.wantContent("a=1", "d=2")
		if st := m.state(); st.Quarantined != 3 {
			t.Errorf("state %+v, want 3 quarantined", st)
		}
		live.send(event("DELETED", labelled("a", "24", 2, "shop")))
		m.wantContent("d=2")
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
