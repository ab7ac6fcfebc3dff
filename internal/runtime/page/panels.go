package page

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
)

// This file shows each panel but the timeline as HTML.

func showState(w *writer, data any, _ *http.Request) {
	s := data.(State)
	class := "good"
	if !s.Banner.Well {
		class = "bad"
	}
	w.title, w.class = s.Banner.Text, class
	w.put(`<h1 id="banner" class="%s">%s</h1><p class="dim">skiff %s, started %s`, class,
		bannerSymbols[class]+" "+w.title, s.Version, moment(s.Started))
	if s.Leader != "" {
		w.put(`; %s`, s.Leader)
	}
	w.put(`; the API server answered %s`, momentOf("lastContact", s.Contact))
	if !s.OldestAt.IsZero() {
		w.put(`; oldest watch contact %s (%s)`, momentOf("oldestWatch", s.OldestAt), s.OldestOf)
	}
	w.put(`; checked %s.</p>`, momentOf("time", s.Time))
	if len(s.general) == 0 {
		return
	}
	w.foldTable("Beside the objects below, the worst first.", "State", "What", "Reason", "Since", "Next try",
		"What to do")
	for _, t := range s.general {
		what := text(t.Object())
		if t.Name != "" {
			what = ref(t.Kind, t.Namespace, t.Name)
		}
		w.keyed(t.path()+"/"+t.Controller+t.Reason+t.Message, word(t.State)+tap, what, text(t.Reason), sinceOf(t),
			nextTry(t), toDo(t))
	}
	w.end()
	if s.moreGeneral > 0 {
		w.put(`<p>and %d more: <a href="/debug/state?format=json">all as JSON</a></p>`, s.moreGeneral)
	}
}

// sinceOf is since when an object, or a part of the process, is in its state.
func sinceOf(t Trouble) markup {
	if t.Since.IsZero() {
		return ""
	}
	return moment(t.Since)
}

// nextTry is when the next run may start, and how many have failed.
func nextTry(t Trouble) markup {
	var next, failed markup
	if !t.Next.IsZero() {
		next = planned(t.Next)
	}
	if t.Failures > 0 {
		failed = "after " + text(health.Count(t.Failures, "failure", "failures"))
	}
	return joined(", ", next, failed)
}

// toDo is the message or, where the reader may not see a message, the next step.
func toDo(t Trouble) markup {
	if t.Message != "" || t.Command == "" {
		return text(t.Text())
	}
	return text(t.Step) + `<br>` + command(t.Command)
}

func showOwners(w *writer, data any, _ *http.Request) {
	o := data.(Owners)
	w.put(`<h2 tabindex="-1" id="owners">Objects</h2>`)
	if len(o.States) == 0 && o.asked.none() {
		showExample(w, o.example)
		return
	}
	showFilter(w, o)
	if o.All == 0 {
		w.put(`<p>None matches. <a href="/debug/?state=all#owners">All objects</a></p>`)
		return
	}
	columns := []string{"State", "Object", "Children", "What it says", "Since", "Next try", "#Last write", "#Age"}
	w.foldTable(health.Count(o.All, "object", "objects")+", the worst first.", columns...)
	times := map[string]int{} // an object is there once for each of its controllers
	for _, one := range o.Owners {
		times[one.path()]++
	}
	for _, one := range o.Owners {
		open, name := one.path() == o.asked.Open, ref(one.Kind, one.Namespace, one.Name)
		if times[one.path()] > 1 {
			name += `<br><span class="dim">controller ` + text(one.Controller) + `</span>`
		}
		w.keyed(one.path()+"/"+one.Controller, word(one.State)+tap, name, unfold(one, o.asked, open), says(one),
			sinceOf(one.Trouble), nextTry(one.Trouble), "#"+lately(one.LastWrite), "#"+age(one.Created))
		if open && one.hasDetails() {
			var inner writer
			showDetails(&inner, one)
			w.put(`<tr class="more"><td colspan="%d">%s</td></tr>`, len(columns), markup(inner.String()))
		}
	}
	w.end()
	if o.Next != "" {
		w.put(`<p><a href="/debug/?%s#owners">the next %d</a></p>`, o.Next, perPage)
	}
}

// showExample is the list without an object: what to begin with.
func showExample(w *writer, example string) {
	if example == "" {
		w.put(`<p>None: there is no object of a kind that skiff works for.</p>`)
		return
	}
	w.put(`<p>No objects yet. Create one:</p><code class="block">%s</code> %s`,
		"kubectl apply -f - <<'END'\n"+example+"END", copyButton)
}

