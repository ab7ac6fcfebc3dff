package cache

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// Rules: RFL-02
func TestAHandlerThatLagsHearsOfAnAdditionBeforeTheListThatTakesItAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList,
			frames(thenHold, endMark("20"), added("x", "21", 1), errorEvent(410, "Expired")),
			frames(thenHold, endMark("30")))
		st := New[*pod](Options{Resource: pods, Client: s.client})
		var heard []string
		st.OnChange(func(c Change[*pod]) {
			// virtual: the relist is due long before the handler has done with the addition
			time.Sleep(10 * time.Second)
			heard = append(heard, c.Type.String()+" "+c.Object().Name)
		})
		go st.Run(t.Context())
		wait(2 * time.Minute) // less than a watch lives
		if want := []string{"ADDED x", "DELETED x"}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
	})
}

// Rules: CCH-09
func TestAReadOfWhatIsNotMirroredIsAnErrorAndSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t).on(streamedList, frames(thenHold, endMark("5")))
		kind := New[*pod](Options{Resource: pods, Client: s.client}) // declared, and not run
		key := kube.Key{Namespace: "b", Name: "x"}
		if _, _, err := kind.Get(key); Unserved(err, NotSynced) == nil {
			t.Errorf("get: %v, want %v", err, NotSynced)
		}
		if _, err := kind.List(""); Unserved(err, NotSynced) == nil {
			t.Errorf("list: %v, want %v", err, NotSynced)
		}
		if _, err := kind.ByOwner("", "u"); Unserved(err, NotSynced) == nil {
			t.Errorf("by owner: %v, want %v", err, NotSynced)
		}
		if n := len(s.seen()); n != 0 {
			t.Errorf("reads sent %d requests", n)
		}
		m := startMirror(t, s, Options{Namespaces: []string{"a"}})
		if _, _, err := m.Get(key); Unserved(err, OutOfScope) == nil || len(s.seen()) != 1 {
			t.Errorf("get of another namespace: %v after %d requests, want %v after the one that lists", err,
				len(s.seen()), OutOfScope)
		}
	})
}
