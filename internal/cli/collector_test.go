package cli

import (
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
	c := &collector{pace: true, rest: time.AfterFunc(time.Hour, func() {})}
	c.collected(new([64]byte))
	ballast := make([]byte, 64<<20)
	percent := 0
	for range 1000 {
		runtime.GC()
		runtime.Gosched() // the finalizer has a goroutine of its own
		if percent = debug.SetGCPercent(77); percent == leastGarbage {
			break
		}
	}
	runtime.KeepAlive(ballast)
	if percent != leastGarbage {
		t.Errorf("with 64 MiB alive %d %% of garbage is allowed, want %d", percent, leastGarbage)
	}
}

func TestMemoryIsReturnedWhenMuchOfItHoldsNothing(t *testing.T) {
	c := &collector{rest: time.AfterFunc(time.Hour, func() {})}
	ballast := make([]byte, 64<<20)
	runtime.GC()
	runtime.KeepAlive(ballast) // and is garbage from here on
	runtime.GC()
	c.collected(new([64]byte))
	if !c.rest.Stop() {
		t.Error("64 MiB of garbage are kept at rest")
	}
	debug.FreeOSMemory()
	c.collected(new([64]byte))
	if c.rest.Stop() {
		t.Error("memory is to be returned that has been returned already: a process at rest would collect for ever")
	}
}
