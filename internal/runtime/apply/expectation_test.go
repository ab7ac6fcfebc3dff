package apply

import (
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// Where resource versions cannot be compared, the mirror counts as having reached a write only while it shows just
// that version. What was written is expected then, as with the expectations of Kubernetes' own controllers: nothing is
// written twice meanwhile, a lost event blocks nobody for longer than the trust, and the owner's end clears it.
//
// Rules: CCH-14
func TestAWriteIsExpectedForAWhileWhereVersionsCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mirror := "opaque-1"
		reached := func(_, rv string, _ time.Time) bool {
			order, comparable := kube.CompareRV(mirror, rv)
			return comparable && order >= 0
		}
		answer := &Live[struct{}]{}
		answer.Namespace, answer.Name, answer.ResourceVersion = "default", "web", "opaque-7"
		var w written
		w.set(answer)
		for _, mirror = range []string{"opaque-1", "opaque-9", "opaque-6"} { // behind or ahead: nobody can say
			if got := w.trusted(reached); got != fromAnswer {
				t.Errorf("the mirror is at %s and the copy is taken from source %d, not from the answer", mirror, got)
			}
		}
		time.Sleep(firstTrust)
		if w.trusted(reached) != fromServer {
			t.Error("the event is lost, and the answer is trusted for ever instead of a read")
		}
		mirror = "opaque-7"
		if w.trusted(reached) != fromCache {
			t.Error("the mirror shows what was written, and is not trusted")
		}

		e := New(nil, Own())
		owner := Owner{Namespace: "default", Name: "web", UID: "u1"}
		e.remembered(owner).children = []*memory{{written: w}}
		e.Forget(owner.Key())
		if len(e.remembered(owner).children) > 0 {
			t.Error("the expectation outlives its owner")
		}
	})
}
