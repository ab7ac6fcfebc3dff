package metrics

import (
	"runtime"
	"runtime/debug"
	"time"
)

var (
	goInfo       = &Family{"go_info", GaugeKind, "Version of Go that the program was built with."}
	goGoroutines = &Family{"go_goroutines", GaugeKind, "Number of goroutines that exist."}
	goThreads    = &Family{"go_threads", GaugeKind, "Number of threads that the Go runtime has made."}
	goMaxProcs   = &Family{"go_sched_gomaxprocs_threads", GaugeKind, "Threads that run Go code at once (GOMAXPROCS)."}
	goMemLimit   = &Family{"go_gc_gomemlimit_bytes", GaugeKind, "Memory limit of the Go runtime (GOMEMLIMIT)."}
	goGC         = &Family{"go_gc_duration_seconds", SummaryKind, "Pauses of the program for garbage collection."}
)

// memStats are the families of runtime.MemStats, with the names of client_golang.
var memStats = []struct {
	family Family
	value  func(*runtime.MemStats) uint64
}{
	{Family{"go_memstats_alloc_bytes", GaugeKind, "Bytes of objects on the heap, with the garbage."},
		func(m *runtime.MemStats) uint64 { return m.Alloc }},
	{Family{"go_memstats_alloc_bytes_total", CounterKind, "Bytes of objects that were ever put on the heap."},
		func(m *runtime.MemStats) uint64 { return m.TotalAlloc }},
	{Family{"go_memstats_sys_bytes", GaugeKind, "Bytes that were obtained from the operating system."},
		func(m *runtime.MemStats) uint64 { return m.Sys }},
	{Family{"go_memstats_mallocs_total", CounterKind, "Objects that were ever put on the heap."},
		func(m *runtime.MemStats) uint64 { return m.Mallocs }},
	{Family{"go_memstats_frees_total", CounterKind, "Objects that were ever freed."},
		func(m *runtime.MemStats) uint64 { return m.Frees }},
	{Family{"go_memstats_heap_alloc_bytes", GaugeKind, "Bytes of objects on the heap, as go_memstats_alloc_bytes."},
		func(m *runtime.MemStats) uint64 { return m.HeapAlloc }},
	{Family{"go_memstats_heap_sys_bytes", GaugeKind, "Bytes of the heap that were obtained from the system."},
		func(m *runtime.MemStats) uint64 { return m.HeapSys }},
	{Family{"go_memstats_heap_idle_bytes", GaugeKind, "Bytes of the heap that hold no object."},
		func(m *runtime.MemStats) uint64 { return m.HeapIdle }},
	{Family{"go_memstats_heap_inuse_bytes", GaugeKind, "Bytes of the heap that hold objects."},
		func(m *runtime.MemStats) uint64 { return m.HeapInuse }},
	{Family{"go_memstats_heap_released_bytes", GaugeKind, "Bytes of the heap that were given back."},
		func(m *runtime.MemStats) uint64 { return m.HeapReleased }},
	{Family{"go_memstats_heap_objects", GaugeKind, "Number of objects on the heap."},
		func(m *runtime.MemStats) uint64 { return m.HeapObjects }},
	{Family{"go_memstats_stack_inuse_bytes", GaugeKind, "Bytes of the stacks of goroutines."},
		func(m *runtime.MemStats) uint64 { return m.StackInuse }},
	{Family{"go_memstats_stack_sys_bytes", GaugeKind, "Bytes that were obtained from the system for stacks."},
		func(m *runtime.MemStats) uint64 { return m.StackSys }},
	{Family{"go_memstats_mspan_inuse_bytes", GaugeKind, "Bytes of mspan structures that are in use."},
		func(m *runtime.MemStats) uint64 { return m.MSpanInuse }},
	{Family{"go_memstats_mspan_sys_bytes", GaugeKind, "Bytes obtained for mspan structures."},
		func(m *runtime.MemStats) uint64 { return m.MSpanSys }},
	{Family{"go_memstats_mcache_inuse_bytes", GaugeKind, "Bytes of mcache structures that are in use."},
		func(m *runtime.MemStats) uint64 { return m.MCacheInuse }},
	{Family{"go_memstats_mcache_sys_bytes", GaugeKind, "Bytes obtained for mcache structures."},
		func(m *runtime.MemStats) uint64 { return m.MCacheSys }},
	{Family{"go_memstats_buck_hash_sys_bytes", GaugeKind, "Bytes of the runtime's table for profiles."},
		func(m *runtime.MemStats) uint64 { return m.BuckHashSys }},
	{Family{"go_memstats_gc_sys_bytes", GaugeKind, "Bytes of the garbage collector's own data."},
		func(m *runtime.MemStats) uint64 { return m.GCSys }},
	{Family{"go_memstats_other_sys_bytes", GaugeKind, "Bytes of other data of the runtime."},
		func(m *runtime.MemStats) uint64 { return m.OtherSys }},
	{Family{"go_memstats_next_gc_bytes", GaugeKind, "Size of the heap at the next collection."},
		func(m *runtime.MemStats) uint64 { return m.NextGC }},
}

var lastGC = &Family{"go_memstats_last_gc_time_seconds", GaugeKind, "When the last garbage collection " +
	"ended, in seconds since 1970."}

// Runtime adds the families of the Go runtime. Reading them stops the program for some ten microseconds.
func Runtime(p *Page) {
	p.Add(goInfo, 1, "version", runtime.Version())
	p.Add(goGoroutines, float64(runtime.NumGoroutine()))
	p.Add(goMaxProcs, float64(runtime.GOMAXPROCS(0)))
	p.Add(goMemLimit, float64(debug.SetMemoryLimit(-1)))
	threads, _ := runtime.ThreadCreateProfile(nil)
	p.Add(goThreads, float64(threads))

	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for i := range memStats {
		p.Add(&memStats[i].family, float64(memStats[i].value(&m)))
	}
	p.Add(lastGC, float64(m.LastGC)/float64(time.Second))

	gc := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&gc)
	b := p.of(goGC)
	for i, q := range []string{"0", "0.25", "0.5", "0.75", "1"} {
		line(b, goGC.Name, "", gc.PauseQuantiles[i].Seconds(), []string{"quantile", q})
	}
	line(b, goGC.Name, "_sum", gc.PauseTotal.Seconds(), nil)
	line(b, goGC.Name, "_count", float64(gc.NumGC), nil)
}
