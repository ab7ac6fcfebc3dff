package metrics

import (
	"math"
	"sync/atomic"
	"time"
)

// Histogram counts durations by how long they were. It is made by NewHistogram; Observe may be called from any
// goroutine.
type Histogram struct {
	bounds []float64       // seconds, ascending; the last bucket has no bound
	counts []atomic.Uint64 // one more than bounds; each without those of the buckets before
	nanos  atomic.Int64    // the sum: 292 years
}

// NewHistogram returns a histogram with these upper bounds of its buckets, in seconds and ascending.
func NewHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a duration. It takes two atomic additions and a search of the bounds.
func (h *Histogram) Observe(d time.Duration) {
	seconds := d.Seconds()
	low, high := 0, len(h.bounds)
	for low < high {
		if mid := (low + high) / 2; h.bounds[mid] < seconds {
			low = mid + 1
		} else {
			high = mid
		}
	}
	h.counts[low].Add(1)
	h.nanos.Add(int64(d))
}

func (h *Histogram) sum() float64 { return float64(h.nanos.Load()) / float64(time.Second) }

// Exponential returns n bounds, of which each is factor times the one before.
func Exponential(first, factor float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		// Rounded, so that a bound reads 1e-07 and not 9.999999999999999e-08.
		out[i] = rounded(first * math.Pow(factor, float64(i)))
	}
	return out
}

func rounded(v float64) float64 {
	scale := math.Pow(10, 12-math.Ceil(math.Log10(v)))
	return math.Round(v*scale) / scale
}
