package page

import (
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
)

// Where the lanes of the picture are, in pixels from the top, and the room for texts. Horizontal lengths are parts of
// the width, so that the picture is as wide as the window and texts always have the same size.
const (
	causeLane, waitLane, runLane, writeLane, clusterLane = 46, 106, 146, 190, 246
	pictureHeight                                        = 284
	causeRows                                            = 3
	designWidth                                          = 720.0 // the least; a narrower window scrolls it
	leftEdge, rightEdge                                  = 84.0, 706.0
	letter                                               = 6.4 // the width of one, about
)

// draw writes the picture as SVG. now ends what is still going on.
func (p picture) draw(w *writer, now time.Time) {
	var times []time.Time
	for _, run := range p.runs {
		times = append(times, run.Due, run.Began, run.Ended)
	}
	if p.ready.shown {
		end := p.ready.until
		if end.IsZero() {
			end = now
		}
		times = append(times, p.ready.from, end)
	}
	a := newAxis(times, leftEdge, rightEdge, p.leastWidth)
	w.put(`<div class="picture"><svg role="img" aria-label="What happened and when. The table below says the same.">`)
	for _, lane := range []struct {
		y    int
		name string
	}{{causeLane, "cause"}, {waitLane, "waiting"}, {runLane, "reconcile"}, {writeLane, "writes"},
		{clusterLane, "cluster"}} {
		w.put(`<text class="lane" x="0" y="%d">%s</text><line class="rule" x1="0" x2="100%%" y1="%d" y2="%d"/>`, lane.y+15,
			lane.name, lane.y-8, lane.y-8)
	}
	for i := 1; i < len(a.times); i++ {
		class := "axis"
		if a.quiet[i] {
			class = "axis quiet"
			w.put(`<text class="dim middle" x="%s" y="14">%s</text>`, percent((a.at[i-1]+a.at[i])/2),
				brief(a.times[i].Sub(a.times[i-1])))
		}
		w.put(`<line class="%s" x1="%s" x2="%s" y1="24" y2="24"/><line class="flag" x1="%s" x2="%s" y1="20" y2="28"/>`,
			class, percent(a.at[i-1]), percent(a.at[i]), percent(a.at[i]), percent(a.at[i]))
	}
	for _, run := range p.runs { // behind all else
		due := a.x(run.Due)
		w.put(`<rect class="band" x="%s" width="%s" y="24" height="%d"/>`, percent(due), percent(a.x(run.Ended)-due),
			pictureHeight-24)
	}
	rows := make([]causeRow, causeRows)
	for _, run := range p.runs {
		p.drawRun(w, a, rows, run)
	}
	p.drawCluster(w, a, now)
	w.put(`</svg></div>`)
}

// The least widths of a run while waiting, and while working, which has a label and marks.
const leastWaiting, leastWorking = 8, 40

// leastWidth is the least width of the part after a time; 0: no run goes on.
func (p picture) leastWidth(t time.Time) (least float64) {
	for _, run := range p.runs {
		switch {
		case t.Before(run.Due) || t.After(run.Ended):
		case t.Before(run.Began):
			least = max(least, leastWaiting)
		default:
			return leastWorking
		}
	}
	return least
}

// causeRow is a row of texts.
type causeRow struct{ end float64 }

// place finds the row in which a text of so many letters has room: the text begins at its mark, or ends at the right
// edge where the room is too small. Where no row has room, the text has fewer letters.
func place(rows []causeRow, at float64, letters int) (row int, x float64, end bool, room int) {
	width := float64(letters) * letter
	from := at
	if at+width > rightEdge {
		from, end = max(leftEdge, rightEdge-width), true
	}
	for i := range rows {
		if from >= rows[i].end {
			rows[i].end = from + width + 2*letter
			if end {
				return i, rightEdge, true, letters
			}
			return i, at, false, letters
		}
		if rows[i].end < rows[row].end {
			row = i
		}
	}
	from = max(rows[row].end, leftEdge)
	rows[row].end = rightEdge
	return row, from, false, min(int((rightEdge-from)/letter), letters)
}

// drawRun draws a run: the cause, the wait, the work, and the writes.
func (p picture) drawRun(w *writer, a *axis, rows []causeRow, run history.Run) {
	due, began, ended := a.x(run.Due), a.x(run.Began), a.x(run.Ended)
	w.put(`<g><title>%s</title>`, p.words(run))
	why := cut(p.cause(run), 60)
	row, x, end, room := place(rows, due, len([]rune(why)))
	anchor := ""
	if end {
		anchor = "end"
	}
	w.put(`<text class="%s" x="%s" y="%d">%s</text><line class="flag" x1="%s" x2="%s" y1="%d" y2="%d"/>`, anchor, percent(x),
		causeLane+6+row*14, cut(why, room), percent(due), percent(due), causeLane+10+row*14, waitLane+16)
	w.put(`<rect class="waits" x="%s" width="%s" y="%d" height="8" rx="2"/><text x="%s" y="%d">%s</text>`, percent(due),
		percent(max(began-due, 3)), waitLane+10, percent(due+4), waitLane+5, brief(run.Began.Sub(run.Due)))
	class, colour, symbol := "works", "", ""
	if run.Error != nil {
		class, colour, symbol = "fails", "bad", "✖ "
	}
	w.put(`<rect class="%s" x="%s" width="%s" y="%d" height="16" rx="3"/><text x="%s" y="%d" class="%s">%s%s</text>`,
		class, percent(began), percent(max(ended-began, 4)), runLane+8, percent(began+2), runLane+4, colour, symbol,
		brief(run.Ended.Sub(run.Began)))
	p.drawWrites(w, a, run)
	w.put(`</g>`)
}

