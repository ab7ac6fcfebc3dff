package manager

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// maxDebugKeys bounds the keys on a debug page for each controller; the number of all keys stands beside.
const maxDebugKeys = 200

// maxDebugText bounds a text on a debug page.
const maxDebugText = 1000

// debug serves the pages for those who search for a fault: the profiles of Go, and the keys of each controller, with
// names and causes of reconciles, and no content of any object.
func (m *Manager) debug() http.Handler {
	mux := http.NewServeMux()
	// With heap, goroutine and the like below, but without cmdline, which may have a token.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/controllers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		_ = out.Encode(m.debugPage()) // the reader has gone
	})
	return mux
}

// debugPage is the form of /debug/controllers.
type debugPage struct {
	Time        time.Time         `json:"time"`
	Leading     *bool             `json:"leading,omitempty"` // absent without leader election
	Controllers []debugController `json:"controllers"`
	Watches     []debugWatch      `json:"watches"`
}

type debugController struct {
	Name       string           `json:"name"`
	Workers    int              `json:"workers"`
	Running    int              `json:"running"`
	Due        int              `json:"due"`     // keys that wait for a worker
	Delayed    int              `json:"delayed"` // keys that wait for the end of a delay
	Keys       []debugKey       `json:"keys,omitempty"`
	KeysOmit   int              `json:"keysOmitted,omitempty"`
	Failing    []debugFailing   `json:"failing,omitempty"`
	FailOmit   int              `json:"failingOmitted,omitempty"`
	NotWorking []debugNamespace `json:"notWorking,omitempty"`
}

// debugKey is a key that runs or waits.
type debugKey struct {
	Key      string    `json:"key"`
	Running  string    `json:"running,omitempty"` // for how long
	Due      time.Time `json:"due,omitzero"`      // when its next run may begin
	Causes   []string  `json:"causes,omitempty"`
	More     int       `json:"moreCauses,omitempty"`
	Failures int       `json:"failures,omitempty"`
}

type debugFailing struct {
	Key      string    `json:"key"`
	Failures int       `json:"failures"`
	Stalled  bool      `json:"stalled"` // tried every five minutes, or when something changes
	Since    time.Time `json:"since,omitzero"`
}

type debugNamespace struct {
	Namespace string `json:"namespace"`
	Problem   string `json:"problem"`
}

type debugWatch struct {
	Resource    string    `json:"resource"`
	Selector    string    `json:"selector,omitempty"`
	Namespace   string    `json:"namespace,omitempty"`
	Phase       string    `json:"phase"`
	Synced      bool      `json:"synced"`
	Objects     int       `json:"objects"`
	ResumeAt    string    `json:"resourceVersion,omitempty"` // where the next watch begins
	Age         string    `json:"lastContactAge,omitempty"`
	LastContact time.Time `json:"lastContact,omitzero"`
	Problem     string    `json:"problem,omitempty"`
}

func (m *Manager) debugPage() debugPage {
	page := debugPage{Time: time.Now(), Controllers: []debugController{}, Watches: []debugWatch{}}
	if m.o.Elector != nil {
		leading := m.o.Elector.Leading()
		page.Leading = &leading
	}
	for _, c := range m.controllers() {
		page.Controllers = append(page.Controllers, debugOf(c))
	}
	for _, w := range controller.WatchStates(m.controllers()...) {
		if len(page.Watches) == maxDebugKeys {
			break
		}
		one := debugWatch{Resource: w.Resource.GroupResource(), Selector: w.Labels, Namespace: w.Namespace,
			Phase: w.Phase, Synced: w.Synced, Objects: w.Objects, ResumeAt: kube.Printable(w.ResourceVersion, 100),
			LastContact: w.LastContact, Problem: kube.Printable(w.Problem, maxDebugText)}
		if !w.LastContact.IsZero() {
			one.Age = time.Since(w.LastContact).Round(time.Millisecond).String()
		}
		page.Watches = append(page.Watches, one)
	}
	return page
}

func debugOf(c *controller.Controller) debugController {
	s := c.Stats()
	pending, waiting, failing, failed := c.View(maxDebugKeys)
	out := debugController{Name: c.Name(), Workers: s.Workers, Running: s.Queue.Running, Due: s.Queue.Due,
		Delayed: s.Queue.Delayed, KeysOmit: waiting - len(pending), FailOmit: failed - len(failing)}
	for _, p := range pending {
		k := debugKey{Key: p.Key.String(), More: p.More, Failures: p.Failures}
		if p.Running {
			k.Running = time.Since(p.Since).Round(time.Millisecond).String()
		}
		if p.Waiting {
			k.Due = p.Due
		}
		for _, cause := range p.Causes {
			k.Causes = append(k.Causes, kube.Printable(cause, maxDebugText))
		}
		out.Keys = append(out.Keys, k)
	}
	for _, f := range failing {
		out.Failing = append(out.Failing, debugFailing{f.Key.String(), f.Failures,
			f.Severity == health.Stalled, f.Since})
	}
	for _, part := range c.Parts() {
		if len(part.Problems) > 0 && len(out.NotWorking) < maxDebugKeys {
			out.NotWorking = append(out.NotWorking, debugNamespace{part.Namespace,
				kube.Printable(health.Texts(part.Problems, time.Now()), maxDebugText)})
		}
	}
	return out
}
