package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
)

// allObjects leads back.
const allObjects markup = `<p><a rel="up" href="/debug/#owners">← all objects</a></p>`

// showObject is the page of an object: the state, the events as a picture and as a table, the children.
func showObject(w *writer, a ObjectAnswer) {
	o := a.Owner
	name := o.Object()
	w.title = name
	w.put(allObjects+`<h1>%s</h1>`, name)
	owners := slices.Concat([]Owner{o}, a.Others)
	for _, one := range owners {
		w.put(`<p>%s %s`, word(one.State), strings.TrimSuffix(one.Reason+": "+one.Message, ": "))
		if one.State == well && len(one.Conditions) > 0 {
			w.put(` (%s)`, inWords(one.Conditions))
		}
		if !one.Next.IsZero() {
			w.put(`; next run %s`, planned(one.Next))
		}
		if len(owners) > 1 {
			w.put(`; controller %s`, one.Controller)
		}
		w.put(`</p>`)
	}
	if o.Command != "" {
		w.put(`<p>%s</p>`, command(o.Command))
	}
	showPicture(w, a)
	w.put(`<h2>Children and facts</h2>`)
	known := slices.DeleteFunc(slices.Clone(owners), func(one Owner) bool { return !one.hasDetails() })
	if len(known) == 0 {
		w.put(`<p>No children: none is known of this object.</p>`)
	}
	for _, one := range known {
		if len(owners) > 1 {
			w.put(`<p>Controller %s:</p>`, one.Controller)
		}
		showDetails(w, one)
	}
	showPods(w, a.Pods)
	w.put(`<h2>Conditions</h2>`)
	if len(o.Conditions) == 0 {
		w.put(`<p>None: its status has no conditions.</p>`)
		return
	}
	w.table("As the status has them.", "Type", "Status", "Reason", "Since", "Message")
	for _, c := range o.Conditions {
		w.keyed(c.Type, text(c.Type), text(string(c.Status)), text(c.Reason), since(c.Since), text(c.Message))
	}
	w.end()
}

// showPicture shows the last runs as a picture, and as a table.
func showPicture(w *writer, a ObjectAnswer) {
	w.put(`<h2>What happened</h2>`)
	if len(a.Timeline.Runs) == 0 {
		if a.Timeline.Kept > uint64(a.Timeline.held) {
			w.put(`<p>Nothing lately: none of the last %s was for this object. A change, or a failure, appears here.</p>`,
				health.Count(a.Timeline.held, "run that wrote or failed", "runs that wrote or failed"))
			return
		}
		w.put(`<p>Nothing yet, because no run since %s has written for this object or failed: `+
			`all was as declared. A change, or a failure, appears here.</p>`, clock(a.Started))
		return
	}
	now := time.Now()
	p := newPicture(a.Timeline, a.Owner.Conditions)
	w.put(`<p class="dim">%s From %s UTC on; dotted times are shortened, and each says how long it was.</p>`, p.summary(now),
		clock(p.runs[0].Due))
	p.drawStrip(w)
	p.draw(w, now)
	p.table(w, len(a.Others) > 0)
}

// summary is the picture in one sentence.
func (p picture) summary(now time.Time) string {
	first, last := p.runs[0], p.runs[len(p.runs)-1]
	out := health.Count(p.pictured(), "run", "runs") + ": "
	switch failed := p.failures(); {
	case last.Error != nil:
		out += fmt.Sprintf("%d failed, the last one %s ago.", failed, brief(now.Sub(last.Ended)))
	case p.ready.shown && p.ready.until.IsZero():
		out += fmt.Sprintf("not ready since the last change in the cluster %s ago (%s).", brief(now.Sub(p.ready.from)),
			p.ready.why)
	case p.ready.shown && p.ready.until.After(first.Due):
		out += fmt.Sprintf("ready %s after the first cause.", brief(p.ready.until.Sub(first.Due)))
	case failed > 0:
		out += fmt.Sprintf("%d failed, the last one did not.", failed)
	default:
		out += "none failed."
	}
	return out
}

// failures is how many of the runs in the picture failed.
func (p picture) failures() (n int) {
	for _, run := range p.runs {
		if run.Error != nil {
			n += p.retries[run.ID].times
		}
	}
	return n
}

// table says the same as the picture, the newest run first, and at the end a summary of earlier runs. The runs may be
// of several controllers.
func (p picture) table(w *writer, several bool) {
	w.table("The same in words, the newest first. The numbers of the writes are those of the marks.", "When",
		"Cause", "#Waited", "#Took", "Writes", "Result")
	r := p.ready
	if r.shown && r.until.IsZero() {
		w.keyed("cluster", moment(r.from), `the cluster`, "", "", "",
			`<span class="warn">… not ready: `+text(r.why)+`</span>`)
		r.shown = false
	}
	updates := 0
	for i, run := range slices.Backward(slices.Concat(p.earlier, p.runs)) {
		if i < len(p.earlier) && isUpdate(&run) {
			updates++
			continue
		}
		w.folded(updates)
		updates = 0
		if r.shown && !run.Began.After(r.until) {
			w.keyed("cluster", moment(r.until), `the cluster`, "", "#"+text(brief(r.until.Sub(r.from))), "",
				`<span class="good">✔ ready</span>`)
			r.shown = false
		}
		why := causes(run) + text(p.often(run))
		if several {
			why += `<br><span class="dim">controller ` + text(run.Controller) + `</span>`
		}
		w.keyed(fmt.Sprint(run.ID), moment(run.Began), why, "#"+text(brief(run.Began.Sub(run.Due))),
			"#"+text(brief(run.Ended.Sub(run.Began))), p.numbered(run), result(run, true))
	}
	w.folded(updates)
	w.end()
}

// numbered are the writes of a run with the numbers of their marks.
func (p picture) numbered(run history.Run) markup {
	var out []markup
	for i, one := range run.Writes {
		out = append(out, `<span class="dim">`+text(fmt.Sprint(i+1))+`</span> `+
			joined(" ", text(asked(p.kinds, run, one)), codeWord(one))+", "+text(brief(took(one))))
	}
	if run.MoreWrites > 0 {
		out = append(out, text(fmt.Sprintf("and %d more", run.MoreWrites)))
	}
	return joined("<br>", out...)
}
