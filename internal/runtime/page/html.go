package page

import (
	"crypto/sha256"
	_ "embed" // of style and script
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// style is the style of the page: a column of tables, light or dark by the reader's choice. State is a word, and a
// colour only repeats the word.
//
//go:embed page.css
var style string

// source is the script as people read it.
//
//go:embed page.js
var source string

// script has a page follow the events; without script the page is loaded anew every ten seconds.
var script = withoutComments(source)

// withoutComments leaves out comments, which begin a line or follow a space, and the indentation. No string of the
// script looks like a comment.
func withoutComments(source string) string {
	var out strings.Builder
	for line := range strings.Lines(source) {
		code, _, _ := strings.Cut(" "+strings.TrimSpace(line), " //")
		if code = strings.TrimSpace(code); code != "" {
			out.WriteString(code + "\n")
		}
	}
	return out.String()
}

// policy is the Content-Security-Policy: nothing but the style and the script of the page, and its own data.
func policy() string {
	return "default-src 'none'; script-src '" + hashOf(script) + "'; style-src '" + hashOf(style) + "'; " +
		"img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// markup is HTML: a constant of this package, or the result of [text]. The compiler finds strings without escaping.
// html/template would do the same and have skiff grow by 2.4 MB, because the linker then keeps each method that could
// be called by name.
type markup string

// writer builds HTML.
type writer struct {
	strings.Builder
	title, class string   // of the page as a whole: its name, and good or bad
	columns      []string // of the table that was begun last, without the #
	nav          markup   // links to the parts of the page
}

// put adds a format of this package, in which all is escaped but markup and numbers.
func (w *writer) put(format markup, args ...any) {
	for i, arg := range args {
		switch arg.(type) {
		case markup, int, int64, uint64, float64, bool:
		default:
			args[i] = text(fmt.Sprint(arg))
		}
	}
	fmt.Fprintf(&w.Builder, string(format), args...)
}

// add adds markup as it is.
func (w *writer) add(m markup) { w.Builder.WriteString(string(m)) }

// text escapes a text.
func text(s string) markup { return markup(html.EscapeString(s)) }

// joined joins markup by a separator, without the parts that are empty.
func joined(separator markup, parts ...markup) (out markup) {
	for _, part := range parts {
		if part != "" && out != "" {
			out += separator
		}
		out += part
	}
	return out
}

// fragment says whether a reader, which is the script, wants the inner part of a panel alone.
func fragment(r *http.Request) bool { return r.URL.Query().Get("fragment") != "" }

// icons are those of a browser's tab by the class of the banner: they differ in shape, too.
var icons = map[string]string{
	"good": icon("#0b6b3a", "M4 8l3 3 5-6"),
	"bad":  icon("#b3261e", "M5 5l6 6M11 5l-6 6"),
	"warn": icon("#7a4f00", "M6 6a2 2 0 1 1 2 2v2M8 12v.1"),
	"":     icon("#595959", ""),
}

func icon(colour, path string) string {
	return "data:image/svg+xml," + url.PathEscape(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">`+
		`<circle cx="8" cy="8" r="8" fill="`+colour+`"/>`+
		`<path d="`+path+`" fill="none" stroke="#fff" stroke-width="2"/></svg>`)
}

// help is shown for the key ?.
const help = `<dialog id="help" aria-labelledby="keys"><h2 id="keys">Keys</h2><table><tbody>` +
	`<tr><td><kbd>j</kbd> <kbd>k</kbd></td><td>the next row, the previous row</td></tr>` +
	`<tr><td><kbd>Enter</kbd></td><td>go where the row leads</td></tr>` +
	`<tr><td><kbd>o</kbd></td><td>unfold the row, or fold it again</td></tr>` +
	`<tr><td><kbd>c</kbd></td><td>copy the command of the row, or of the page</td></tr>` +
	`<tr><td><kbd>u</kbd> <kbd>Esc</kbd></td><td>back to all objects</td></tr>` +
	`<tr><td><kbd>/</kbd></td><td>search the objects</td></tr>` +
	`<tr><td><kbd>1</kbd> to <kbd>9</kbd></td><td>the first to the ninth of the states to choose from</td></tr>` +
	`<tr><td><kbd>f</kbd></td><td>failed runs only, or all of them again</td></tr>` +
	`<tr><td><kbd>g</kbd>, then <kbd>o</kbd> <kbd>t</kbd> <kbd>q</kbd> <kbd>w</kbd></td>` +
	`<td>go to objects, timeline, queue, watches</td></tr>` +
	`<tr><td><kbd>?</kbd></td><td>this help</td></tr></tbody></table>` +
	`<form method="dialog"><button>Close</button></form></dialog>`

// write answers with a page, or with its inner part.
func (p *Page) write(w http.ResponseWriter, r *http.Request, code int, body func(out *writer)) {
	var out writer
	body(&out)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if fragment(r) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(out.String())) // the reader has gone
		return
	}
	var all writer
	place := p.o.Place.short()
	title := strings.TrimPrefix(place+": "+out.title, ": ")
	if out.class != "" {
		title = bannerSymbols[out.class] + " " + title
	}
	all.put(`<!doctype html><html lang="en" data-now="%d" data-page="%s" data-place="%s"><head><meta charset="utf-8">`+
		`<meta name="viewport" content="width=device-width,initial-scale=1">`+
		`<noscript><meta http-equiv="refresh" content="10"></noscript><title>%s</title>`, time.Now().UnixMilli(),
		p.assets, place, title)
	all.put(`<link rel="icon" id="icon" href="%s" data-good="%s" data-bad="%s" data-warn="%s">`, icons[out.class],
		icons["good"], icons["bad"], icons["warn"])
	all.add(`<style>` + markup(style) + `</style></head><body><header><a class="brand" href="/debug/">skiff</a>` +
		p.o.Place.html(p.role()) + out.nav + `<span id="live">This page is of ` +
		text(time.Now().UTC().Format(time.TimeOnly)) +
		` UTC.</span> <button type="button" class="keys">? keys</button></header>` +
		`<p id="said" role="status"></p><main>` + markup(out.String()) + `</main>` + help + `<script>` +
		markup(script) + `</script></body></html>`)
	w.WriteHeader(code)
	_, _ = w.Write([]byte(all.String())) // the reader has gone
}

