package page

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/history"
)

// maxPictured is how many runs a picture has: as many as have room for their labels. The table has the others.
const maxPictured = 6

// picture is the recent story of an object, for the drawing and for the table.
type picture struct {
	runs    []history.Run // the oldest first; of equal failures, the last
	earlier []history.Run // the same, before these
	all     []history.Run
	retries map[uint64]retries // by the ID of the run that stands for the group
	kinds   map[string]string  // of resources
	ready   readiness
}

// retries are runs that failed alike, one after another.
type retries struct {
	times int
	first time.Time // when the first of them began
}

// alike says that two runs had the same cause, tried the same and failed in the same way.
func alike(a, b history.Run) bool {
	same := func(a, b history.Write) bool { return a.Verb == b.Verb && a.Object == b.Object && a.Code == b.Code }
	return a.Error != nil && b.Error != nil && a.Error.Reason == b.Error.Reason && a.Error.Code == b.Error.Code &&
		a.Controller == b.Controller && slices.Equal(a.Causes, b.Causes) && slices.EqualFunc(a.Writes, b.Writes, same)
}

// foldRetries keeps the last of runs that failed alike.
func (p *picture) foldRetries() (out []history.Run) {
	p.retries = map[uint64]retries{}
	for i, run := range p.all {
		r := retries{1, run.Began}
		if i > 0 && alike(p.all[i-1], run) {
			r = p.retries[p.all[i-1].ID]
			r.times++
			out = out[:len(out)-1]
		}
		p.retries[run.ID] = r
		out = append(out, run)
	}
	return out
}

// often says how often a run failed alike; "": once.
func (p picture) often(run history.Run) string {
	r := p.retries[run.ID]
	if r.times < 2 {
		return ""
	}
	return fmt.Sprintf(" ×%d, every %s", r.times, brief(run.Began.Sub(r.first)/time.Duration(r.times-1)))
}

// pictured is how many runs the picture is about.
func (p picture) pictured() (n int) {
	for _, run := range p.runs {
		n += p.retries[run.ID].times
	}
	return n
}

// readiness is how long the cluster took after the last write, until the object was ready.
type readiness struct {
	known bool // the object has the condition
	from  time.Time
	until time.Time // zero: it is not ready yet
	shown bool      // it is about the runs of the picture
	why   string    // it is not ready
}

// newPicture orders runs, the newest of which comes first.
func newPicture(t Timeline, all []ConditionWord) picture {
	p := picture{all: slices.Clone(t.Runs), kinds: t.kinds}
	slices.Reverse(p.all)
	runs := p.foldRetries()
	split := max(0, len(runs)-maxPictured)
	p.runs, p.earlier = runs[split:], runs[:split]
	at := slices.IndexFunc(all, func(c ConditionWord) bool { return c.Type == conditions.Ready })
	if p.ready.known = at >= 0; p.ready.known {
		p.findReady(all[at])
	}
	return p
}

// findReady finds between which times the cluster was at work. The condition has whole seconds, so a run that wrote a
// status within the second has noted the end: the cluster had been ready when the run became due.
func (p *picture) findReady(ready ConditionWord) {
	isReady := ready.Status == conditions.True
	p.ready.why = ready.Reason
	noted := ready.Since
	for _, run := range p.runs {
		for _, w := range run.Writes {
			if isReady && isStatus(w) && !w.Sent.Before(ready.Since) && w.Sent.Before(ready.Since.Add(time.Second)) {
				noted = run.Due
			}
		}
	}
	for _, run := range p.runs {
		if isReady && run.Began.After(noted) {
			break
		}
		for _, w := range run.Writes {
			if !isStatus(w) && !w.DryRun && !w.Refused() {
				p.ready.from, p.ready.shown = w.Sent.Add(took(w)), true
			}
		}
	}
	if isReady && p.ready.shown {
		p.ready.until = noted
		if noted.Before(p.ready.from) {
			p.ready.until = p.ready.from
		}
	}
}

// isStatus says that a write was of a status or an Event, about which the cluster does nothing.
func isStatus(w history.Write) bool {
	resource, _, _ := strings.Cut(w.Object, " ")
	return strings.HasSuffix(w.Verb, " status") || isEvent(resource)
}

// isEvent says whether a resource, as writes name it, is that of Events.
func isEvent(resource string) bool { return resource == "events" || resource == "events.events.k8s.io" }

func took(w history.Write) time.Duration { return time.Duration(w.Millis * float64(time.Millisecond)) }

// cause is why a run took place, without the namespace of all runs in the picture.
func (p picture) cause(run history.Run) string {
	if len(run.Causes) == 0 {
		return "unknown"
	}
	why := local(run, run.Causes[0])
	if more := len(run.Causes) - 1 + run.MoreCauses; more > 0 {
		why += fmt.Sprintf(" +%d", more)
	}
	return why + p.often(run)
}

// words describe a run, for readers who point there.
func (p picture) words(run history.Run) string {
	out := fmt.Sprintf("run %d: %s; waited %s, took %s", run.ID, strings.Join(run.Causes, ", "),
		brief(run.Began.Sub(run.Due)), brief(run.Ended.Sub(run.Began)))
	for i, one := range run.Writes {
		out += fmt.Sprintf("\n%d %s", i+1, asked(p.kinds, run, one))
		if one.Code >= http.StatusBadRequest {
			out += fmt.Sprint(": ", one.Code)
		}
	}
	return out
}
