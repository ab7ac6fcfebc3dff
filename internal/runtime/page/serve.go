package page

import (
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
)

const (
	// maxURL is more than any filter needs.
	maxURL = 2 << 10
	// maxShownRuns is how many runs an answer has, and maxShownKeys how many keys of a queue.
	maxShownRuns, maxShownKeys = 50, 100
)

// headers are those of each answer: nothing may be loaded, framed, kept or guessed.
var headers = map[string]string{
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// panel is a part of the page: data, and the same as HTML.
type panel struct {
	data func(p *Page, r *http.Request) any
	html func(w *writer, data any, r *http.Request)
}

var panels = map[string]panel{
	"state": {func(p *Page, _ *http.Request) any { return p.State() }, showState},
	"owners": {func(p *Page, r *http.Request) any {
		f := readFilter(r.URL.Query())
		f.brokenFirst = !wantsJSON(r) // a program gets the requested form
		return p.owners(f)
	}, showOwners},
	"timeline": {func(p *Page, r *http.Request) any {
		fold := !wantsJSON(r) && r.URL.Query().Get("updates") == "" // a program gets all
		return p.timeline(r, r.URL.Query().Get("object"), fold)
	}, showTimeline},
	"queue":   {func(p *Page, _ *http.Request) any { return p.queueAnswer() }, showQueue},
	"watches": {func(p *Page, _ *http.Request) any { return p.watchAnswer() }, showWatches},
}

// Handler serves the page and its data below /debug/.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	for name, part := range panels {
		mux.HandleFunc("GET /debug/"+name, func(w http.ResponseWriter, r *http.Request) {
			if wantsJSON(r) {
				writeJSON(w, part.data(p, r))
				return
			}
			p.write(w, r, http.StatusOK, func(out *writer) {
				if fragment(r) {
					out.WriteString(p.part(name, r))
					return
				}
				p.panel(out, name, r)
			})
		})
	}
	mux.HandleFunc("GET /debug/stream", p.stream)
	mux.HandleFunc("GET /debug/object/{kind}/{namespace}/{name}", p.object)
	mux.HandleFunc("GET /debug/{$}", func(w http.ResponseWriter, r *http.Request) {
		p.write(w, r, http.StatusOK, func(out *writer) { p.whole(out, r) })
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/debug/", http.StatusFound)
	})
	return p.guard(mux)
}

