package manager

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Names of checks that are the manager's own.
const (
	pingCheck     = "ping"
	shutdownCheck = "shutdown"
	leaderCheck   = "leader-election"
	watchCheck    = "watch"
	workersCheck  = "workers"
)

func reserved(name string) bool {
	return name == pingCheck || name == shutdownCheck || name == leaderCheck || name == workersCheck || name == ""
}

// check makes one line of a probe.
type check struct {
	name    string
	failed  func() []health.Problem // empty: it passes
	details func(*health.Check)     // adds Problems and notes for ?verbose; nil: nothing
}

// live answers whether the process is alive: an API server that is down must not get all of its controllers restarted.
// A leader whose work has not ended long after losing the lease is not alive.
func (m *Manager) live() []check {
	checks := []check{{name: pingCheck, failed: func() []health.Problem { return nil }}}
	if m.o.Elector != nil {
		checks = append(checks, check{name: leaderCheck, failed: func() []health.Problem {
			if err := m.o.Elector.Check(); err != nil {
				return []health.Problem{{Reason: "WorkNotEnded", Public: err.Error()}}
			}
			return nil
		}})
	}
	return checks
}

// maxSilent bounds the watches that a failed check names.
const maxSilent = 10

// watching fails when a watch has been silent for WatchTimeout: no list, event, bookmark or renewal, and no refusal
// either. A healthy watch is renewed every 5 to 10 minutes, and a failing watch asks again within seconds, so only an
// outage as long as WatchTimeout, or a broken watch, makes the check fail. A restart is harmless then: the mirrors are
// old anyway, and nothing but the mirrors is lost.
func (m *Manager) watching() []health.Problem {
	var silent []string
	for _, w := range controller.WatchStates(m.controllers()...) {
		last := w.LastAnswer
		if last.Before(m.started) {
			last = m.started
		}
		if age := time.Since(last); age > m.o.WatchTimeout && len(silent) < maxSilent {
			name := w.Resource.GroupResource()
			if w.Namespace != "" {
				name += " in " + w.Namespace
			}
			silent = append(silent, fmt.Sprintf("%s for %s", name, age.Round(time.Second)))
		}
	}
	if len(silent) == 0 {
		return nil
	}
	return []health.Problem{{Reason: "SilentWatch", Public: fmt.Sprintf("no event, bookmark or renewal within %s: %s",
		m.o.WatchTimeout, strings.Join(silent, "; "))}}
}

// ready answers whether all controllers are at work: not once a stop has begun, and not before their mirrors are
// synced, or parked because a right or a resource is missing.
func (m *Manager) ready() []check {
	checks := []check{{name: shutdownCheck, failed: func() []health.Problem {
		if m.stopping.Load() {
			return []health.Problem{{Reason: "Stopping", Public: "stopping"}}
		}
		return nil
	}, details: m.about}}
	for _, c := range m.controllers() {
		checks = append(checks, check{name: c.Name(), failed: func() []health.Problem {
			if m.excused() {
				return c.Unsynced() // mirrors that are all behind: contact says so
			}
			return c.NotReady()
		}, details: func(to *health.Check) {
			to.Problems, to.Notes = append(to.Problems, c.Problems()...), append(to.Notes, c.Mirrors()...)
		}})
	}
	return checks
}

// hiddenNote is for readers without the right to the texts of others.
const hiddenNote = "the texts of errors are shown on this machine, and on the live page with its token"

// about adds the Problems and notes about the process as a whole.
func (m *Manager) about(to *health.Check) {
	to.Problems = append(to.Problems, m.troubles()...)
	if note := m.contactNote(); note != "" {
		to.Notes = append(to.Notes, note)
	}
	if note := m.leads(); note != "" {
		to.Notes = append(to.Notes, note)
	}
	if at := m.page.Load(); at != nil {
		to.Notes = append(to.Notes, "live page: "+*at)
	}
	if m.o.About != nil {
		to.Notes = append(to.Notes, m.o.About()...)
	}
}

// troubles are the Problems of the process as a whole.
func (m *Manager) troubles() []health.Problem {
	all := slices.Concat(m.lost(), m.leaseLost(), m.stuckProblems(), m.logBlocked())
	if m.o.Attention != nil {
		all = append(all, m.o.Attention()...)
	}
	return all
}

