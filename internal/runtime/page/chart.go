package page

import (
	"fmt"
	"math"
	"strings"
	"time"

	"skiff/internal/runtime/history"
)

// The size of a chart in its own units; the style stretches the chart to the width of the page.
const chartWidth, chartHeight = 900, 64

// showChart draws samples over time, between axes with values and times, and says the last and the largest value.
func showChart(w *writer, samples []history.Sample, name, unit string, value func(history.Sample) float64) {
	first, last := samples[0], samples[len(samples)-1]
	period := max(last.At.Sub(first.At), time.Second)
	most := 0.0
	for _, s := range samples {
		most = max(most, value(s))
	}
	top := axisTop(most)
	var points strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&points, "%.0f,%.1f ", float64(s.At.Sub(first.At))/float64(period)*chartWidth,
			chartHeight*(1-value(s)/top))
	}
	w.put(`<figure><figcaption>%s: %g%s now, at most %g%s in the last %s.</figcaption><div class="chart">`+
		`<p class="values">`, name, value(last), unit, most, unit, brief(period))
	for _, v := range []float64{top, top / 2, 0} {
		w.put(`<span>%g%s</span>`, v, unit)
	}
	w.put(`</p><svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s"><path class="rule" `+
		`d="M0 0H%d M0 %dH%d M0 %dH%d"/><polygon points="0,%d %s%d,%d"/><polyline points="%s"/></svg>`, chartWidth,
		chartHeight, name+" over time, as said above", chartWidth, chartHeight/2, chartWidth, chartHeight, chartWidth,
		chartHeight, points.String(), chartWidth, chartHeight, points.String())
	w.put(`<p class="times"><span>%s</span><span>%s UTC</span></p></div></figure>`, clock(first.At), clock(last.At))
}

// axisTop is the end of an axis for values up to most: 2, 4 or 10 times a power of ten, so that half of it is round.
func axisTop(most float64) float64 {
	if most <= 2 {
		return 2
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range []float64{1, 2, 4} {
		if most <= times*power {
			return times * power
		}
	}
	return 10 * power
}