// bannerSymbols are those of the classes of the banner.
var bannerSymbols = map[string]string{"good": "✔", "bad": "✖"}

// html says where the process is, for the head of each page. The script follows the role.
func (l Place) html(role string) markup {
	var parts []markup
	if l.Context != "" {
		parts = append(parts, `<b>`+text(kube.Printable(l.Context, maxText))+`</b>`)
	}
	if l.Server != "" {
		parts = append(parts, text(kube.Printable(l.Server, maxText)))
	}
	if l.Process != "" {
		parts = append(parts, text(kube.Printable(l.Process, maxText)))
	}
	if role != "" {
		parts = append(parts, `<span id="role">`+text(role)+`</span>`)
	}
	switch l.Namespaces {
	case "":
	case "all":
		parts = append(parts, "all namespaces")
	default:
		parts = append(parts, "namespaces "+text(kube.Printable(l.Namespaces, maxText)))
	}
	return `<span class="place">` + joined(" · ", parts...) + `</span>`
}

// isShort says whether a panel is one of several on a page: long tables are cut, and panels with nothing wrong folded.
func isShort(r *http.Request) bool { return r.URL.Query().Get("short") != "" }

// shortRows is how many rows a long table has on the page with all panels.
const shortRows = 10

// panelTitle begins a panel. On the page with all panels, a calm one is folded to its title and a few words.
func (w *writer) panelTitle(r *http.Request, id, title, words string, calm bool) (end markup) {
	if !isShort(r) {
		w.put(`<h2 tabindex="-1" id="%s">%s</h2>`, id, title)
		return ""
	}
	kind, open := "busy", markup(" open")
	if calm {
		kind, open = "calm", ""
	}
	w.put(`<details data-is="%s"%s><summary><h2 tabindex="-1" id="%s">%s</h2> <span class="dim">%s</span></summary>`, kind, open, id,
		title, words)
	return `</details>`
}

// section is a part of a page. The script fetches the part anew, from src, when the version behind it changes.
func (w *writer) section(r *http.Request, src, follows string, inner markup) {
	if fragment(r) {
		w.add(inner)
		return
	}
	q := r.URL.Query()
	if len(q) > 0 {
		src += "?" + q.Encode()
	}
	w.put(`<section data-src="%s" data-follows="%s">%s</section>`, src, follows, inner)
}

// whole is the page with all of its panels.
func (p *Page) whole(out *writer, r *http.Request) {
	out.nav = `<nav><a href="#owners">Objects</a> <a href="#timeline">Timeline</a> <a href="#queue">Queue</a> ` +
		`<a href="#watches">Watches</a></nav>`
	short := r.Clone(r.Context())
	q := short.URL.Query()
	q.Set("short", "1")
	short.URL.RawQuery = q.Encode()
	for _, name := range []string{"state", "owners", "timeline", "queue", "watches"} {
		p.panel(out, name, short)
	}
}

// panel is a panel of the page. A panel that fails leaves the rest of the page alone.
func (p *Page) panel(out *writer, name string, r *http.Request) {
	part := panels[name]
	var inner writer
	err := process.Contain("serve /debug/"+name, func() error { part.html(&inner, part.data(p, r), r); return nil })
	if problem := new(process.Panic); errors.As(err, &problem) {
		p.o.Panicked(problem)
		out.section(r, "/debug/"+name, name, `<h2>`+text(name)+`</h2><p class="bad">✖ This part of the page failed. `+
			`The log has it; <a href="/debug/`+text(name)+`?format=json">its data</a> may be there.</p>`)
		return
	}
	if out.title == "" {
		out.title, out.class = inner.title, inner.class
	}
	out.section(r, "/debug/"+name, name, markup(inner.String()))
}