// leaseLost is the Problem of a process that has led, and does not know who leads now.
func (m *Manager) leaseLost() []health.Problem {
	if m.o.Elector == nil {
		return nil
	}
	s := m.o.Elector.Standing()
	if s.Leading || s.Lost.IsZero() {
		return nil
	}
	return []health.Problem{{Reason: "LeaseLost", Public: "the lease is lost", Since: s.Lost,
		Next: "who leads now is unknown; the controllers work again when this process holds the lease again"}}
}

// leads says whether the controllers of this process work or stand by, and who leads; "" without an election.
func (m *Manager) leads() string {
	if m.o.Elector == nil {
		return ""
	}
	s, now := m.o.Elector.Standing(), time.Now()
	const standby = "this process stands by; "
	holder, own := kube.Printable(s.Holder, 100), s.Holder == m.o.Elector.Identity()
	if own {
		holder = "this process"
	}
	switch {
	case s.Leading:
		return "this process leads; it renewed the lease at " + health.Ago(s.Renewed, now)
	case !s.Lost.IsZero():
		return standby + "who leads now is unknown"
	case s.Holder == "":
		return standby + "no leader is known"
	case s.Renewed.IsZero():
		holder += ", which has not renewed the lease since this process saw it first"
	default:
		holder += ", which renewed the lease at " + health.Ago(s.Renewed, now)
	}
	if own || !now.Before(s.Expires) {
		return standby + "the last leader was " + holder + "; who leads now is unknown"
	}
	return standby + "the leader is " + holder + "; the lease expires at " + s.Expires.Format(time.TimeOnly)
}

// probes serves /healthz, /livez, /readyz and their single checks, in the form of the API server's own.
func (m *Manager) probes() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]func() []check{"/healthz": m.live, "/readyz": m.ready,
		"/livez": func() []check {
			return append(m.live(), check{name: watchCheck, failed: m.watching},
				check{name: workersCheck, failed: m.working})
		}} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			m.answer(w, r, strings.TrimPrefix(path, "/"), checks())
		})
		mux.HandleFunc("GET "+path+"/{check}", func(w http.ResponseWriter, r *http.Request) {
			name := r.PathValue("check")
			all := checks()
			i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
			if i < 0 {
				http.Error(w, fmt.Sprintf("no check %q; %s?verbose lists them", name, path), http.StatusNotFound)
				return
			}
			m.answer(w, r, strings.TrimPrefix(path, "/")+" "+name, all[i:i+1])
		})
	}
	return mux
}

// isLocal says whether a request comes from a program on this machine, and not through a browser from another site,
// whose name may point to this machine (DNS rebinding).
func isLocal(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if at := net.ParseIP(host); host != "localhost" && (at == nil || !at.IsLoopback()) {
		return false
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err != nil || from.Addr().Unmap().IsLoopback() // without an address it is no network
}

// answer runs checks and writes "ok", or a line for each check where one fails or ?verbose is given; with ?format=json
// a [health.Report]. ?exclude=NAME, given any number of times, leaves a check out.
func (m *Manager) answer(w http.ResponseWriter, r *http.Request, title string, checks []check) {
	query := r.URL.Query()
	asJSON := query.Get("format") == "json"
	excluded, unknown := query["exclude"], query["exclude"]
	all := make([]health.Check, 0, len(checks))
	passed := true
	for _, c := range checks {
		is := health.Check{Name: c.name, Excluded: slices.Contains(excluded, c.name)}
		unknown = slices.DeleteFunc(slices.Clone(unknown), func(name string) bool { return name == c.name })
		if !is.Excluded {
			is.Failed = c.failed()
			passed = passed && len(is.Failed) == 0
		}
		if c.details != nil && (asJSON || query.Has("verbose")) {
			c.details(&is)
		}
		if !isLocal(r) {
			is = is.Hidden()
			if c.name == shutdownCheck && is.Notes != nil {
				is.Notes = append(is.Notes, hiddenNote)
			}
		}
		all = append(all, is)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	code := http.StatusOK
	if !passed {
		code = http.StatusServiceUnavailable
	}
	if asJSON {
		page := ""
		if at := m.page.Load(); at != nil {
			page = *at
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(health.NewReport(all, passed, page)) // an error says that the client has gone
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if passed && !query.Has("verbose") {
		fmt.Fprint(w, "ok")
		return
	}
	w.WriteHeader(code)
	health.WriteText(w, all, query.Has("verbose"), time.Now())
	if len(unknown) > 0 {
		fmt.Fprintf(w, "warn: some checks cannot be excluded: no matches for %q\n", unknown)
	}
	verdict := "passed"
	if !passed {
		verdict = "failed"
	}
	fmt.Fprintf(w, "%s check %s\n", title, verdict)
}
