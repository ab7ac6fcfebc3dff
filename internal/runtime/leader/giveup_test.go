package leader

import (
	"errors"
	"testing"
	"time"
)

// Package manager has the case of work that does not end.
func TestALeaderThatGivesUpIsReplacedAndContendsAgain(t *testing.T) {
	run(t, func(w *world) {
		a := w.start("a")
		w.wantLeader("a", 0)
		b := w.start("b")
		time.Sleep(time.Minute)
		a.GiveUp(errors.New("no progress"))
		if a.Held() == nil || a.Standing().Leading {
			t.Error("it leads still")
		}
		w.wantLeader("b", DefaultLeaseDuration+time.Second)
		time.Sleep(10 * time.Minute)
		w.wantLeader("b", 0)
		if err := a.Check(); err != nil {
			t.Errorf("alive: %v", err)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
		w.wantLeader("a", 2*DefaultLeaseDuration)
		if err := a.Held(); err != nil {
			t.Error(err)
		}
		a.GiveUp(errors.New("no progress")) // and no other contends
		w.wantLeader("", time.Second)
		w.wantLeader("a", 3*DefaultLeaseDuration)
		if err := a.end(); err != nil {
			t.Error(err)
		}
	})
}