// drawWrites draws a mark with a number for each write of a run. Marks that would cover each other go below one
// another.
func (p picture) drawWrites(w *writer, a *axis, run history.Run) {
	last := [3]float64{-100, -100, -100} // where the last mark of each row is
	for i, one := range run.Writes {
		x := a.x(one.Sent)
		row := slices.IndexFunc(last[:], func(at float64) bool { return x-at >= 17 })
		if row < 0 {
			row = i % len(last)
			x = last[row] + 17
		}
		last[row] = x
		y := writeLane + 2 + row*17
		if one.Refused() {
			w.put(`<text class="bad cross" x="%s" y="%d">✖%d</text>`, percent(x), y+6, i+1)
			continue
		}
		w.put(`<circle class="write" cx="%s" cy="%d" r="8"/><text class="mark" x="%s" y="%d">%d</text>`, percent(x+8), y,
			percent(x+8), y+4, i+1)
	}
}

// drawStrip draws the times of earlier runs, to scale, in a line.
func (p picture) drawStrip(w *writer) {
	if len(p.all) == len(p.runs) {
		return
	}
	first, last := p.all[0].Began, p.runs[len(p.runs)-1].Ended
	x := func(t time.Time) string {
		return percent(leftEdge + float64(t.Sub(first))/float64(max(last.Sub(first), 1))*(rightEdge-leftEdge))
	}
	w.put(`<div class="picture"><svg class="strip" role="img" aria-label="When all of the last %d runs were.">`+
		`<text class="lane" x="0" y="17">all %d runs</text>`, len(p.all), len(p.all))
	for _, run := range p.all {
		at := x(run.Began)
		if run.Error != nil {
			w.put(`<text class="bad middle" x="%s" y="17">✖</text>`, at)
			continue
		}
		w.put(`<line class="tick" x1="%s" x2="%s" y1="4" y2="20"/>`, at, at)
	}
	from := x(p.runs[0].Due)
	w.put(`<line class="axis" x1="%s" x2="%s" y1="24" y2="24"/><text class="dim" x="%s" y="40">%s</text>`+
		`<text class="dim end" x="%s" y="40">%s, below in detail: the last %d</text></svg></div>`, from, percent(rightEdge),
		percent(leftEdge), clock(first), percent(rightEdge), clock(last), p.pictured())
}

// clock is a time of the day, and the day if not today.
func clock(t time.Time) string {
	if time.Since(t) > 20*time.Hour {
		return t.UTC().Format("Jan 2 15:04:05")
	}
	return t.UTC().Format(time.TimeOnly)
}

// drawCluster draws how long the cluster took.
func (p picture) drawCluster(w *writer, a *axis, now time.Time) {
	y := clusterLane + 4
	switch r := p.ready; {
	case !r.known:
		w.put(`<text class="dim" x="%s" y="%d">the object has no Ready condition</text>`, percent(leftEdge), y+11)
	case !r.shown:
		w.put(`<text class="dim" x="%s" y="%d">none of these runs has changed anything in the cluster</text>`,
			percent(leftEdge), y+11)
	case r.until.IsZero():
		from := a.x(r.from)
		label, x, anchor := fmt.Sprintf("… not ready for %s: %s", brief(now.Sub(r.from)), cut(r.why, 24)), from+6, ""
		if x+float64(len([]rune(label)))*letter > rightEdge {
			x, anchor = from-6, " end"
		}
		w.put(`<rect class="open" x="%s" width="%s" y="%d" height="16" rx="3"/><text class="warn%s" x="%s" y="%d">%s</text>`,
			percent(from), percent(a.x(now)-from), y, anchor, percent(x), y+12, label)
	default:
		from, until := a.x(r.from), a.x(r.until)
		w.put(`<rect class="cluster" x="%s" width="%s" y="%d" height="16" rx="3"/>`, percent(from), percent(max(until-from, 4)), y)
		label, x, anchor := "✔ ready after "+brief(r.until.Sub(r.from)), until+6, ""
		if x+float64(len(label))*letter > designWidth {
			x, anchor = from-6, " end"
		}
		w.put(`<text class="good%s" x="%s" y="%d">%s</text>`, anchor, percent(x), y+12, label)
	}
}

// percent is a place of the design as a part of the width.
func percent(x float64) string { return fmt.Sprintf("%.2f%%", x/designWidth*100) }

// cut shortens a text to a number of letters.
func cut(s string, most int) string {
	letters := []rune(kube.Printable(s, maxText))
	if len(letters) <= most {
		return string(letters)
	}
	return string(letters[:max(0, most-1)]) + "…"
}

// brief is a duration for a label: three digits at most, but that of days.
func brief(d time.Duration) string {
	switch ms := float64(d.Microseconds()) / 1000; {
	case ms < 0.05:
		return "0 ms"
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return span(d)
}
