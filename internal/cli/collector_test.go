package cli

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbageIsBoundedByWhatIsAlive(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 5 << 20: 100, 16 << 20: 100, 20 << 20: 80, 100 << 20: 50} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MiB alive: %d %%, want %d", live>>20, got, want)
		}
	}
}

func TestTheCollectorIsPacedAgainAfterEachCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	c := &collector{pace: true, rest: time.AfterFunc(time.Hour, func() {})}
	c.collected(new([64]byte))
	ballast := make([]byte, 64<<20)
	percent := 0
	for range 10_000 {
		garbage = make([]byte, 1<<20) // until the runtime collects: collections that are asked for do not count
		if percent = debug.SetGCPercent(77); percent == leastGarbage {
			break
		}
	}
	runtime.KeepAlive(ballast)
	if percent != leastGarbage {
		t.Errorf("with 64 MiB alive %d %% of garbage is allowed, want %d", percent, leastGarbage)
	}
}

var garbage []byte

func TestAtRestLittleGarbageMayLieAround(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	c := &collector{pace: true, rest: time.AfterFunc(time.Hour, func() {})}
	token := new([64]byte) // its finalizer is only run here
	paced := func() int {
		runtime.SetFinalizer(token, nil)
		c.collected(token)
		return debug.SetGCPercent(77)
	}
	c.collected(token)
	runtime.GC() // as returnMemory does
	if percent := paced(); percent != leastGarbage {
		t.Errorf("at rest %d %% of garbage is allowed, want %d", percent, leastGarbage)
	}
	if percent := paced(); percent != mostGarbage {
		t.Errorf("after the next collection of the runtime's own %d %%, want %d", percent, mostGarbage)
	}
	runtime.SetFinalizer(token, nil)
}

func TestMemoryIsReturnedWhenMuchOfItHoldsNothing(t *testing.T) {
	ballast := make([]byte, 64<<20)
	runtime.GC()
	runtime.KeepAlive(ballast) // and is garbage from here on
	runtime.GC()
	live, before := heap()
	if before < live+(50<<20) { // some of it may already have been returned
		t.Errorf("%d MiB are alive, %d held: the 64 MiB that hold nothing are missing", live>>20, before>>20)
	}
	returnMemory()
	if _, after := heap(); after > before-(50<<20) {
		t.Errorf("%d MiB were held, %d still are", before>>20, after>>20)
	}
}

func TestMemoryIsReturnedOnceAfterABurst(t *testing.T) {
	c := &collector{rest: time.AfterFunc(time.Hour, func() {})}
	token := new([64]byte) // its finalizer is only run here
	collected := func() (counts bool) {
		c.rest.Stop()
		runtime.SetFinalizer(token, nil)
		c.collected(token)
		return c.rest.Stop()
	}
	collected()
	runtime.GC() // as returnMemory does
	if collected() {
		t.Error("the collection that returned memory counts as a burst: a process at rest would collect for ever")
	}
	if !collected() {
		t.Error("the next collection of the runtime's own does not count")
	}
	runtime.SetFinalizer(token, nil)
}

func TestWhereGOGCIsOffNothingIsCollectedToReturnMemory(t *testing.T) {
	for _, off := range []bool{true, false} {
		c := &collector{off: off, rest: time.AfterFunc(time.Hour, func() {}), refused: errors.ErrUnsupported}
		garbage = make([]byte, 64<<20)
		garbage = nil
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.atRest()
		c.rest.Stop()
		runtime.ReadMemStats(&after)
		if collected := after.NumForcedGC > before.NumForcedGC; collected == off {
			t.Errorf("off: %t, collected: %t", off, collected)
		}
	}
}