// says is the text about an object beside the state.
func says(one Owner) markup {
	if one.Reason == "" || one.State == progressing {
		return inWords(one.Conditions)
	}
	reason := `<b>` + text(one.Reason) + `</b>`
	if one.Message != "" && one.Command != "" { // else toDo shows the command
		reason += " " + copyLine(one.Command)
	}
	return reason + `<br><span class="says">` + toDo(one.Trouble) + `</span>`
}

// showFilter shows by what objects may be chosen, and how many there are of each.
func showFilter(w *writer, o Owners) {
	f := o.asked
	all, broken := 0, 0
	for _, one := range o.States {
		all += one.Count
		if needsAttention(one.Name) {
			broken += one.Count
		}
	}
	w.put(`<p class="chips">`)
	chip := func(state, class, words string) {
		to := f
		to.State, to.After = state, nil
		current := markup("")
		if o.shown.State == state || state == everything && o.shown.State == "" {
			current = ` aria-current="true"`
		}
		w.put(`<a class="state %s" data-key="state-%s" href="/debug/?%s#owners"%s>%s</a> `, class, state,
			to.query(""), current, words)
	}
	if broken > 0 {
		words := health.Count(broken, "needs", "need") + " attention"
		chip(attention, "", words)
	}
	for _, one := range o.States {
		class, symbol := Look(one.Name)
		chip(one.Name, class, symbol+" "+health.Count(one.Count, Word(one.Name), Word(one.Name)))
	}
	chip(everything, "", "all "+health.Count(all, "object", "objects"))
	w.put(`</p><form id="filter" action="/debug/#owners"><input type="hidden" name="state" value="%s"><label>Search `+
		`<input name="q" id="search" value="%s"></label> `, f.State, f.Search)
	choice(w, "kind", "Kind", f.Kind, o.Kinds)
	choice(w, "namespace", "Namespace", f.Namespace, o.Namespaces)
	w.put(`<button>Show</button></form>`)
}

// choice is a list to choose from. The chosen value is always in the list.
func choice(w *writer, name, label, chosen string, from []Count) {
	w.put(`<label>%s <select name="%s" id="%s"><option value="" data-key="%s">all</option>`, label, name, name, name)
	if i := slices.IndexFunc(from, func(c Count) bool { return c.Name == chosen }); i < 0 && chosen != "" {
		from = append([]Count{{chosen, 0}}, from...)
	}
	for _, one := range from {
		selected := ""
		if one.Name == chosen {
			selected = " selected"
		}
		w.put(`<option value="%s" data-key="%s %s"%s>%s (%d)</option>`, one.Name, name, one.Name, selected, one.Name,
			one.Count)
	}
	w.put(`</select></label> `)
}

// unfold is how many children are ready, as a link that shows the children below the row, or hides the children again.
func unfold(one Owner, f filter, open bool) markup {
	words := fmt.Sprintf("%d of %d ready", one.Ready, one.Declared)
	switch {
	case !one.hasDetails():
		return `<span class="dim">none</span>`
	case one.Declared == 0:
		words = "details"
	}
	symbol, next := "▸", one.path()
	if open {
		symbol, next = "▾", ""
	}
	return `<a href="/debug/?` + text(f.query(next)) + `#owners" aria-expanded="` + text(strconv.FormatBool(open)) + `">` +
		text(symbol+" "+words) + `</a>`
}

func showQueue(w *writer, data any, r *http.Request) {
	q := data.(QueueAnswer)
	words, calm := q.inWords(time.Now())
	end := w.panelTitle(r, "queue", "Queue", words, calm)
	defer w.add(end)
	w.table("Each controller.", "Controller", "#Workers", "#Running", "#Due", "#Delayed", "#Failing", "Due since",
		"#Longest run, ms")
	for _, c := range q.Controllers {
		since := markup("")
		if !c.OldestDue.IsZero() {
			since = moment(c.OldestDue)
		}
		w.keyed(c.Controller, text(c.Controller), number(c.Workers), number(c.Running), number(c.Due),
			number(c.Delayed), number(c.Failing), since, number(c.Longest))
	}
	w.end()
	showHooks(w, q.Hooks)
	if len(q.Samples) < 2 {
		return
	}
	w.put(`<div class="charts">`)
	showChart(w, q.Samples, "Keys that are due", "", func(s history.Sample) float64 { return float64(s.Due) })
	showChart(w, q.Samples, "Run time that 99 of 100 runs did not exceed (p99)", " ms",
		func(s history.Sample) float64 { return s.RunP99 })
	w.put(`</div>`)
}

