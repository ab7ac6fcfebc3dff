package cache

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

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
		if !m.Reached("a", "15", time.Now()) || m.Reached("b", "15", time.Now()) {
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
		st := New[*otherPod](Options{Resource: node, Client: s.client, Namespaces: []string{"a", "b"}})
		go st.Run(t.Context())
		st.waitSynced()
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
		go st.Run(t.Context())
		live.send(added("a", "1", 1), added("poison", "2", 1), endMark("5"), modified("poison", "6", 2),
			modified("a", "7", 2))
		if want := []string{"a", "poison", "poison", "a"}; !slices.Equal(heard, want) {
			t.Errorf("the second handler heard %q, want %q", heard, want)
		}
		if st := st.State()[0]; st.Counters.Panics != 2 || !st.Synced {
			t.Errorf("state %+v, want 2 panics, synced", st)
		}
	})
}