// guard refuses requests without the right to read the page. A page of another site whose name points to this machine
// (DNS rebinding) is recognized by the Host header.
func (p *Page) guard(next http.Handler) http.Handler {
	policy := policy()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD: this page changes nothing", http.StatusMethodNotAllowed)
		case len(r.URL.RequestURI()) > maxURL:
			http.Error(w, "the URL is too long", http.StatusRequestURITooLong)
		case !p.known(r.Host):
			http.Error(w, "the page is not served under this host name: ask for it by its IP address, or have the "+
				"name allowed", http.StatusMisdirectedRequest)
		case site == "cross-site" && mode != "navigate":
			http.Error(w, "another site may only link to this page", http.StatusForbidden)
		case !p.authorized(r):
			if mode == "" || mode == "navigate" { // the script shows the refusal itself: no dialog over the page
				w.Header().Set("WWW-Authenticate", `Basic realm="skiff"`)
			}
			http.Error(w, "the token of the page is needed, as a bearer token or as the password",
				http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// known says whether a Host header names this machine: an address, localhost, or a configured name.
func (p *Page) known(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return host == "localhost" || net.ParseIP(host) != nil || slices.Contains(p.o.Hosts, host)
}

// authorized says whether the request has the token, if one is needed.
func (p *Page) authorized(r *http.Request) bool {
	if p.o.Token == nil {
		return true
	}
	want, err := p.o.Token()
	if err != nil || want == "" {
		return false
	}
	got, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, got, _ = r.BasicAuth()
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1
}

func wantsJSON(r *http.Request) bool {
	return r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json")
}

func writeJSON(w http.ResponseWriter, data any) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(data) // the reader has gone
}

// Timeline is what /debug/timeline answers.
type Timeline struct {
	Format string        `json:"format"`
	Object string        `json:"object,omitempty"`
	Kept   uint64        `json:"runs"`      // that wrote or failed, since the start
	Quiet  uint64        `json:"quietRuns"` // runs that found all as declared
	Failed bool          `json:"failedOnly,omitempty"`
	Runs   []history.Run `json:"list"`

	held    int // how many runs were looked at: if none matches, all that are in memory
	fold    bool
	updates map[uint64]int    // how many runs that wrote only a status came directly after the run of an ID
	kinds   map[string]string // of resources
}

// timeline returns the last runs, of an object (KIND/NAMESPACE/NAME) or of all. With fold, runs that wrote only a
// status are counted.
func (p *Page) timeline(r *http.Request, object string, fold bool) Timeline {
	failed := r.URL.Query().Get("failed") != ""
	updates, skipped, held := map[uint64]int{}, 0, 0
	runs, kept, quiet := p.o.History.Runs(maxShownRuns, func(run *history.Run) bool {
		held++
		if object != "" && object != run.Kind+"/"+run.Namespace+"/"+run.Name || failed && run.Error == nil {
			return false
		}
		if fold && isUpdate(run) {
			skipped++
			return false
		}
		updates[run.ID], skipped = skipped, 0
		return true
	})
	updates[0] = skipped // before the first of the runs
	out := Timeline{Format: Format, Object: kube.Printable(object, maxText), Kept: kept, Quiet: quiet, Failed: failed,
		Runs: []history.Run{}, held: held, fold: fold, updates: updates, kinds: p.kinds()}
	for _, run := range runs {
		if run.Error != nil && !p.open() {
			without := *run.Error
			without.Text = ""
			run.Error = &without
		}
		out.Runs = append(out.Runs, run)
	}
	return out
}

// kinds are those of the resources that are watched.
func (p *Page) kinds() map[string]string {
	out := map[string]string{}
	for _, w := range controller.WatchStates(p.o.Controllers()...) {
		out[w.Resource.GroupResource()] = w.Resource.Kind
	}
	return out
}

// QueueAnswer is what /debug/queue answers.
type QueueAnswer struct {
	Format      string           `json:"format"`
	Controllers []Queue          `json:"controllers"`
	Hooks       []Hook           `json:"hooks,omitempty"`
	Keys        []Key            `json:"keys"`
	Samples     []history.Sample `json:"samples"`
}

// Key is a key that runs or waits.
type Key struct {
	Controller string   `json:"controller"`
	Key        string   `json:"key"`
	State      string   `json:"state"` // running, due, delayed
	Causes     []string `json:"causes"`
	Failures   int      `json:"failures,omitempty"`
}

func (p *Page) queueAnswer() QueueAnswer {
	out := QueueAnswer{Format: Format, Controllers: p.queues(), Hooks: p.hooks(), Keys: []Key{},
		Samples: p.o.History.Samples()}
	for _, c := range p.o.Controllers() {
		pending, _, _, _ := c.View(maxShownKeys)
		for _, one := range pending {
			if len(out.Keys) == maxShownKeys {
				return out
			}
			out.Keys = append(out.Keys, keyOf(c.Name(), one))
		}
	}
	return out
}

func keyOf(name string, one controller.Pending) Key {
	k := Key{Controller: name, Key: kube.Printable(one.Key.String(), maxText), State: "delayed",
		Causes: []string{}, Failures: one.Failures}
	switch {
	case one.Running:
		k.State = "running"
	case !one.Due.After(time.Now()):
		k.State = "due"
	}
	for _, cause := range one.Causes {
		k.Causes = append(k.Causes, kube.Printable(cause, maxText))
	}
	return k
}

// WatchAnswer is what /debug/watches answers.
type WatchAnswer struct {
	Format  string  `json:"format"`
	Watches []Watch `json:"watches"`
	Omitted int     `json:"omitted,omitempty"`
}

func (p *Page) watchAnswer() WatchAnswer {
	out := WatchAnswer{Format: Format}
	out.Watches, out.Omitted = p.watches()
	return out
}

// ObjectAnswer is what /debug/object/KIND/NAMESPACE/NAME answers.
type ObjectAnswer struct {
	Format   string    `json:"format"`
	Started  time.Time `json:"started"` // of the process
	Owner    Owner     `json:"object"`
	Others   []Owner   `json:"otherControllers,omitempty"` // the same object, as other controllers have it
	Pods     *Pods     `json:"pods,omitempty"`
	Timeline Timeline  `json:"timeline"`
}

// object answers about an object. The namespace of a cluster-scoped object is "-".
func (p *Page) object(w http.ResponseWriter, r *http.Request) {
	kind, namespace, name := r.PathValue("kind"), r.PathValue("namespace"), r.PathValue("name")
	if namespace == "-" {
		namespace = ""
	}
	rows := p.find(p.glance(), kind, kube.Key{Namespace: namespace, Name: name}, "")
	src, follows := link(kind, namespace, name), "owners timeline"
	if len(rows) == 0 && wantsJSON(r) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		writeJSON(w, map[string]string{"format": Format})
		return
	}
	if len(rows) == 0 {
		const none = "There is no such object, or no controller of skiff works for it."
		p.write(w, r, http.StatusNotFound, func(out *writer) {
			out.title = kind + " " + name
			out.section(r, src, follows, allObjects+`<p>`+none+`</p>`)
		})
		return
	}
	p.addWrites(rows)
	data := ObjectAnswer{Format, p.o.Started, rows[0], rows[1:], p.pods(r.Context(), rows[0]),
		p.timeline(r, rows[0].path(), false)}
	if wantsJSON(r) {
		writeJSON(w, data)
		return
	}
	p.write(w, r, http.StatusOK, func(out *writer) {
		var inner writer
		showObject(&inner, data)
		out.title = inner.title
		out.section(r, src, follows, markup(inner.String()))
	})
}

// link is the address of an object's page.
func link(kind, namespace, name string) string {
	if namespace == "" {
		namespace = "-"
	}
	return "/debug/object/" + url.PathEscape(kind) + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}