// longDue is for how long a key may be due before somebody should look at the queue.
const longDue = time.Minute

// inWords sums the queue up, and says whether the queue is calm. Objects that fail are in the list of objects.
func (q QueueAnswer) inWords(now time.Time) (words string, calm bool) {
	due, failing, calm := 0, 0, true
	for _, c := range q.Controllers {
		due += c.Due
		failing += c.Failing
		calm = calm && (c.OldestDue.IsZero() || now.Sub(c.OldestDue) < longDue)
	}
	words = fmt.Sprintf("%s, %d due, %d failing", health.Count(len(q.Controllers), "controller", "controllers"), due,
		failing)
	broken := 0
	for _, h := range q.Hooks {
		if h.Failing || h.Parked {
			broken++
		}
	}
	if len(q.Hooks) > 0 {
		words += fmt.Sprintf("; %d of %s failing", broken, health.Count(len(q.Hooks), "hook", "hooks"))
	}
	return words, calm && broken == 0
}

// showHooks shows what the controllers call.
func showHooks(w *writer, hooks []Hook) {
	if len(hooks) == 0 {
		return
	}
	w.table("Their hooks, those that fail first. The times are upper bounds.", "Hook", "State", "#Calls", "#p50, ms",
		"#p99, ms", "#Errors", "Last error")
	for _, h := range hooks {
		state := markup(`<span class="good">✔ answers</span>`)
		switch {
		case h.Parked:
			state = `<span class="bad">✖ fails, one call at a time</span>`
		case h.Failing:
			state = `<span class="bad">✖ its last call failed</span>`
		case h.Calls == 0:
			state = `<span class="dim">not called yet</span>`
		}
		last := markup("")
		if h.LastError != "" {
			last = text(h.LastError) + ", " + moment(h.LastErrorAt)
		}
		w.keyed(h.Hook+" "+h.Controller, text(h.Hook+" of "+h.Controller), state, number(h.Calls), number(h.P50),
			number(h.P99), number(h.Errors), last)
	}
	w.end()
}

func showWatches(w *writer, data any, r *http.Request) {
	a := data.(WatchAnswer)
	broken := 0
	for _, one := range a.Watches {
		if one.Parked || one.Problem != "" {
			broken++
		}
	}
	end := w.panelTitle(r, "watches", "Watches", fmt.Sprintf("%s, %d with a problem",
		health.Count(len(a.Watches)+a.Omitted, "watch", "watches"), broken), broken == 0)
	defer w.add(end)
	if len(a.Watches) == 0 {
		w.put(`<p>None: nothing is watched yet.</p>`)
		return
	}
	w.table("What is mirrored, with what is missing first.", "Resource", "Namespace", "Phase", "#Objects", "#KiB",
		"Last contact", "Last bookmark", "Restarts", "Problem")
	shown := a.Watches
	if isShort(r) {
		shown = shown[:min(len(shown), max(shortRows, broken))]
	}
	for _, one := range shown {
		problem := markup("")
		if one.Problem != "" {
			problem = `<span class="bad">` + text(codeOf(one.Code)+" "+one.Problem) + `</span>`
		}
		name := text(one.Resource)
		if one.Selector != "" {
			name += `<br><span class="dim">` + text(one.Selector) + `</span>`
		}
		var restarts []string
		for _, reason := range slices.Sorted(maps.Keys(one.Restarts)) {
			restarts = append(restarts, fmt.Sprintf("%d %s", one.Restarts[reason], reason))
		}
		w.keyed(one.Resource+" "+one.Namespace+" "+one.Selector, name, text(one.Namespace), text(one.Phase),
			number(one.Objects), number(one.Bytes>>10), moment(one.Contact), moment(one.Bookmark),
			text(strings.Join(restarts, ", ")), problem)
	}
	w.end()
	switch {
	case len(shown) < len(a.Watches):
		w.put(`<p><a href="/debug/watches">all %d</a></p>`, len(a.Watches))
	case a.Omitted > 0:
		w.put(`<p>and %d more</p>`, a.Omitted)
	}
}

// codeOf is a code of HTTP; "" for none.
func codeOf(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprint(code)
}