// symbols stand before the words of states, for those who do not see colours.
var symbols = map[string][2]string{wholeProcess: {"bad", "✖"}, missing: {"bad", "✖"}, stalled: {"bad", "■"},
	failing: {"bad", "✖"}, degraded: {"warn", "▲"}, contested: {"warn", "⇄"}, waiting: {"warn", "…"},
	paused: {"dim", "‖"}, unknown: {"warn", "?"}, progressing: {"dim", "↻"}, well: {"good", "✔"}}

// Look is how a state is shown beside its word: in a class of colours (bad, warn, good, dim), with a symbol.
func Look(state string) (class, symbol string) { return symbols[state][0], symbols[state][1] }

// word is a state with its symbol.
func word(state string) markup {
	s := symbols[state]
	return `<span class="state ` + text(s[0]) + `">` + text(s[1]+` `+Word(state)) + `</span>`
}

// moment is a time as the span before now, with the exact time for readers who point there. The script counts on.
func moment(t time.Time) markup { return momentOf("", t) }

// momentOf is one whose time is in each of the news, under a name.
func momentOf(name string, t time.Time) markup {
	if t.IsZero() {
		return `<span class="dim">never</span>`
	}
	live := markup("")
	if name != "" {
		live = ` data-live="` + text(name) + `"`
	}
	at := text(t.UTC().Format(time.RFC3339))
	return `<time` + live + ` datetime="` + at + `" title="` + at + `">` + text(relative(time.Since(t))) + `</time>`
}

// planned is when something may happen, and "now" once the time has come. The script counts on.
func planned(t time.Time) markup {
	at, shown := text(t.UTC().Format(time.RFC3339)), "now"
	if until := time.Until(t); until > time.Second/2 {
		shown = relative(-until)
	}
	return `<time class="plan" datetime="` + at + `" title="` + at + `">` + text(shown) + `</time>`
}

// relative says how long ago something was, as page.js does.
func relative(d time.Duration) string {
	if d <= -time.Second/2 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// age is for how long there has been something since t. The script counts on.
func age(t time.Time) markup {
	at := text(t.UTC().Format(time.RFC3339))
	return `<time class="age" datetime="` + at + `" title="since ` + at + `">` + text(span(time.Since(t))) + `</time>`
}

// table begins a table. A column that begins with # has numbers.
func (w *writer) table(caption string, columns ...string) { w.tableIn("wide", caption, columns...) }

// foldTable begins one whose rows have two lines on a narrow screen, and the rest when they are tapped.
func (w *writer) foldTable(caption string, columns ...string) {
	w.tableIn("wide folds", caption, columns...)
}

// tap is the button that shows the rest of a row of a foldTable.
const tap = `<button type="button" class="tap" aria-label="the rest of this row" aria-expanded="false">⋯</button>`

func (w *writer) tableIn(class, caption string, columns ...string) {
	w.put(`<div class="%s"><table><caption>%s</caption><thead><tr>`, class, caption)
	w.columns = nil
	for _, c := range columns {
		name, number := strings.CutPrefix(c, "#")
		w.columns = append(w.columns, name)
		if number {
			w.put(`<th scope="col" class="n">%s</th>`, name)
		} else {
			w.put(`<th scope="col">%s</th>`, name)
		}
	}
	w.put(`</tr></thead><tbody>`)
}

// keyed adds a row; cells are HTML. The key, different for each row of a table, tells the script which row was there
// before, so that an update moves neither focus nor selection.
func (w *writer) keyed(key string, cells ...markup) {
	w.put(`<tr data-key="%s">`, key)
	for i, c := range cells {
		if i > 0 { // a narrow window shows the name of the column beside the cell
			w.put(`<td data-is="%s"`, w.columns[i])
		} else {
			w.add(`<td`)
		}
		if number, ok := strings.CutPrefix(string(c), "#"); ok {
			w.put(` class="n">%s</td>`, markup(number))
		} else {
			w.put(`>%s</td>`, c)
		}
	}
	w.put(`</tr>`)
}

func (w *writer) end() { w.put(`</tbody></table></div>`) }

// number is a cell with one.
func number(v any) markup { return text(fmt.Sprintf("#%v", v)) }

// command is a line for a terminal, with a button to copy the line.
func command(line string) markup {
	return `<code>` + text(line) + `</code> ` + copyButton
}

// copyButton is the button behind a code, to copy the code.
const copyButton markup = `<button type="button" class="copy">copy</button>`

// copyLine is a button to copy a line that has no room beside it, under the line's first two words.
func copyLine(line string) markup {
	words := strings.SplitN(line, " ", 3)
	return `<button type="button" class="copy" title="` + text(line) + `">copy ` +
		text(strings.Join(words[:min(2, len(words))], " ")) + `</button>`
}

// ref is the name of an object as a link to its page.
func ref(kind, namespace, name string) markup {
	shown := name
	if namespace != "" {
		shown = namespace + "/" + name
	}
	return `<a href="` + text(link(kind, namespace, name)) + `"><span class="kind">` + text(kind) + `</span> ` + text(shown) +
		`</a>`
}
