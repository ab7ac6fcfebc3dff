package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
)

// This file shows runs as HTML.

func showTimeline(w *writer, data any, r *http.Request) {
	t := data.(Timeline)
	failed := url.Values{}
	if t.Object != "" {
		failed.Set("object", t.Object)
	}
	all := "/debug/timeline?" + failed.Encode()
	these := all
	failed.Set("failed", "1")
	link := `<a data-f href="/debug/timeline?` + text(failed.Encode()) + `">Failed only</a>`
	if t.Failed {
		these = "/debug/timeline?" + failed.Encode()
		link = `Failed only; <a data-f href="` + text(all) + `">all</a>`
	}
	w.put(`<h2 tabindex="-1" id="timeline">Timeline</h2><p class="dim">%s wrote or failed, %s all as it should be. %s`,
		health.Count(t.Kept, "run", "runs"), health.Count(t.Quiet, "more found", "more found"), link)
	if t.fold && !t.Failed {
		w.put(`; <a href="/debug/timeline?updates=1">with status updates</a>`)
	}
	w.put(`</p>`)
	if len(t.Runs) == 0 && t.updates[0] == 0 {
		w.put(`<p>None: since the start no such run has written or failed.</p>`)
		return
	}
	shown := t.Runs
	short := isShort(r)
	if short {
		shown = shown[:min(len(shown), shortRows)]
	}
	w.foldTable("The last runs of reconcile functions, the newest first.", "Time", "Object", "Cause", "#ms", "Writes",
		"Result")
	for _, run := range shown {
		w.folded(t.updates[run.ID])
		w.keyed(fmt.Sprint(run.ID), moment(run.Began)+tap, ref(run.Kind, run.Namespace, run.Name), causes(run),
			number(fmt.Sprintf("%.1f", history.Millis(run.Ended.Sub(run.Began)))), t.writes(run), result(run, !short))
	}
	if len(shown) < len(t.Runs) {
		w.end()
		w.put(`<p><a href="%s">the last %d</a></p>`, these, len(t.Runs))
		return
	}
	w.folded(t.updates[0])
	w.end()
}

// folded is a row for runs that wrote only a status.
func (w *writer) folded(updates int) {
	if updates > 0 {
		w.put(`<tr class="fold"><td colspan="%d">+ %s</td></tr>`, len(w.columns),
			health.Count(updates, "status update", "status updates"))
	}
}

// isUpdate says that a run has written a status, or an Event, and nothing else.
func isUpdate(run *history.Run) bool {
	changed := func(w history.Write) bool { return !isStatus(w) || w.Refused() }
	return run.Error == nil && len(run.Writes) > 0 && run.MoreWrites == 0 && !slices.ContainsFunc(run.Writes, changed)
}

func causes(run history.Run) markup {
	out := text(local(run, strings.Join(run.Causes, ", ")))
	if run.MoreCauses > 0 {
		out += text(fmt.Sprintf(" and %d more", run.MoreCauses))
	}
	return out
}

// local is a text about a run without the namespace of the object, which nearly all texts of the run have.
func local(run history.Run, s string) string {
	if run.Namespace == "" {
		return s
	}
	return strings.ReplaceAll(s, " "+run.Namespace+"/", " ")
}

func (t Timeline) writes(run history.Run) markup {
	var out []markup
	for _, one := range run.Writes {
		out = append(out, joined(" ", text(asked(t.kinds, run, one)), codeWord(one)))
	}
	if run.MoreWrites > 0 {
		out = append(out, text(fmt.Sprintf("and %d more", run.MoreWrites)))
	}
	return joined("<br>", out...)
}

// result is how a run ended. withText adds the text of an error, which the list of objects has, too.
func result(run history.Run, withText bool) markup {
	if run.Error == nil {
		return `<span class="result">` + text(run.Outcome) + `</span>`
	}
	out := `<span class="result"><span class="bad">✖ ` + text(run.Error.Reason) + `</span>`
	if run.Error.Code != 0 {
		out += " (" + text(strings.TrimSpace(fmt.Sprintf("%d %s", run.Error.Code, run.Error.Kind))) + ")"
	}
	if len(run.Error.Fields) > 0 {
		out += ": " + text(strings.Join(run.Error.Fields, ", "))
	}
	if withText && run.Error.Text != "" {
		out += " <br>" + text(run.Error.Text) // a narrow window shows one line
	}
	return out + " <br>" + text(strings.TrimPrefix(run.Outcome, "error, ")) + `</span>`
}

// verbs are the words for a write to come, and for a write done.
var verbs = map[string][2]string{"create": {"create", "created"}, "patch": {"change", "changed"},
	"apply": {"apply", "applied"}, "delete": {"delete", "deleted"}, "patch status": {"update", "updated"}}

// verbOf is the word for a write: whether it was done, or only tried.
func verbOf(w history.Write) string {
	words, ok := verbs[w.Verb]
	switch {
	case !ok:
		return w.Verb
	case w.DryRun || w.Code == 0 || w.Code >= http.StatusBadRequest:
		return words[0]
	}
	return words[1]
}

// asked is what a write has done, or was to do.
func asked(kinds map[string]string, run history.Run, w history.Write) string {
	resource, key, _ := strings.Cut(w.Object, " ")
	name, kind := strings.TrimPrefix(key, run.Namespace+"/"), cmp.Or(kinds[resource], resource)
	what := kind + " " + name
	switch {
	case strings.HasSuffix(w.Verb, " status") && kind == run.Kind && name == run.Name:
		what = "status"
	case strings.HasSuffix(w.Verb, " status"):
		what = "status of " + what
	case isEvent(resource):
		what = "an Event"
	}
	if w.DryRun {
		return "dry run: " + verbOf(w) + " " + what
	}
	return verbOf(w) + " " + what
}

// codeWord is a code of HTTP where something was refused, or is to be noted.
func codeWord(w history.Write) markup {
	switch {
	case w.Code == 0:
		return `<span class="bad">✖ no answer</span>`
	case w.Refused():
		return `<span class="bad">✖ ` + text(fmt.Sprint(w.Code)) + `</span>`
	case w.Again:
		return text(fmt.Sprintf("%d, sent again", w.Code))
	case w.Code >= http.StatusBadRequest:
		return text(fmt.Sprint(w.Code))
	}
	return ""
}
