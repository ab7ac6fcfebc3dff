package page

import (
	"math"
	"slices"
	"time"
)

// axis is the time axis of a picture. While a run waits or works, time is roughly to scale; quiet times in between are
// shortened, or the milliseconds of the runs could not be seen beside the hours between runs. Each quiet time says how
// long.
type axis struct {
	times []time.Time // the bounds of all parts, ascending
	at    []float64   // where these are
	quiet []bool      // that the part which ends there is a quiet time; false for the first
}

// The widths of a part before all are scaled to fit: the square root of the milliseconds, so that a part of a hundred
// times the length is ten times as wide, within bounds that leave room for a label.
const (
	mostBusy              = 160
	leastQuiet, mostQuiet = 52, 90
)

// newAxis makes an axis from left to right for all these times. least is the least width of the part after a time; 0:
// nothing goes on then.
func newAxis(times []time.Time, left, right float64, least func(time.Time) float64) *axis {
	times = slices.CompactFunc(slices.SortedFunc(slices.Values(times), time.Time.Compare), time.Time.Equal)
	a := &axis{times: times, at: make([]float64, len(times)), quiet: make([]bool, len(times))}
	for i := 1; i < len(times); i++ {
		took := times[i].Sub(times[i-1])
		root := math.Sqrt(float64(took.Microseconds()) / 1000)
		busy := least(times[i-1].Add(took / 2))
		width := min(max(root*4, busy), mostBusy)
		if a.quiet[i] = busy == 0; a.quiet[i] {
			width = min(max(root, leastQuiet), mostQuiet)
		}
		a.at[i] = a.at[i-1] + width
	}
	scale := 0.0
	if total := a.at[len(times)-1]; total > 0 {
		scale = min((right-left)/total, 3) // a few bars need not fill a wide page
	}
	for i := range a.at {
		a.at[i] = left + a.at[i]*scale
	}
	return a
}

// x returns where a time is.
func (a *axis) x(t time.Time) float64 {
	i, found := slices.BinarySearchFunc(a.times, t, time.Time.Compare)
	switch {
	case found:
		return a.at[i]
	case i == 0:
		return a.at[0]
	case i == len(a.times):
		return a.at[i-1]
	}
	part := float64(t.Sub(a.times[i-1])) / float64(a.times[i].Sub(a.times[i-1]))
	return a.at[i-1] + part*(a.at[i]-a.at[i-1])
}
