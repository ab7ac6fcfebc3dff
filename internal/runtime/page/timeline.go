package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

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
	failed.Set("failed", "1")
	link := `<a data-f href="/debug/timeline?` + text(failed.Encode()) + `">Failed only</a>`
	if t.Failed {
		link = `Failed only; <a data-f href="` + text(all) + `">all</a>`
	}
	w.put(`<h2 id="timeline">Timeline</h2><p class="dim">%s wrote or failed, %d more found all as it should be. %s</p>`,
		count(int(t.Kept), "run", "runs"), t.Quiet, link)
	if len(t.Runs) == 0 {
		w.put(`<p>None: since the start no such run has written or failed.</p>`)
		return
	}
	w.tallTable("The last runs of reconcile functions, the newest first.", "Time", "Object", "Cause", "#ms", "Writes",
		"Result")
	for _, run := range t.Runs {
		w.keyed(fmt.Sprint(run.ID), moment(run.Began), ref(run.Kind, run.Namespace, run.Name), causes(run),
			number(fmt.Sprintf("%.1f", history.Millis(run.Ended.Sub(run.Began)))), writes(run), result(run))
	}
	w.end()
}

func causes(run history.Run) string {
	out := text(local(run, strings.Join(run.Causes, ", ")))
	if run.MoreCauses > 0 {
		out += fmt.Sprintf(" and %d more", run.MoreCauses)
	}
	return out
}

// local is a text about a run without the namespace that nearly all in it has, that of its object.
func local(run history.Run, s string) string {
	if run.Namespace == "" {
		return s
	}
	return strings.ReplaceAll(s, " "+run.Namespace+"/", " ")
}

func writes(run history.Run) string {
	var out []string
	for _, one := range run.Writes {
		out = append(out, text(asked(run, one))+" "+codeWord(one))
	}
	if run.MoreWrites > 0 {
		out = append(out, fmt.Sprintf("and %d more", run.MoreWrites))
	}
	return strings.Join(out, "<br>")
}

func result(run history.Run) string {
	if run.Error == nil {
		return `<span class="result">` + text(run.Outcome) + `</span>`
	}
	out := `<span class="result"><span class="bad">✖ ` + text(run.Error.Reason) + `</span>`
	if run.Error.Code != 0 {
		out += fmt.Sprintf(" (%d %s)", run.Error.Code, text(run.Error.Kind))
	}
	if len(run.Error.Fields) > 0 {
		out += ": " + text(strings.Join(run.Error.Fields, ", "))
	}
	if run.Error.Text != "" {
		out += "<br>" + text(run.Error.Text)
	}
	return out + "<br>" + text(strings.TrimPrefix(run.Outcome, "error, ")) + `</span>`
}

// asked is what a write asked the server for.
func asked(run history.Run, w history.Write) string {
	out := w.Verb + " " + local(run, w.Object)
	if w.DryRun {
		return "dry run: " + out
	}
	return out
}

// codeWord is a code of HTTP as a word: what was refused is marked.
func codeWord(w history.Write) string {
	switch {
	case w.Code == 0:
		return `<span class="bad">✖ no answer</span>`
	case w.Refused():
		return fmt.Sprintf(`<span class="bad">✖ %d</span>`, w.Code)
	}
	return fmt.Sprint(w.Code)
}
