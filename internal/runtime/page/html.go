package page

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"
)

// style is that of the page: one column of tables, light or dark as the reader has it. State is a word, and its colour
// only repeats it.
const style = `:root{--bg:#fff;--fg:#1a1a1a;--dim:#595959;--line:#d0d0d0;--bad:#b3261e;--warn:#7a4f00;--good:#0b6b3a}
@media(prefers-color-scheme:dark){:root{--bg:#161616;--fg:#ececec;--dim:#a8a8a8;--line:#444;--bad:#ff8a80;` +
	`--warn:#f0b352;--good:#6fd195}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1200px;padding:0 16px}
h1{font-size:22px;margin:16px 0 4px}h2{font-size:17px;margin:28px 0 4px}
p{margin:4px 0}a{color:inherit}.dim{color:var(--dim)}.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%}caption{text-align:left;color:var(--dim);padding:4px 0}
th,td{text-align:left;vertical-align:top;padding:4px 12px 4px 0;border-bottom:1px solid var(--line)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{font:13px ui-monospace,monospace}
.bad{color:var(--bad);font-weight:600}.warn{color:var(--warn);font-weight:600}.good{color:var(--good);font-weight:600}
input,select,button{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);padding:2px 6px}
:focus-visible{outline:2px solid currentColor;outline-offset:2px}svg{display:block;width:100%;height:auto}
`

// styleHash is what the Content-Security-Policy allows.
var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

// writer builds HTML. All texts of others go through text; put is for what this package has written.
type writer struct{ strings.Builder }

func (w *writer) put(format string, args ...any) { fmt.Fprintf(&w.Builder, format, args...) }

// text escapes a text.
func text(s string) string { return html.EscapeString(s) }

// write answers with a page.
func (p *Page) write(w http.ResponseWriter, body func(out *writer)) {
	var out writer
	out.WriteString(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" ` +
		`content="width=device-width"><meta http-equiv="refresh" content="10"><style>` + style + `</style>`)
	body(&out)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(out.String())) // the reader has gone
}

// whole is the page with all of its panels. One that fails does not take the others along.
func (p *Page) whole(out *writer, r *http.Request) {
	for _, name := range []string{"state", "owners", "timeline", "queue", "watches"} {
		out.WriteString(p.contained(name, r))
	}
}

// contained is a panel, or what went wrong with it.
func (p *Page) contained(name string, r *http.Request) (fragment string) {
	defer func() {
		if recover() != nil {
			fragment = `<h2>` + name + `</h2><p class="bad">This part of the page failed. The log has it; ` +
				`<a href="/debug/` + name + `?format=json">its data</a> may be there.</p>`
		}
	}()
	var out writer
	part := panels[name]
	part.html(&out, part.data(p, r), r)
	return out.String()
}

// symbols stand before the words of states, for those who do not see colours.
var symbols = map[string][2]string{process: {"bad", "✖"}, missing: {"bad", "✖"}, stalled: {"bad", "■"},
	failing: {"bad", "✖"}, degraded: {"bad", "▲"}, contested: {"warn", "⇄"}, waiting: {"warn", "…"},
	paused: {"dim", "‖"}, well: {"good", "✔"}}

// Look is how a state is shown beside its word: in a class of colours (bad, warn, good, dim), with a symbol.
func Look(state string) (class, symbol string) { return symbols[state][0], symbols[state][1] }

// word is a state with its symbol.
func word(state string) string {
	s := symbols[state]
	return `<span class="` + s[0] + `">` + s[1] + ` ` + state + `</span>`
}

// moment is a time as it was before now, with the time itself for those who point at it.
func moment(t time.Time) string {
	if t.IsZero() {
		return `<span class="dim">never</span>`
	}
	d := time.Since(t).Round(time.Second)
	words := d.String() + " ago"
	if d < 0 {
		words = "in " + (-d).String()
	}
	return `<time title="` + t.UTC().Format(time.RFC3339) + `">` + words + `</time>`
}

// table begins a table. A column that begins with # has numbers.
func (w *writer) table(caption string, columns ...string) {
	w.put(`<div class="wide"><table><caption>%s</caption><thead><tr>`, text(caption))
	for _, c := range columns {
		if name, number := strings.CutPrefix(c, "#"); number {
			w.put(`<th scope="col" class="n">%s</th>`, name)
		} else {
			w.put(`<th scope="col">%s</th>`, c)
		}
	}
	w.put(`</tr></thead><tbody>`)
}

// row adds one; cells are HTML.
func (w *writer) row(cells ...string) {
	w.put(`<tr>`)
	for _, c := range cells {
		if number, ok := strings.CutPrefix(c, "#"); ok {
			w.put(`<td class="n">%s</td>`, number)
		} else {
			w.put(`<td>%s</td>`, c)
		}
	}
	w.put(`</tr>`)
}

func (w *writer) end() { w.put(`</tbody></table></div>`) }

// number is a cell with one.
func number(v any) string { return fmt.Sprintf("#%v", v) }

// ref is the name of an object as a link to its page.
func ref(kind, namespace, name string) string {
	shown := name
	if namespace != "" {
		shown = namespace + "/" + name
	}
	return `<a href="` + text(link(kind, namespace, name)) + `">` + text(kind+" "+shown) + `</a>`
}
