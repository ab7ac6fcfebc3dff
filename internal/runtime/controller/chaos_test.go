package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/testcluster/apiserver"
)

// Each seed is a life of random edits, deletions, refused and lost writes, broken and expired watches, and
// restarts of the controller. When it calms down, each parent must have its copy, whatever was seen or missed.
//
// Rules: MGR-15
func TestWhateverHappensTheWorldEndsAsDeclared(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playChaos(t, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

func playChaos(t *testing.T, dice *rand.Rand) {
	w := newWorld(t)
	want := map[string]string{} // parents and their values
	stop := w.run(w.copier(logr.Discard()))
	for range 60 {
		name := fmt.Sprint("p", dice.IntN(5))
		switch dice.IntN(8) {
		case 0, 1, 2:
			want[name] = fmt.Sprint(dice.IntN(1000))
			w.put(name, "parent", want[name], nil)
		case 3:
			if _, ok := want[name]; ok {
				delete(want, name)
				w.delete(name)
			}
		case 4: // somebody deletes or edits the copy
			if w.value(name+"-copy") == "none" {
				continue
			}
			if dice.IntN(2) == 0 {
				w.delete(name + "-copy")
			} else {
				w.put(name+"-copy", "child", "edited", nil)
			}
		case 5, 6:
			w.disturb(dice)
		case 7:
			stop()
			stop = w.run(w.copier(logr.Discard()))
		}
		time.Sleep(time.Duration(dice.IntN(3000)) * time.Millisecond)
	}
	// Longer than the longest backoff of a mirror and of a key that fails for a while.
	time.Sleep(5 * time.Minute)
	for name, value := range want {
		if got := w.value(name + "-copy"); got != value {
			t.Errorf("%s-copy has %s, want %s", name, got, value)
		}
	}
	stop()
}

// disturb lets the next requests of the controller go wrong; those of the user never do.
func (w *world) disturb(dice *rand.Rand) {
	fault := []apiserver.Fault{
		{Resource: "configmaps", Verb: "watch",
			Watch: apiserver.WatchFault{End: apiserver.EndCut, After: dice.IntN(3)}},
		{Resource: "configmaps", Verb: "watch",
			Watch: apiserver.WatchFault{End: apiserver.EndMidFrame, After: dice.IntN(3)}},
		{Resource: "configmaps", Verb: "watch", Watch: apiserver.WatchFault{Gone: apiserver.GoneInStream}},
		{Resource: "configmaps", Verb: "watch", Watch: apiserver.WatchFault{Gone: apiserver.GoneAsHTTP}},
		{Resource: "configmaps", Verb: "watch",
			Watch: apiserver.WatchFault{Duplicate: true, EventDelay: 500 * time.Millisecond}},
		{Resource: "configmaps", Verb: "list", Reply: &apiserver.Reply{Code: 503, Reason: "ServiceUnavailable"}},
		{Resource: "configmaps", Verb: "patch", Reply: &apiserver.Reply{Code: 409, Reason: "Conflict"}},
		{Resource: "configmaps", Verb: "create", Cut: apiserver.CutAfter},
		{Resource: "configmaps", Verb: "create", Reply: &apiserver.Reply{Code: 500, Reason: "InternalError"}},
	}[dice.IntN(9)]
	fault.UserAgent = skiffAgent
	fault.Times = 1 + dice.IntN(3)
	w.api.Inject(fault)
}
