package cli

import (
	"os"
	"runtime"
	"runtime/metrics"
	"time"
)

// Processors of the Go runtime are halved where less than idleShare of them is used, and doubled above busyShare. What
// is left after the one is below the other, so that the number does not go back and forth.
const (
	idleShare = 0.25
	busyShare = 0.75
	// askAgain is how often the runtime is asked under load how many there may be: the CPU limit of a container may be
	// raised while it runs, and to ask stops all goroutines for a moment.
	askAgain = time.Minute
)

// processors fits GOMAXPROCS to the load. A controller waits for its server most of the time, and each answer or event
// that finds idle processors wakes another thread to look for work. 1,000 WebServers made by ten workers on four cores
// take 1.22 ms of CPU each instead of 1.58, and 34 MiB instead of 36. A long list gets all of them.
type processors struct {
	most        int       // what the runtime has chosen: the cores, or the limit of the control group
	asked       time.Time // when it chose
	used, total float64   // processor seconds until the last look
}

// fitProcessors starts to fit the number after each collection of garbage, unless GOMAXPROCS is set in the
// environment. Collections are frequent where much happens, and cost nothing where nothing does.
func fitProcessors() (fitting bool) {
	if os.Getenv("GOMAXPROCS") != "" {
		return false
	}
	p := &processors{most: runtime.GOMAXPROCS(0), asked: time.Now()}
	p.collected(new([64]byte))
	return true
}

// collected is called after each collection, as that of collector.
func (p *processors) collected(token *[64]byte) {
	samples := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(samples)
	total := samples[0].Value.Float64()
	used := total - samples[1].Value.Float64()
	n := runtime.GOMAXPROCS(0)
	share := (used - p.used) / (total - p.total)
	if share > busyShare && time.Since(p.asked) > askAgain {
		runtime.SetDefaultGOMAXPROCS()
		p.most, p.asked = runtime.GOMAXPROCS(0), time.Now()
	}
	if next := fit(n, p.most, share); next != runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(next)
	}
	p.used, p.total = used, total
	runtime.SetFinalizer(token, p.collected)
}

// fit returns how many processors to use, at most a number, after n were used for a share of the time.
func fit(n, most int, share float64) int {
	switch {
	case share > busyShare:
		return min(2*n, most)
	case share < idleShare:
		return max(n/2, 1)
	}
	return n
}
