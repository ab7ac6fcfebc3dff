package operatortest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/page"
	"skiff/internal/runtime/process"
	"skiff/internal/testcluster/apiserver"
)

// Canary is a text for the fields of objects and the answers of servers that nobody may see who has no right to.
const Canary = "canary"

// WantNoCanary checks that no reader without a token is shown a [Canary]: on the live page, the pages of the objects
// with the JSON of all, and in the report of the probes. The result is everything that was shown.
func WantNoCanary(w *Env, c *controller.Controller, log *history.Log, names ...string) (shown string) {
	w.Helper()
	p := page.New(page.Options{
		Controllers: func() []*controller.Controller { return []*controller.Controller{c} },
		Leader:      func() string { return "" },
		Process:     func() []health.Problem { return nil },
		Contact:     time.Now,
		History:     log,
		Started:     time.Now(),
		Panicked:    func(p *process.Panic) { w.Error(p) },
	})
	var paths []string
	for _, panel := range []string{"", "state", "owners", "timeline", "queue", "watches"} {
		paths = append(paths, "/debug/"+panel)
		if panel != "" {
			paths = append(paths, "/debug/"+panel+"?format=json")
		}
	}
	for _, name := range names {
		for _, form := range []string{"", "?format=json"} {
			paths = append(paths, "/debug/object/"+w.Resource.Kind+"/default/"+name+form)
		}
	}
	var all strings.Builder
	for _, path := range paths {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "localhost"
		p.Handler().ServeHTTP(answer, r)
		if answer.Code != http.StatusOK {
			w.Errorf("GET %s: %d %s", path, answer.Code, answer.Body)
		}
		fmt.Fprintf(&all, "GET %s\n%s\n", path, answer.Body)
	}
	check := health.Check{Name: c.Name(), Failed: c.NotReady(), Problems: c.Problems()}.Hidden()
	health.WriteText(&all, []health.Check{check}, true, time.Now())
	report, err := json.Marshal(health.NewReport([]health.Check{check}, true, ""))
	if err != nil {
		w.Fatal(err)
	}
	all.Write(report)
	shown = all.String()
	for line := range strings.Lines(shown) {
		if strings.Contains(line, Canary) {
			w.Errorf("a reader without a token is shown: %s", line)
		}
	}
	return shown
}

// A Hurt is something that goes wrong, with a [Canary] wherever somebody else has a say.
type Hurt struct {
	Name  string
	Do    func(w *Env) // before there are objects; nil: nothing
	After func(w *Env) // a second later; nil: nothing
}

// Refusals are a Hurt for each kind of error with which a server answers a verb for a resource.
func Refusals(verbs []string, resources ...kube.Resource) (out []Hurt) {
	for _, reply := range []apiserver.Reply{{Code: 403, Reason: "Forbidden"}, {Code: 422, Reason: "Invalid"},
		{Code: 500, Reason: "InternalError"}} {
		reply.Message = "of the " + Canary
		for _, r := range resources {
			for _, verb := range verbs {
				fault := apiserver.Fault{Verb: verb, Resource: r.Plural, UserAgent: Agent, Reply: &reply}
				out = append(out, Hurt{Name: fmt.Sprint(reply.Code, " for ", verb, " of ", r.Plural),
					Do: func(w *Env) { w.API.Inject(fault) }})
			}
		}
	}
	return out
}

// HidesCanaries creates objects with the given specs in a world for each Hurt, and checks with [WantNoCanary] what a
// reader without a token is shown a moment later, and after twenty minutes. The result is everything that was shown.
func HidesCanaries(t *testing.T, o Options, prepare func(w *Env), specs map[string]string,
	hurts []Hurt) string {
	t.Helper()
	var all strings.Builder
	var c *controller.Controller
	create := o.New
	o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
		c = create(s, r)
		return c
	}
	o.Quiet = true
	for _, hurt := range hurts {
		o.Setup.History = new(history.Log)
		Run(t, o, func(w *Env) {
			prepare(w)
			w.Start()
			if hurt.Do != nil {
				hurt.Do(w)
			}
			var names []string
			for name, spec := range specs {
				w.Create(name, spec)
				names = append(names, name)
			}
			for _, wait := range []time.Duration{time.Second, 20 * time.Minute} {
				w.Pass(wait)
				if wait == time.Second && hurt.After != nil {
					hurt.After(w)
				}
				all.WriteString(WantNoCanary(w, c, o.Setup.History, names...))
			}
			if t.Failed() {
				t.Fatalf("%s: a canary was seen", hurt.Name)
			}
		})
	}
	return all.String()
}
