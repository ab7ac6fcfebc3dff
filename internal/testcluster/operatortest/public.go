package operatortest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/page"
)

// Canary is a text for the fields of objects and the answers of servers that nobody may see who has no right to.
const Canary = "canary"

// WantNoCanary checks that no reader without a token is shown a [Canary]: on the live page, the pages of the objects
// and their JSON, and in the report of the probes. It returns all that such a reader is shown.
func WantNoCanary(w *Env, c *controller.Controller, log *history.Log, names ...string) (shown string) {
	w.Helper()
	p := page.New(page.Options{
		Controllers: func() []*controller.Controller { return []*controller.Controller{c} },
		Leader:      func() string { return "" },
		Process:     func() []health.Problem { return nil },
		Contact:     time.Now,
		History:     log,
		Started:     time.Now(),
		Panicked:    func(where string, problem any) { w.Errorf("%s panicked: %v", where, problem) },
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
