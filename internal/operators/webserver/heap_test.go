package webserver

import (
	"runtime"
	"strconv"
	"testing"
)

// BenchmarkHeapPerWebServer is what a WebServer, its children and all that is remembered of them take at rest.
func BenchmarkHeapPerWebServer(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 2000
	made := 0
	var before uint64
	benchmark(b, func(s *cannedServer, _ int, _ <-chan struct{}) {
		if made == 0 {
			before = heap()
		}
		for range n {
			made++
			s.create("web-" + strconv.Itoa(made))
			<-s.settled
		}
		b.ReportMetric(float64(heap()-before)/float64(made), "B/WebServer")
	})
}
