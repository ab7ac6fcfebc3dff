package metrics

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func text(t *testing.T, p *Page) string {
	t.Helper()
	var out strings.Builder
	if _, err := p.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Rules: MGR-09
func TestAPageIsInTheTextFormatSortedByFamily(t *testing.T) {
	p := &Page{}
	took := &Family{"b_seconds", HistogramKind, "How long."}
	h := NewHistogram([]float64{0.005, 1})
	for _, d := range []time.Duration{time.Millisecond, 5 * time.Millisecond, time.Second, time.Minute} {
		h.Observe(d)
	}
	p.Histogram(took, h, "controller", "web")
	p.Declare(&Family{"c_total", CounterKind, "Nothing\nyet."})
	p.Add(&Family{"a", GaugeKind, `A \ b.`}, math.Inf(1), "x", "q\"\\\n", "y", strings.Repeat("z", 300)+"\xff")
	want := `# HELP a A \\ b.
# TYPE a gauge
a{x="q\"\\\n",y="` + strings.Repeat("z", maxLabel) + `"} +Inf
# HELP b_seconds How long.
# TYPE b_seconds histogram
b_seconds_bucket{controller="web",le="0.005"} 2
b_seconds_bucket{controller="web",le="1"} 3
b_seconds_bucket{controller="web",le="+Inf"} 4
b_seconds_sum{controller="web"} 61.006
b_seconds_count{controller="web"} 4
# HELP c_total Nothing\nyet.
# TYPE c_total counter
`
	if got := text(t, p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAPageThatWasResetHasItsFamiliesAndNoSamples(t *testing.T) {
	p, a := &Page{}, &Family{"a", GaugeKind, "A."}
	p.Add(a, 1, "of", "before")
	p.Declare(&Family{"b", GaugeKind, "B."})
	first := text(t, p)
	p.Reset()
	if got, want := text(t, p), "# HELP a A.\n# TYPE a gauge\n# HELP b B.\n# TYPE b gauge\n"; got != want {
		t.Errorf("after the reset:\n%s\nwant\n%s", got, want)
	}
	p.Add(a, 1, "of", "before")
	if again := text(t, p); again != first {
		t.Errorf("the second time:\n%s\nthe first time:\n%s", again, first)
	}
}

func TestExponentialBoundsAreRoundNumbers(t *testing.T) {
	var got []string
	for _, b := range Exponential(1e-8, 10, 12) {
		got = append(got, number(b))
	}
	want := strings.Fields("1e-08 1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10 100 1000")
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTheRuntimeAndTheProcessAreMeasured(t *testing.T) {
	p := &Page{}
	Runtime(p)
	Process(p)
	out := text(t, p)
	names := []string{"go_goroutines ", "go_info{version=", "go_threads ", "go_memstats_heap_inuse_bytes ",
		`go_gc_duration_seconds{quantile="0.5"} `, "go_gc_duration_seconds_count "}
	if runtime.GOOS == "linux" {
		names = append(names, "process_cpu_seconds_total ", "process_resident_memory_bytes ", "process_open_fds ",
			"process_start_time_seconds ")
	}
	for _, name := range names {
		if !strings.Contains(out, "\n"+name) {
			t.Errorf("no %s in\n%s", name, out)
		}
	}
	if runtime.GOOS == "linux" && !strings.Contains(out, "process_start_time_seconds 1") {
		t.Error("the process was not started in this century")
	}
}

func BenchmarkObserve(b *testing.B) {
	h := NewHistogram(Exponential(1e-8, 10, 12))
	for b.Loop() {
		h.Observe(3 * time.Millisecond)
	}
}
