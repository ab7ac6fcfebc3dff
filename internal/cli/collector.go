package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// mostGarbage is Go's default, in per cent of what is alive. With 200, 500 WebServers (5 MiB alive) took 8 % less
	// CPU, and a process that does nothing but answer scrapes 26 MiB instead of 22.
	mostGarbage = 100
	// leastGarbage keeps the collector from running all the time. Measured with 10,000 WebServers, 35 MiB alive: with
	// 50 instead of 100 the process takes 95 MiB after its start instead of 134, and the start a sixth more CPU.
	leastGarbage = 50
	// smallGarbage is how much garbage may lie around where the two allow it: what is alive between 16 and 32 MiB is
	// collected between the one pace and the other.
	smallGarbage = 16 << 20
)

// paceCollector has the garbage collector run more often where much is alive. GOGC takes precedence.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		setGarbage(new([64]byte))
	}
}

// setGarbage sets how much garbage there may be before the next collection, and comes back after it: nothing else
// refers to token, so each collection finds it unused and runs its finalizer.
func setGarbage(token *[64]byte) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(garbagePercent(live[0].Value.Uint64()))
	runtime.SetFinalizer(token, setGarbage)
}

// garbagePercent returns how much garbage there may be, in per cent of what is alive.
func garbagePercent(live uint64) int {
	return int(min(max(smallGarbage*100/max(live, 1), leastGarbage), mostGarbage))
}
