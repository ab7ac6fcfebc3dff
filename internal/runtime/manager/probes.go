package manager

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/page"
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

// check is one line of a probe. Its error is what is wrong. ?verbose shows the lines of status below it. An error of a
// mirror, and lines that are quoted, may repeat parts of an object.
type check struct {
	name   string
	run    func() error
	quotes bool                       // the error may repeat parts of an object
	status func(quoted bool) []string // nil: nothing
}

// live answers whether the process is alive: an API server that is down must not get all its controllers restarted. A
// leader whose work has not ended long after it lost the lease is not alive.
func (m *Manager) live() []check {
	checks := []check{{name: pingCheck, run: func() error { return nil }}}
	if m.o.Elector != nil {
		checks = append(checks, check{name: leaderCheck, run: m.o.Elector.Check})
	}
	return checks
}

// maxSilent bounds the watches that a failed check names.
const maxSilent = 10

// watching fails when a watch has been silent for WatchTimeout: no list, event, bookmark or renewal, and no refusal
// either. A healthy watch is renewed every 5 to 10 minutes, and one that fails asks again within seconds, so only an
// outage that long, or a watch that does not work any more, makes it fail. A restart is harmless then: the mirrors are
// old anyway, and nothing but them is lost.
func (m *Manager) watching() error {
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
	return fmt.Errorf("no event, bookmark or renewal within %s: %s", m.o.WatchTimeout, strings.Join(silent, "; "))
}

// ready answers whether all controllers are at work: not once a stop has begun, and not before their mirrors are
// synced, or parked because a right or a resource is missing.
func (m *Manager) ready() []check {
	checks := []check{{name: shutdownCheck, run: func() error {
		if m.stopping.Load() {
			return errors.New("stopping")
		}
		return nil
	}, status: m.about}}
	for _, c := range m.controllers() {
		checks = append(checks, check{name: c.Name(), quotes: true, run: func() error {
			if m.excused() {
				return c.Synced() // that no mirror is up to date concerns all replicas, and contact says it
			}
			return c.Ready()
		}, status: func(quoted bool) []string {
			if quoted {
				return c.Status()
			}
			return c.BriefStatus()
		}})
	}
	return checks
}

// hidden is the line for those from whom the texts of errors are kept.
const hidden = "the texts of errors are shown on this machine, and on the live page with its token"

// about returns what there is to say about the process as a whole, without the texts of errors unless quoted.
func (m *Manager) about(quoted bool) []string {
	lines := m.aboutProcess()
	if !quoted {
		for i := range lines {
			lines[i] = page.Unquoted(lines[i])
		}
		lines = append(lines, hidden)
	}
	if at := m.page.Load(); at != nil {
		lines = append(lines, PageLine+*at)
	}
	if m.o.About != nil {
		lines = append(lines, m.o.About()...)
	}
	return lines
}

func (m *Manager) aboutProcess() []string {
	lines := append(m.contactLines(), m.leads()...)
	lines = append(lines, m.stuckLines()...)
	if blocked := m.logBlocked(); blocked != "" {
		lines = append(lines, controller.Attention+blocked+"; "+logStep)
	}
	if m.o.Attention != nil {
		for _, line := range m.o.Attention() {
			lines = append(lines, controller.Attention+line)
		}
	}
	return lines
}

// leads says whether the controllers of this process work or stand by, and what is known of the leader; nothing
// without an election.
func (m *Manager) leads() []string {
	if m.o.Elector == nil {
		return nil
	}
	s := m.o.Elector.Standing()
	const standby = "this process stands by; "
	holder, own := kube.Printable(s.Holder, 100), s.Holder == m.o.Elector.Identity()
	if own {
		holder = "this process"
	}
	switch {
	case s.Leading:
		return []string{"this process leads; it renewed the lease at " + ago(s.Renewed)}
	case !s.Lost.IsZero():
		text := controller.Attention + "lost the lease at " + s.Lost.Format(time.TimeOnly)
		if wait := waited(m.o.Elector.Contact()); wait > 0 {
			text += "; no answer for " + wait.Round(time.Second).String()
		}
		return []string{text + "; who leads now is unknown"}
	case s.Holder == "":
		return []string{standby + "no leader is known"}
	case s.Renewed.IsZero():
		holder += ", which has not renewed the lease since this process saw it first"
	default:
		holder += ", which renewed the lease at " + ago(s.Renewed)
	}
	if own || !time.Now().Before(s.Expires) {
		return []string{standby + "the last leader was " + holder + "; who leads now is unknown"}
	}
	return []string{standby + "the leader is " + holder + "; the lease expires at " + s.Expires.Format(time.TimeOnly)}
}

// ago is a time of the day, and how long ago it was.
func ago(t time.Time) string {
	return fmt.Sprintf("%s, %s ago", t.Format(time.TimeOnly), time.Since(t).Round(time.Second))
}

// probes serves /healthz, /livez, /readyz and their single checks, in the form of the API server's own.
func (m *Manager) probes() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]func() []check{"/healthz": m.live, "/readyz": m.ready,
		"/livez": func() []check {
			return append(m.live(), check{name: watchCheck, run: m.watching},
				check{name: workersCheck, run: m.working})
		}} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			answer(w, r, strings.TrimPrefix(path, "/"), checks())
		})
		mux.HandleFunc("GET "+path+"/{check}", func(w http.ResponseWriter, r *http.Request) {
			name := r.PathValue("check")
			all := checks()
			i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
			if i < 0 {
				http.Error(w, fmt.Sprintf("no check %q; %s?verbose lists them", name, path), http.StatusNotFound)
				return
			}
			answer(w, r, strings.TrimPrefix(path, "/")+" "+name, all[i:i+1])
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

// answer runs checks and writes "ok", or a line for each if one fails or ?verbose asks for it. ?exclude=NAME,
// given any number of times, leaves one out.
func answer(w http.ResponseWriter, r *http.Request, title string, checks []check) {
	query := r.URL.Query()
	excluded, quoted := query["exclude"], isLocal(r)
	var lines strings.Builder
	passed := true
	for _, c := range checks {
		if slices.Contains(excluded, c.name) {
			excluded = slices.DeleteFunc(excluded, func(name string) bool { return name == c.name })
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", c.name)
		} else if err := c.run(); err != nil {
			passed = false
			if c.quotes && !quoted {
				err = errors.New("reason withheld")
			}
			fmt.Fprintf(&lines, "[-]%s failed: %v\n", c.name, err)
		} else {
			fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
		}
		if c.status != nil && query.Has("verbose") {
			for _, line := range c.status(quoted) {
				fmt.Fprintf(&lines, "    %s\n", line)
			}
		}
	}
	if len(excluded) > 0 {
		fmt.Fprintf(&lines, "warn: some checks cannot be excluded: no matches for %q\n", excluded)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	switch {
	case !passed:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "%s%s check failed\n", lines.String(), title)
	case query.Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", lines.String(), title)
	default:
		fmt.Fprint(w, "ok")
	}
}
